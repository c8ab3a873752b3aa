//! `stats`, `list` and `why` look at a file that they may not write, or that another program has locked.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::database::WriteLock;
use crate::support::process::{CommandOutput, PROGRAM, program};
use crate::support::skipped::skipped;

/// A user without rights of its own, and its group. Permissions do not stop root.
const NOBODY: u32 = 65_534;

/// The commands that only look.
const COMMANDS: [&str; 3] = ["stats", "list work --state ready", "why work 1"];

/// Runs a command as a user who may read the folder and its files, and may write none of them.
fn look(workspace: &Workspace, arguments: &str) -> CommandOutput {
    let folder = workspace.folder.path();
    for file in fs::read_dir(folder).expect("the folder") {
        set_mode(&file.expect("a file").path(), 0o444);
    }
    set_mode(folder, 0o555);
    let mut command = program();
    command.args(arguments.split_whitespace());
    command.args(["--config", "queues.toml", "--store", "q.db"]);
    let output = as_reader(&mut command, folder).output().expect("a process");
    set_mode(folder, 0o755);
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn as_reader<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command.current_dir(folder);
    if is_root(folder) {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Returns whether the test runs as root: the folder that it has just made belongs to root.
fn is_root(folder: &Path) -> bool {
    fs::metadata(folder).expect("the folder").uid() == 0
}

fn set_mode(path: &Path, mode: u32) {
    let changed = fs::set_permissions(path, Permissions::from_mode(mode));
    changed.expect("the permissions change");
}

/// Returns whether a user without rights can run the program at all.
fn can_look(workspace: &Workspace) -> bool {
    let folder = workspace.folder.path();
    set_mode(folder, 0o755);
    let mut command = Command::new(PROGRAM);
    let ran = as_reader(command.arg("--version"), folder).output();
    let can_run = ran.is_ok_and(|output| output.status.success());
    if !can_run {
        skipped("another user than root may not run the program in this folder");
    }
    can_run
}

/// Returns the number of ready items of the queue `work`.
fn ready_items(printed: &CommandOutput) -> serde_json::Value {
    let queues = printed.json();
    let work = queues.iter().find(|queue| queue["queue"] == "work");
    work.expect("a queue")["ready"].clone()
}

fn files(workspace: &Workspace) -> Vec<String> {
    let files = fs::read_dir(workspace.folder.path()).expect("the folder");
    let name = |file: std::io::Result<fs::DirEntry>| {
        let name = file.expect("a file").file_name();
        name.into_string().expect("UTF-8")
    };
    let mut names: Vec<String> = files.map(name).collect();
    names.sort();
    names
}

#[test]
fn looking_does_not_wait_for_a_foreign_write_lock() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    let _lock = WriteLock::acquire(&workspace.path("q.db"));
    for command in COMMANDS {
        let printed = workspace.store(command);
        assert_eq!((printed.code, &*printed.err), (0, ""), "{printed:?}");
    }
}

#[test]
fn unused_file_in_a_read_only_folder_is_read() {
    let mut workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    let mut broker = workspace.process.take().expect("a service");
    broker.signal("TERM");
    assert!(broker.wait().success());
    if !can_look(&workspace) {
        return;
    }
    let before = files(&workspace);
    assert!(
        !before.iter().any(|name| name.ends_with("-shm")),
        "{before:?}"
    );
    for command in COMMANDS {
        let printed = look(&workspace, command);
        assert_eq!((printed.code, &*printed.err), (0, ""), "{printed:?}");
    }
    assert_eq!(
        ready_items(&look(&workspace, "stats --output json")),
        json!(1)
    );
    // A user who may write the folder leaves no file there either.
    assert_eq!(workspace.store("stats").code, 0);
    assert_eq!(files(&workspace), before);
}

#[test]
fn reader_of_a_used_file_sees_the_last_change() {
    let workspace = Workspace::serving();
    if !can_look(&workspace) {
        return;
    }
    for ready in 1..=2 {
        workspace.call("enqueue work --set payload=x");
        let stats = look(&workspace, "stats --output json");
        assert_eq!(ready_items(&stats), json!(ready));
    }
    let why = look(&workspace, "why work 1 --output json").json();
    assert_eq!(
        (&why[0]["causes"], &why[0]["brokers"]),
        (&json!(["first"]), &json!(1))
    );
}

#[test]
fn log_of_a_killed_broker_is_read() {
    let mut workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    workspace.process.take().expect("a service").kill();
    if !can_look(&workspace) {
        return;
    }
    assert!(workspace.path("q.db-wal").exists());
    assert_eq!(
        ready_items(&look(&workspace, "stats --output json")),
        json!(1)
    );
    // Without its index the log can be read only where the index can be created.
    fs::remove_file(workspace.path("q.db-shm")).expect("an index");
    let refused = look(&workspace, "stats");
    assert_eq!(refused.code, 74, "{refused:?}");
    for part in ["q.db-wal has changes", "q.db-shm", "copy"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    let printed = workspace.store("stats --output json");
    assert_eq!(ready_items(&printed), json!(1));
}

#[test]
fn file_without_the_tables_of_a_broker_is_read() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'lease_broker_%'";
    let count = || -> i64 { crate::support::database::query_value(&workspace.database(), tables) };
    let before = count();
    for command in ["stats", "list work"] {
        assert_eq!(workspace.store(command).code, 0);
    }
    assert_eq!(
        count(),
        before,
        "a command that only looks has created tables"
    );
}
