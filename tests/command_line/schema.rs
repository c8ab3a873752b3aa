//! Tests of `schema plan`, `apply`, `check` and `drop` on a table that other programs created and filled.

use crate::command_line::terminal::Terminal;
use crate::command_line::workspace::Workspace;
use crate::support::database;
use crate::support::timeout::wait_until_blocking;

const QUEUES: &str = "
[queues.rainfall]
table = 'Rainfall Events'
order = ['Priority desc', 'Event_ID']
[queues.rainfall.soft_lock]
lease_owner = 'Process_ID'
[queues.rainfall.mirror]
ready = { Processed = 0 }
completed = { Processed = 1, Finished_At = '$now' }
dead = { Processed = 2 }
";

/// Creates a table that is not adopted yet. The column `Processed` says that some rows are already done or given up.
fn not_adopted() -> Workspace {
    let workspace = Workspace::with(QUEUES);
    workspace.database()
        .execute_batch(
            "CREATE TABLE \"Rainfall Events\" (
                Event_ID INTEGER PRIMARY KEY, Station TEXT, Priority INTEGER NOT NULL DEFAULT 0,
                Processed INTEGER NOT NULL DEFAULT 0, Finished_At TEXT, Process_ID TEXT);
            INSERT INTO \"Rainfall Events\" (Event_ID, Station, Priority, Processed)
            VALUES (1, 'done', 0, 1), (2, 'open', 0, 0), (3, 'urgent', 9, 0), (4, 'given up', 0, 2), (5, 'done', 9, 1)",
        )
        .expect("a table");
    workspace
}

fn states(workspace: &Workspace) -> String {
    database::query_value(
        &workspace.database(),
        "SELECT group_concat(lease_state, ' ') FROM (SELECT * FROM \"Rainfall Events\" ORDER BY Event_ID)",
    )
}

#[test]
fn plan_prints_valid_sql_and_changes_nothing() {
    let workspace = not_adopted();
    let before: String = database::query_value(
        &workspace.database(),
        "SELECT group_concat(sql) FROM sqlite_master",
    );
    let plan = workspace.store("schema plan");
    assert_eq!(plan.code, 0, "{plan:?}");
    let after: String = database::query_value(
        &workspace.database(),
        "SELECT group_concat(sql) FROM sqlite_master",
    );
    assert_eq!(before, after);
    assert!(!plan.out.contains("ADD COLUMN \"Process_ID\""), "{plan:?}");
    workspace
        .database()
        .execute_batch(&plan.out)
        .expect("the plan is SQL");
    assert_eq!(states(&workspace), "3 0 0 4 3");
    let check = workspace.store("schema check");
    // The plan does not change the journal mode. The broker will.
    let (ok, warning) = check.out.split_once('\n').expect("lines");
    assert_eq!((check.code, ok), (0, "rainfall: ok"), "{check:?}");
    assert!(warning.starts_with("rainfall: warning: the broker changes the journal mode"));
}

#[test]
fn plan_and_check_warn_about_foreign_keys() {
    let workspace = Workspace::with("[queues.item]\non_complete = 'delete'\n");
    workspace
        .database()
        .execute_batch(
            "CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE line (item_id INTEGER REFERENCES item (id))",
        )
        .expect("tables");
    let warning = "warning: a foreign key of table line refers to table \"item\"";
    let plan = workspace.store("schema plan");
    assert!(plan.out.contains(&format!("\n-- {warning}")), "{plan:?}");
    let applied = workspace.store("schema apply");
    assert_eq!(applied.code, 0, "{applied:?}");
    let check = workspace.store("schema check");
    assert_eq!(check.code, 0, "{check:?}");
    assert!(
        check.out.starts_with(&format!("item: ok\nitem: {warning}")),
        "{check:?}"
    );
}

#[test]
fn apply_adopts_existing_rows_once() {
    let workspace = not_adopted();
    let check = workspace.store("schema check");
    assert_eq!(check.code, 64, "{check:?}");
    assert!(
        check.out.contains("rainfall: ") && check.out.contains("lease_state"),
        "{check:?}"
    );
    let applied = workspace.store("schema apply --pace 100000 rainfall");
    assert_eq!(applied.code, 0, "{applied:?}");
    assert!(
        applied.out.contains("already completed (2 rows)"),
        "{applied:?}"
    );
    assert_eq!(states(&workspace), "3 0 0 4 3");
    let again = workspace.store("schema apply");
    assert_eq!(again.out, "rainfall: nothing is missing\n");
    let plan = workspace.store("schema plan");
    assert!(plan.out.contains("nothing is missing"), "{plan:?}");
}

#[test]
fn check_warns_of_finished_rows_that_are_not_marked() {
    let warning =
        "rainfall: warning: `schema apply` has yet to mark the rows that are already completed";
    let workspace = not_adopted();
    let frozen = "CREATE TRIGGER frozen BEFORE UPDATE ON \"Rainfall Events\" WHEN old.Event_ID = 5
        BEGIN SELECT RAISE(IGNORE); END";
    workspace.database().execute_batch(frozen).expect(frozen);
    let applied = workspace.store("schema apply");
    assert_eq!(applied.code, 64, "{applied:?}");
    assert!(applied.err.contains("item 5, so that"), "{applied:?}");
    // A person runs the statements that are left.
    let plan = workspace.store("schema plan");
    let database = workspace.database();
    database.execute_batch(&plan.out).expect("the plan is SQL");
    assert_eq!(states(&workspace), "3 0 0 4 0");
    let check = workspace.store("schema check");
    assert_eq!(check.code, 0, "{check:?}");
    assert!(check.out.contains(warning), "{check:?}");
    database
        .execute_batch("DROP TRIGGER frozen")
        .expect("dropped");
    assert_eq!(workspace.store("schema apply").code, 0);
    assert_eq!(states(&workspace), "3 0 0 4 3");
    let check = workspace.store("schema check");
    assert!(!check.out.contains(warning), "{check:?}");
}

#[test]
fn triggers_are_run_only_with_a_consent() {
    let workspace = not_adopted();
    let refused = workspace.store("schema check --triggers rainfall");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("--yes"), "{refused:?}");
    let sqlite = workspace.store("schema check --triggers --yes rainfall");
    assert_eq!(sqlite.code, 64, "{sqlite:?}");
    assert!(sqlite.err.contains("on SQL Server only"), "{sqlite:?}");
}

#[test]
fn mirrored_columns_follow_the_state() {
    let mut workspace = not_adopted();
    workspace.store("schema apply");
    workspace.serve();
    let leases = workspace
        .call("claim rainfall --limit 10 --worker me")
        .json();
    let keys: Vec<_> = leases.iter().map(|lease| lease["key"].as_str()).collect();
    assert_eq!(keys, [Some("3"), Some("2")]);
    let owner: String = database::query_value(
        &workspace.database(),
        "SELECT Process_ID FROM \"Rainfall Events\" WHERE Event_ID = 3",
    );
    assert_eq!(owner, "me");
    let id = leases[0]["lease_id"].as_str().expect("an id");
    workspace.call(&format!("complete rainfall {id}")).json();
    let id = leases[1]["lease_id"].as_str().expect("an id");
    workspace
        .call(&format!("fail rainfall {id} --dead-letter"))
        .json();
    let processed: String = database::query_value(
        &workspace.database(),
        "SELECT group_concat(Processed || (Finished_At IS NOT NULL), ' ')
         FROM (SELECT * FROM \"Rainfall Events\" WHERE Event_ID IN (2, 3) ORDER BY Event_ID)",
    );
    assert_eq!(processed, "20 11");
    // Programs that do not know the queue can still insert rows.
    let insert = "INSERT INTO \"Rainfall Events\" (Station) VALUES ('new')";
    workspace.database().execute(insert, []).expect("a row");
    assert_eq!(workspace.call("claim rainfall --wait 10s").json().len(), 1);
}

#[test]
fn managed_queue_requires_no_apply() {
    let workspace = Workspace::with(crate::command_line::workspace::QUEUES);
    let plan = workspace.store("schema plan work");
    assert!(plan.out.contains("CREATE TABLE \"work\""), "{plan:?}");
    assert!(!plan.out.contains("outbox"), "{plan:?}");
    let check = workspace.store("schema check");
    assert_eq!(check.code, 0, "serve would start: {check:?}");
}

#[test]
fn plan_and_check_do_not_write_the_file() {
    let workspace = Workspace::with("[queues.notes]\nmanaged_columns = { text = 'text' }");
    for command in ["schema plan", "schema check"] {
        let printed = workspace.store(command);
        assert_eq!(printed.code, 0, "{printed:?}");
    }
    assert!(!workspace.path("q.db").exists());
    let workspace = not_adopted();
    let before = std::fs::read(workspace.path("q.db")).expect("the file");
    workspace.store("schema plan");
    workspace.store("schema check");
    assert_eq!(
        std::fs::read(workspace.path("q.db")).expect("the file"),
        before
    );
}

#[test]
fn drop_removes_only_applied_changes() {
    let columns = |workspace: &Workspace| -> String {
        let columns = "SELECT group_concat(name) FROM pragma_table_info('Rainfall Events')";
        database::query_value(&workspace.database(), columns)
    };
    let workspace = not_adopted();
    let before = columns(&workspace);
    workspace.store("schema apply");
    let shown = workspace.store("schema drop rainfall");
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(
        shown.out.contains("DROP COLUMN \"lease_state\""),
        "{shown:?}"
    );
    // The configuration names this column, and the table had it before.
    let kept = "-- table \"Rainfall Events\" keeps Process_ID: ";
    assert!(shown.out.contains(kept), "{shown:?}");
    assert!(
        !shown.out.contains("DROP COLUMN \"Process_ID\""),
        "{shown:?}"
    );
    assert_ne!(
        columns(&workspace),
        before,
        "without --run the SQL is only printed"
    );
    let run = workspace.store("schema drop rainfall --run");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(columns(&workspace), before);
    let again = workspace.store("schema drop rainfall");
    assert!(again.out.contains("nothing to drop"), "{again:?}");
    assert_eq!(
        workspace.store("schema drop").code,
        64,
        "a queue must be named"
    );
}

#[test]
fn refused_drop_changes_nothing_and_says_so() {
    let workspace = not_adopted();
    workspace.store("schema apply");
    let view = "CREATE VIEW broken AS SELECT x FROM nowhere";
    workspace.database().execute_batch(view).expect(view);
    let refused = workspace.store("schema drop rainfall --run");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("error in view broken"), "{refused:?}");
    assert!(refused.err.contains("nothing was dropped"), "{refused:?}");
    let check = workspace.store("schema check");
    assert_eq!(check.out, "rainfall: ok\n", "{check:?}");
}

#[test]
fn columns_of_another_queue_over_the_table_are_no_data() {
    let mut workspace = Workspace::with(
        "[queues.a]
        table = 'orders'
        on_complete = { archive = 'done' }
        [queues.a.soft_lock]
        lease_state = 'a_state'
        lease_state_time = 'a_state_time'
        lease_due_time = 'a_due_time'
        lease_owner = 'a_owner'
        lease_token = 'a_token'
        lease_fence = 'a_fence'
        lease_attempt = 'a_attempt'
        lease_error = 'a_error'
        trace_parent = 'a_trace_parent'
        [queues.b]
        table = 'orders'",
    );
    let table = "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT); INSERT INTO orders VALUES (1, 'x')";
    workspace.database().execute_batch(table).expect(table);
    let applied = workspace.store("schema apply");
    assert_eq!(applied.code, 0, "{applied:?}");
    let check = workspace.store("schema check");
    assert_eq!(check.out, "a: ok\nb: ok\n", "{check:?}");
    workspace.serve();
    let leases = workspace.call("claim b").json();
    assert_eq!(
        leases[0]["columns"],
        serde_json::json!({ "id": 1, "v": "x" })
    );
}

#[test]
fn check_names_what_apply_would_refuse() {
    let workspace = not_adopted();
    let taken = "CREATE TABLE \"Rainfall Events_lease_due\" (id INT)";
    workspace.database().execute_batch(taken).expect(taken);
    let check = workspace.store("schema check");
    assert_eq!(check.code, 64, "{check:?}");
    assert!(check.out.contains("another table has it"), "{check:?}");
    assert!(check.err.contains("apply` cannot solve"), "{check:?}");
}

#[test]
fn drop_refuses_while_a_broker_runs_unless_forced() {
    let mut workspace = not_adopted();
    workspace.store("schema apply");
    workspace.serve();
    wait_until_blocking("the broker is listed", || {
        let brokers = "SELECT count(*) FROM lease_broker_instance";
        database::query_value::<i64>(&workspace.database(), brokers) == 1
    });
    let refused = workspace.store("schema drop rainfall --run");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("runs on this database"), "{refused:?}");
    assert!(refused.err.contains("--force"), "{refused:?}");
    let shown = workspace.store("schema drop rainfall");
    assert!(
        shown.out.contains("-- warning: the broker 127.0.0.1:"),
        "{shown:?}"
    );
    let lease = workspace.call("claim rainfall").json();
    assert_eq!(lease.len(), 1);
    let refused = workspace.store("schema drop rainfall --run");
    assert!(
        refused.err.contains("1 lease of its items is held"),
        "{refused:?}"
    );
    let forced = workspace.store("schema drop rainfall --run --force");
    assert_eq!(forced.code, 0, "{forced:?}");
}

#[test]
fn drop_after_a_broker_has_stopped_is_allowed() {
    let mut workspace = not_adopted();
    workspace.store("schema apply");
    workspace.serve();
    let mut broker = workspace.process.take().expect("a broker");
    broker.signal("TERM");
    assert!(broker.wait().success());
    let dropped = workspace.store("schema drop rainfall --run");
    assert_eq!(dropped.code, 0, "{dropped:?}");
}

#[test]
fn drop_asks_in_a_terminal() {
    let workspace = not_adopted();
    workspace.store("schema apply");
    let drop = [
        "schema",
        "drop",
        "rainfall",
        "--run",
        "--config",
        "queues.toml",
        "--store",
        "q.db",
    ];
    let question = "to table Rainfall Events, with all leases and states of queue rainfall?";
    for (answer, code, removed) in [("n\n", 3, false), ("y\n", 0, true)] {
        let mut terminal = Terminal::run(workspace.folder.path(), &drop);
        terminal.answer(question, answer);
        let (ended, screen) = terminal.end();
        assert_eq!(ended, Some(code), "{screen}");
        let left = workspace.store("schema drop rainfall");
        assert_eq!(left.out.contains("nothing to drop"), removed, "{left:?}");
    }
}

#[test]
fn check_advises_apply_only_if_it_helps() {
    let workspace = not_adopted();
    let advice = |workspace: &Workspace| workspace.store("schema check").err;
    assert!(advice(&workspace).contains("run `lease-broker schema apply`"));
    let add = "ALTER TABLE \"Rainfall Events\" ADD COLUMN lease_token TEXT";
    workspace.database().execute_batch(add).expect(add);
    assert!(advice(&workspace).contains("apply` cannot solve"));
}

#[test]
fn drop_refuses_managed_table() {
    let mut workspace = Workspace::with(crate::command_line::workspace::QUEUES);
    workspace.serve();
    let refused = workspace.store("schema drop work --run");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("managed"), "{refused:?}");
}
