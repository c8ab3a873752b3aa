//! Tests of `backup` and `restore`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use crate::command_line::terminal::Terminal;
use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::database::query_value;

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn restore_goes_back_to_the_backup_of_a_running_service() {
    let mut workspace = Workspace::serving();
    let lost = workspace.lease();
    let backup = workspace.store("backup old.db");
    assert_eq!(backup.out, "old.db is a backup of q.db\n", "{backup:?}");
    let again = workspace.store("backup old.db");
    assert_eq!(again.code, 74, "{again:?}");
    assert!(
        again.err.contains("old.db exists already; name a new file"),
        "{again:?}"
    );
    workspace.call("enqueue work --set payload=later");
    let refused = workspace.store("restore old.db");
    assert_eq!(refused.code, 74);
    let process = workspace.process.as_mut().expect("a service");
    let holder = format!(
        "process {} (lease-broker) has the file open; end all brokers",
        process.id()
    );
    assert!(refused.err.contains(&holder), "{refused:?}");
    process.signal("STOP");
    let refused = workspace.store("restore old.db");
    assert!(
        refused.err.contains("has the file open and is stopped;"),
        "{refused:?}"
    );
    let process = workspace.process.as_mut().expect("a service");
    // A killed broker leaves its log.
    process.kill();
    assert!(fs::metadata(workspace.path("q.db-wal")).is_ok_and(|log| log.len() > 0));
    let restored = workspace.store("restore old.db");
    assert_eq!(restored.code, 0, "{restored:?}");
    let report = lines(&restored.out);
    assert!(report[0].starts_with("old.db, a backup of 2"), "{report:?}");
    assert!(report[0].ends_with(", is now q.db"), "{report:?}");
    assert_eq!(
        report[1..3],
        ["outbox: 0 leases ended", "work: 1 lease ended"]
    );
    assert!(report[3].starts_with("every fencing token from now on is greater than 1"));
    assert!(!workspace.path("q.db-wal").exists());
    let mut names = fs::read_dir(workspace.path(".")).expect("the folder");
    let is_unfinished = |name: std::ffi::OsString| name.to_string_lossy().contains("-unfinished");
    assert!(!names.any(|entry| is_unfinished(entry.expect("an entry").file_name())));
    workspace.serve();
    let late = workspace.call(&format!("complete work {lost}"));
    assert_eq!(late.code, 1, "{late:?}");
    let claimed = workspace.call("claim work --limit 9").json();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    let fence = claimed[0]["fencing_token"].as_i64();
    assert!(fence > Some(1_000_000_000_000_000), "{claimed:?}");
    assert_eq!(claimed[0]["attempt"], 1);
}

#[test]
fn restore_names_queues_whose_leases_go_on() {
    let mut workspace = Workspace::serving();
    workspace.lease();
    assert_eq!(workspace.store("backup old.db").code, 0);
    workspace.process = None;
    let others = "outbox: its leases go on, because the configuration has no such queue";
    let restored = workspace.run("restore old.db --store new.db");
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(restored.out.contains(others), "{restored:?}");
    assert!(
        restored.out.contains("work: its leases go on"),
        "{restored:?}"
    );
    let restored = workspace.store("restore old.db");
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(!restored.out.contains("go on"), "{restored:?}");
}

#[test]
fn answer_no_in_a_terminal_restores_nothing() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    assert_eq!(workspace.store("backup old.db").code, 0);
    let arguments = "restore old.db --store q.db --config queues.toml";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let mut terminal = Terminal::run(workspace.folder.path(), &arguments);
    terminal.answer("with all its items by old.db?", "n\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(3), "{screen}");
    assert!(screen.contains("nothing was changed"), "{screen}");
}

#[test]
fn backup_in_place_of_the_file_needs_a_new_epoch() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    assert_eq!(workspace.store("backup old.db").code, 0);
    fs::rename(workspace.path("old.db"), workspace.path("q.db")).expect("renamed");
    let refused = workspace.store("serve --listen 127.0.0.1:0");
    assert_eq!(refused.code, 74, "{refused:?}");
    assert!(refused.err.contains("restore --in-place"), "{refused:?}");
    let begun = workspace.store("restore --in-place");
    assert_eq!(begun.code, 0, "{begun:?}");
    let mut workspace = workspace;
    workspace.serve();
    workspace.lease();
}

#[test]
fn restore_asks_for_a_file_or_in_place() {
    let workspace = Workspace::with(QUEUES);
    let refused = workspace.store("restore");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("<FILE|--in-place>"), "{refused:?}");
    assert_eq!(workspace.store("restore old.db --in-place").code, 64);
}

#[test]
fn restore_that_fails_changes_nothing() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    let before = fs::read(workspace.path("q.db")).expect("a file");
    workspace.write("text.db", "no database");
    fs::write(workspace.path("half.db"), &before[..before.len() / 2]).expect("a file");
    for backup in ["missing.db", "text.db", "half.db", "q.db.d/x"] {
        let failed = workspace.store(&format!("restore {backup}"));
        assert_eq!(failed.code, 74, "{failed:?}");
        assert!(failed.err.contains(backup), "{failed:?}");
    }
    assert_eq!(fs::read(workspace.path("q.db")).expect("a file"), before);
    let names = fs::read_dir(workspace.folder.path()).expect("a folder");
    assert_eq!(names.count(), 4);
}

#[test]
fn copy_by_another_program_can_be_restored() {
    let mut workspace = Workspace::serving();
    workspace.lease();
    let copy = format!("VACUUM INTO '{}'", workspace.path("copy.db").display());
    workspace.database().execute_batch(&copy).expect("a copy");
    workspace.process = None;
    let restored = workspace.store("restore copy.db");
    assert!(
        restored.out.starts_with("copy.db is now q.db\n"),
        "{restored:?}"
    );
    let fence: i64 = query_value(
        &workspace.database(),
        "SELECT fence FROM lease_broker_epoch",
    );
    assert!(fence > 1_000_000_000_000_000);
}

#[test]
fn files_keep_who_may_read_them() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    let mode = |name: &str| {
        let file = fs::metadata(workspace.path(name)).expect("a file");
        file.permissions().mode() & 0o777
    };
    fs::set_permissions(workspace.path("q.db"), Permissions::from_mode(0o640)).expect("set");
    assert_eq!(workspace.store("backup old.db").code, 0);
    assert_eq!(mode("old.db"), 0o640);
    fs::set_permissions(workspace.path("old.db"), Permissions::from_mode(0o444)).expect("set");
    assert_eq!(workspace.store("restore old.db").code, 0);
    assert_eq!(mode("q.db"), 0o640);
}

#[test]
fn file_that_is_no_backup_is_refused() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    workspace.write("empty.db", "");
    let other = "CREATE TABLE bookmarks (url TEXT)";
    let foreign = rusqlite::Connection::open(workspace.path("foreign.db")).expect("a file");
    foreign.execute_batch(other).expect(other);
    let before = fs::read(workspace.path("q.db")).expect("the database");
    for file in ["empty.db", "foreign.db"] {
        let refused = workspace.store(&format!("restore {file} --yes"));
        assert_eq!(refused.code, 64, "{refused:?}");
        assert!(
            refused.err.contains(&format!("{file}: not a backup")),
            "{refused:?}"
        );
    }
    assert_eq!(
        fs::read(workspace.path("q.db")).expect("the database"),
        before
    );
}

/// SQLite would apply a log or a journal to the new file of the same name.
#[test]
fn log_and_journal_of_another_file_are_not_applied() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    for suffix in ["-wal", "-journal"] {
        let name = format!("old.db{suffix}");
        workspace.write(&name, "of an earlier file");
        let refused = workspace.store("backup old.db");
        assert_eq!(refused.code, 74, "{refused:?}");
        assert!(
            refused.err.contains(&format!("{name} exists already")),
            "{refused:?}"
        );
        assert!(!workspace.path("old.db").exists());
        fs::remove_file(workspace.path(&name)).expect("removed");
    }
    assert_eq!(workspace.store("backup old.db").code, 0);
    // A program that changes a large table is killed.
    let database = workspace.database();
    let changes = "PRAGMA journal_mode = delete; PRAGMA cache_size = 5;
        CREATE TABLE other (b TEXT);
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
        INSERT INTO other SELECT printf('%0500d', n) FROM n;
        BEGIN IMMEDIATE; UPDATE other SET b = b || 'x'";
    database.execute_batch(changes).expect(changes);
    let journal = workspace.path("q.db-journal");
    let bytes = fs::read(&journal).expect("a journal");
    drop(database);
    fs::write(&journal, bytes).expect("a journal");
    let restored = workspace.store("restore old.db --yes");
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(!journal.exists());
    let check: String = query_value(&workspace.database(), "PRAGMA integrity_check");
    assert_eq!(check, "ok");
}

#[test]
fn backup_from_before_an_adoption_can_be_restored() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    let table = "CREATE TABLE later (id INTEGER PRIMARY KEY)";
    workspace.database().execute_batch(table).expect(table);
    assert_eq!(workspace.store("backup old.db").code, 0);
    workspace.write(
        "queues.toml",
        &format!("{QUEUES}[queues.later]\ntable = 'later'\n"),
    );
    assert_eq!(workspace.store("schema apply").code, 0);
    let restored = workspace.store("restore old.db --yes");
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(!restored.out.contains("later"), "{restored:?}");
    assert_eq!(workspace.store("schema apply").code, 0);
}
