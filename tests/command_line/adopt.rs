//! Tests of `adopt`, which makes an existing table a queue.

use std::process::{Command, Output};

use crate::command_line::terminal::Terminal;
use crate::command_line::workspace::Workspace;
use crate::support::database;

const ORDERS: &str = "
    CREATE TABLE Orders (Order_ID INTEGER PRIMARY KEY, Customer TEXT NOT NULL, Total NUMERIC,
        Processed INTEGER NOT NULL DEFAULT 0);
    INSERT INTO Orders (Customer, Processed) VALUES ('Ada', 1), ('Grace', 0), ('Edsger', 0);";

/// Creates a folder with the table in `q.db`.
fn with_table(sql: &str) -> Workspace {
    let workspace = Workspace::with("");
    workspace.database().execute_batch(sql).expect("tables");
    workspace
}

/// Returns the schema and the rows of the table.
fn state(workspace: &Workspace, table: &str) -> (String, Vec<Vec<rusqlite::types::Value>>) {
    let database = workspace.database();
    let schema =
        "SELECT group_concat(sql, ';') FROM sqlite_schema WHERE tbl_name NOT LIKE 'lease_broker%'";
    (
        database::query_value(&database, schema),
        database::all_rows(&database, table),
    )
}

const ADOPT: &str = "adopt --store q.db --table Orders";

#[test]
fn proposals_are_written_and_the_queue_serves() {
    let mut workspace = with_table(ORDERS);
    let adopted =
        workspace.run("adopt --store q.db --listen 127.0.0.1:50052 --config queues2.toml --yes");
    assert_eq!(adopted.code, 0, "{adopted:?}");
    let toml = std::fs::read_to_string(workspace.path("queues2.toml")).expect("the configuration");
    let expected = r#"# The table Orders as the queue orders, as `lease-broker adopt` wrote it. All settings: deploy/config.default.toml.

[store]
path = "q.db"

[server]
listen = "127.0.0.1:50052"

[queues.orders]
table = "Orders"
# A lease ends after this time without a heartbeat, and another worker gets the row.
lease_duration = "1m"
# Workers may write their results into these columns.
writable = ["Total"]

# Columns that show other programs the state of a row. Rows that are completed already are not claimed.
[queues.orders.mirror]
ready = { Processed = 0 }
completed = { Processed = 1 }
"#;
    assert_eq!(toml, expected);
    std::fs::copy(
        workspace.path("queues2.toml"),
        workspace.path("queues.toml"),
    )
    .expect("a copy");
    workspace.serve();
    let leases = workspace.call("claim orders --limit 9").json();
    let keys: Vec<_> = leases.iter().map(|lease| lease["key"].as_str()).collect();
    assert_eq!(
        keys,
        [Some("2"), Some("3")],
        "the first row was processed before"
    );
}

#[test]
fn rows_with_a_time_of_completion_stay_completed() {
    let mut workspace = with_table(
        "CREATE TABLE Orders (id INTEGER PRIMARY KEY, shipped_at DATETIME);
         INSERT INTO Orders VALUES (1, '2026-01-01 10:00:00'), (2, NULL);",
    );
    let adopted = workspace.run(&format!("{ADOPT} --yes"));
    assert_eq!(adopted.code, 0, "{adopted:?}");
    std::fs::copy(workspace.path("orders.toml"), workspace.path("queues.toml")).expect("a copy");
    workspace.serve();
    let leases = workspace.call("claim orders --limit 9").json();
    let keys: Vec<_> = leases.iter().map(|lease| lease["key"].as_str()).collect();
    assert_eq!(keys, [Some("2")]);
}

#[test]
fn values_that_show_no_state_are_no_ready_rows() {
    let workspace = with_table(
        "CREATE TABLE Orders (id INTEGER PRIMARY KEY, status TEXT);
         INSERT INTO Orders (status) VALUES ('new'), ('done'), ('cancelled'), (x'ff');",
    );
    let before = state(&workspace, "Orders");
    let refused = workspace.run(&format!("{ADOPT} --yes"));
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("\"cancelled\""), "{refused:?}");
    assert_eq!(state(&workspace, "Orders"), before);
    let (_, flags) = refused.err.split_once("yourself: ").expect("the flags");
    let adopted = workspace.run(&format!("{ADOPT} --yes {}", flags.trim()));
    assert_eq!(adopted.code, 0, "{adopted:?}");
}

#[test]
fn rows_that_another_program_processes_are_no_ready_rows() {
    let workspace = with_table(
        "CREATE TABLE Orders (id INTEGER PRIMARY KEY, status TEXT);
         INSERT INTO Orders (status) VALUES ('new'), ('done'), ('running');",
    );
    let refused = workspace.run(&format!("{ADOPT} --yes"));
    assert_eq!(refused.code, 64, "{refused:?}");
    let named = "status = \"running\" (1 row), and workers would get them";
    assert!(refused.err.contains(named), "{refused:?}");
    let (_, flags) = refused.err.split_once("yourself: ").expect("the flags");
    let adopted = workspace.run(&format!("{ADOPT} --yes {}", flags.trim()));
    assert_eq!(adopted.code, 0, "{adopted:?}");
    let warning = "the row of an item that dies keeps status = \"running\"";
    assert!(adopted.out.contains(warning), "{adopted:?}");
    // An item that failed waits. Its row does not show that a worker has it.
    let toml = std::fs::read_to_string(workspace.path("orders.toml")).expect("the configuration");
    let delayed = "delayed = { status = \"new\" }";
    assert!(toml.contains(delayed), "{toml}");
}

#[test]
fn flags_of_other_meanings_are_left_alone() {
    let workspace = with_table(
        "CREATE TABLE Jobs (id INTEGER PRIMARY KEY, Needs_Processing bit NOT NULL DEFAULT 1, Consent boolean);
         INSERT INTO Jobs (Consent) VALUES (1), (0);",
    );
    let adopted = workspace.run("adopt --store q.db --table Jobs --yes");
    assert_eq!(adopted.code, 0, "{adopted:?}");
    assert!(!adopted.out.contains(".mirror]"), "{adopted:?}");
    let completed: i64 = database::query_value(
        &workspace.database(),
        "SELECT count(*) FROM Jobs WHERE lease_state <> 0",
    );
    assert_eq!(completed, 0);
}

#[test]
fn flags_decide_between_several_columns() {
    let workspace = with_table(
        "CREATE TABLE Orders (id INTEGER PRIMARY KEY, Status TEXT NOT NULL, Shipped_At datetime);
         INSERT INTO Orders (Status, Shipped_At) VALUES ('new', NULL), ('cancelled', NULL), ('error', NULL),
            ('done', '2026-01-01 10:00:00');",
    );
    let before = state(&workspace, "Orders");
    let refused = workspace.run(&format!("{ADOPT} --yes"));
    assert_eq!(refused.code, 64, "{refused:?}");
    let status =
        "--mirror ready:Status=new --mirror completed:Status=done --mirror dead:Status=error";
    let shipped = "--mirror 'ready:Shipped_At=$null' --mirror 'completed:Shipped_At=$now'";
    for part in [status, shipped, "\"cancelled\" (1 row)"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    assert_eq!(state(&workspace, "Orders"), before);
    let adopted = workspace.run(&format!("{ADOPT} --yes {status}"));
    assert_eq!(adopted.code, 0, "{adopted:?}");
}

#[test]
fn state_column_without_a_completed_row_is_not_ignored() {
    for values in ["('new'), ('cancelled')", "('neu'), ('erledigt')"] {
        let workspace = with_table(&format!(
            "CREATE TABLE Orders (id INTEGER PRIMARY KEY, Status TEXT NOT NULL);
             INSERT INTO Orders (Status) VALUES {values};"
        ));
        let refused = workspace.run(&format!("{ADOPT} --yes"));
        assert_eq!(refused.code, 64, "{refused:?}");
        for part in ["--mirror completed:Status=VALUE", "--mirror ''"] {
            assert!(refused.err.contains(part), "{part}: {refused:?}");
        }
        let adopted = workspace.run(&format!("{ADOPT} --yes --mirror="));
        assert_eq!(adopted.code, 0, "{adopted:?}");
    }
}

#[test]
fn key_that_can_be_null_is_named_and_not_proposed_as_a_result() {
    let workspace = with_table(
        "CREATE TABLE Jobs (id TEXT PRIMARY KEY, v TEXT); INSERT INTO Jobs VALUES ('a', NULL);",
    );
    let refused = workspace.run("adopt --store q.db --config jobs.toml --yes");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("--key"), "{refused:?}");
    let adopted = workspace
        .run("adopt --store q.db --config jobs.toml --key id --listen 127.0.0.1:7000 --yes");
    assert_eq!(adopted.code, 0, "{adopted:?}");
    let toml = std::fs::read_to_string(workspace.path("jobs.toml")).expect("the configuration");
    assert!(toml.contains("writable = [\"v\"]"), "{toml}");
    let next = "lease-broker claim jobs --address http://127.0.0.1:7000\n";
    assert!(adopted.out.ends_with(next), "{adopted:?}");
}

#[test]
fn undo_file_gives_the_table_back() {
    let workspace = with_table(ORDERS);
    let before = state(&workspace, "Orders");
    let adopted = workspace.run(&format!("{ADOPT} --yes"));
    assert_eq!(adopted.code, 0, "{adopted:?}");
    assert_ne!(state(&workspace, "Orders"), before);
    let undo = std::fs::read_to_string(workspace.path("orders.undo.sql")).expect("the undo file");
    workspace
        .database()
        .execute_batch(&undo)
        .expect("valid SQL");
    assert_eq!(state(&workspace, "Orders"), before);
}

#[test]
fn nothing_changes_without_confirmation() {
    let workspace = with_table(ORDERS);
    let before = state(&workspace, "Orders");
    let refused = workspace.run(ADOPT);
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("--yes"), "{refused:?}");
    assert!(
        refused.out.contains("[queues.orders]"),
        "the proposal is shown: {refused:?}"
    );
    assert!(
        refused.out.contains("add the ready index"),
        "the plan is shown: {refused:?}"
    );
    assert!(
        refused
            .out
            .contains("journal mode of the file from delete to WAL"),
        "{refused:?}"
    );
    let unknown = workspace.run("adopt --store q.db --table Ordres --yes");
    assert_eq!(unknown.code, 64, "{unknown:?}");
    assert_eq!(state(&workspace, "Orders"), before);
    assert_eq!(journal_mode(&workspace), "delete");
    assert!(!workspace.path("orders.toml").exists());
    let adopted = workspace.run(&format!("{ADOPT} --yes"));
    assert_eq!(adopted.code, 0, "{adopted:?}");
    assert_eq!(journal_mode(&workspace), "wal");
}

fn journal_mode(workspace: &Workspace) -> String {
    database::query_value(&workspace.database(), "PRAGMA journal_mode")
}

#[test]
fn existing_files_are_not_overwritten() {
    let workspace = with_table(ORDERS);
    workspace.write("orders.toml", "mine");
    let before = state(&workspace, "Orders");
    let refused = workspace.run(&format!("{ADOPT} --yes"));
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(
        refused.err.contains("orders.toml already exists"),
        "{refused:?}"
    );
    assert_eq!(state(&workspace, "Orders"), before);
    let kept = std::fs::read_to_string(workspace.path("orders.toml")).expect("the file");
    assert_eq!(kept, "mine");
}

#[test]
fn mistakes_name_what_there_is() {
    let workspace = with_table(&format!("{ORDERS} CREATE TABLE log (line TEXT)"));
    let missing = workspace.run("adopt --store q.db --yes");
    assert!(
        missing
            .err
            .contains("--table is missing; the database has Orders, log"),
        "{missing:?}"
    );
    let unknown = workspace.run("adopt --store q.db --table Ordres --yes");
    assert!(
        unknown
            .err
            .contains("no table \"Ordres\"; it has Orders, log"),
        "{unknown:?}"
    );
    let keyless = workspace.run("adopt --store q.db --table log --yes");
    assert!(
        keyless.err.contains("table \"log\" has no primary key"),
        "{keyless:?}"
    );
    let column = workspace.run(&format!("{ADOPT} --writable Totl --yes"));
    assert!(column.err.contains("has no column \"Totl\""), "{column:?}");
    let mirror = workspace.run(&format!("{ADOPT} --mirror done:Processed=1 --yes"));
    assert!(mirror.err.contains("STATE:COLUMN=VALUE"), "{mirror:?}");
    let own = workspace.run("adopt --store q.db --table Lease_Broker_Queue --yes");
    assert!(own.err.contains("belongs to the broker"), "{own:?}");
    let file = workspace.run("adopt --store absent.db --yes");
    assert_eq!(
        (file.code, workspace.path("absent.db").exists()),
        (74, false),
        "{file:?}"
    );
    for refused in [missing, unknown, keyless, column, mirror, own] {
        assert_eq!(refused.code, 64, "{refused:?}");
    }
}

#[test]
fn columns_of_our_names_stay_those_of_the_table() {
    let workspace = with_table(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, lease_owner TEXT, trace_parent INTEGER);
        INSERT INTO jobs (lease_owner, trace_parent) VALUES ('tenant', 7);",
    );
    let before = state(&workspace, "jobs");
    let adopted = workspace.run("adopt --store q.db --yes");
    assert_eq!(adopted.code, 0, "{adopted:?}");
    assert!(
        adopted.out.contains("lease_owner = \"lb_lease_owner\""),
        "{adopted:?}"
    );
    let dropped = workspace.run("schema drop --config jobs.toml jobs --run");
    assert_eq!(dropped.code, 0, "{dropped:?}");
    assert_eq!(state(&workspace, "jobs"), before);
}

#[test]
fn interrupted_adoption_is_finished_by_the_next_one() {
    let workspace = with_table(ORDERS);
    let before = state(&workspace, "Orders");
    let adopted = workspace.run(&format!("{ADOPT} --yes"));
    assert_eq!(adopted.code, 0, "{adopted:?}");
    // The table as it was after seven of the nine columns.
    workspace
        .database()
        .execute_batch(
            "DROP INDEX Orders_lease_ready; DROP INDEX Orders_lease_due; DROP INDEX Orders_lease_token; DROP INDEX Orders_lease_dead;
            ALTER TABLE Orders DROP COLUMN trace_parent; ALTER TABLE Orders DROP COLUMN lease_error;
            DELETE FROM lease_broker_added WHERE kind = 'index' OR name IN ('trace_parent', 'lease_error')",
        )
        .expect("half an adoption");
    let again = workspace.run(&format!(
        "{ADOPT} --yes --config again.toml --undo again.sql"
    ));
    assert_eq!(again.code, 0, "{again:?}");
    assert!(!again.out.contains("lb_"), "{again:?}");
    let dropped = workspace.run("schema drop --config again.toml orders --run");
    assert_eq!(dropped.code, 0, "{dropped:?}");
    assert_eq!(state(&workspace, "Orders"), before);
}

/// Runs the adoption with a limit of the size of each file, in blocks of 512 bytes. A write beyond it fails as one on a full disk does.
fn adopt_with_small_files(workspace: &Workspace, blocks: u32) -> Output {
    let command = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {ADOPT} --yes");
    Command::new("sh")
        .args(["-c", &command, env!("CARGO_BIN_EXE_lease-broker")])
        .current_dir(workspace.folder.path())
        .output()
        .expect("the shell starts")
}

#[test]
fn failed_adoption_names_the_command_that_continues() {
    // The first limit stops the adoption before it changes the table, the second among its steps.
    for blocks in [100, 300] {
        let workspace = with_table(ORDERS);
        let before = state(&workspace, "Orders");
        let failed = adopt_with_small_files(&workspace, blocks);
        let error = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(74), "{failed:?}");
        let next = "schema apply --config orders.toml";
        let undo = "schema drop --config orders.toml orders --run";
        for command in [next, undo] {
            assert!(
                error.contains(&format!("`lease-broker {command}`")),
                "{error}"
            );
        }
        let again = workspace.run(&format!("{ADOPT} --yes"));
        assert!(again.err.contains(next), "{again:?}");
        for command in [next, undo] {
            let done = workspace.run(command);
            assert_eq!(done.code, 0, "{done:?}");
        }
        assert_eq!(state(&workspace, "Orders"), before);
    }
}

#[test]
fn primary_key_that_can_be_null_is_named() {
    let workspace = with_table(
        "CREATE TABLE one (k TEXT PRIMARY KEY, v TEXT);
        CREATE TABLE four (a INT, b INT, c INT, d INT, PRIMARY KEY (a, b, c, d))",
    );
    let one = workspace.run("adopt --store q.db --table one --yes");
    let four = workspace.run("adopt --store q.db --table four --yes");
    for (refused, parts) in [
        (&one, &["(k) can be NULL", "NOT NULL", "--key k"][..]),
        (&four, &["(a, b, c, d) can be NULL", "NOT NULL"]),
    ] {
        assert_eq!(refused.code, 64, "{refused:?}");
        for part in parts {
            assert!(refused.err.contains(part), "{part}: {refused:?}");
        }
    }
    assert!(!four.err.contains("--key"), "{four:?}");
    let named = workspace.run("adopt --store q.db --table one --key k --yes");
    assert_eq!(named.code, 0, "{named:?}");
}

#[test]
fn questions_in_a_terminal_lead_to_a_queue() {
    let workspace = with_table(&format!("{ORDERS} CREATE TABLE log (line TEXT)"));
    let mut terminal = Terminal::run(workspace.folder.path(), &["adopt", "--store", "q.db"]);
    terminal.answer("Table", "\r");
    terminal.answer("Name of the queue", "\r");
    terminal.answer("a row is done", "\r");
    terminal.answer("workers may write", "\r");
    terminal.answer("Write orders.toml and change the table Orders?", "y\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    let check = workspace.run("schema check --config orders.toml");
    assert_eq!((check.code, &*check.out), (0, "orders: ok\n"), "{check:?}");
}

#[test]
fn value_of_dead_rows_is_asked_for() {
    let workspace = with_table(
        "CREATE TABLE Orders (id INTEGER PRIMARY KEY, Status TEXT NOT NULL);
         INSERT INTO Orders (Status) VALUES ('new'), ('done'), ('running');",
    );
    let mut terminal = Terminal::run(workspace.folder.path(), &["adopt", "--store", "q.db"]);
    terminal.answer("Name of the queue", "\r");
    terminal.answer("a row is done", "\r");
    let screen = terminal.answer("Value of Status for dead rows", "failed\r");
    terminal.answer("Write orders.toml and change the table Orders?", "y\n");
    let (code, end) = terminal.end();
    assert_eq!(code, Some(0), "{end}");
    assert!(screen.contains("\"running\" (1 row)"), "{screen}");
    let toml = std::fs::read_to_string(workspace.path("orders.toml")).expect("the configuration");
    assert!(toml.contains("dead = { Status = \"failed\" }"), "{toml}");
}

#[test]
fn answer_no_in_a_terminal_changes_nothing() {
    let workspace = with_table(ORDERS);
    let before = state(&workspace, "Orders");
    let arguments = [
        "adopt",
        "--store",
        "q.db",
        "--queue",
        "orders",
        "--mirror",
        "",
        "--writable",
        "",
    ];
    let mut terminal = Terminal::run(workspace.folder.path(), &arguments);
    terminal.answer("Write orders.toml and change the table Orders?", "n\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(3), "{screen}");
    assert_eq!(state(&workspace, "Orders"), before);
}
