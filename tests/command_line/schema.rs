//! `schema plan`, `apply` and `check` on a table that other programs have used for long.

use crate::desk::Desk;
use crate::support::database;

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

/// A table with a column that will follow the state, and rows that are done or given up already.
fn adopted() -> Desk {
    let desk = Desk::with(QUEUES);
    desk.database()
        .execute_batch(
            "CREATE TABLE \"Rainfall Events\" (
                Event_ID INTEGER PRIMARY KEY, Station TEXT, Priority INTEGER NOT NULL DEFAULT 0,
                Processed INTEGER NOT NULL DEFAULT 0, Finished_At TEXT, Process_ID TEXT);
            INSERT INTO \"Rainfall Events\" (Event_ID, Station, Priority, Processed)
            VALUES (1, 'done', 0, 1), (2, 'open', 0, 0), (3, 'urgent', 9, 0), (4, 'given up', 0, 2), (5, 'done', 9, 1)",
        )
        .expect("a table");
    desk
}

fn states(desk: &Desk) -> String {
    database::value(
        &desk.database(),
        "SELECT group_concat(lease_state, ' ') FROM (SELECT * FROM \"Rainfall Events\" ORDER BY Event_ID)",
    )
}

#[test]
fn plan_prints_statements_that_a_plain_sqlite_runs_and_changes_nothing_itself() {
    let desk = adopted();
    let before: String = database::value(
        &desk.database(),
        "SELECT group_concat(sql) FROM sqlite_master",
    );
    let plan = desk.store("schema plan");
    assert_eq!(plan.code, 0, "{plan:?}");
    let after: String = database::value(
        &desk.database(),
        "SELECT group_concat(sql) FROM sqlite_master",
    );
    assert_eq!(before, after);
    assert!(!plan.out.contains("ADD COLUMN \"Process_ID\""), "{plan:?}");
    desk.database()
        .execute_batch(&plan.out)
        .expect("the plan is SQL");
    assert_eq!(states(&desk), "3 0 0 4 3");
    let check = desk.store("schema check");
    assert_eq!(
        (check.code, &*check.out),
        (0, "rainfall: ok\n"),
        "{check:?}"
    );
}

#[test]
fn apply_adopts_the_table_and_its_rows_and_a_second_one_finds_nothing_to_do() {
    let desk = adopted();
    let check = desk.store("schema check");
    assert_eq!(check.code, 64, "{check:?}");
    assert!(
        check.out.contains("rainfall: ") && check.out.contains("lease_state"),
        "{check:?}"
    );
    let applied = desk.store("schema apply rainfall");
    assert_eq!(applied.code, 0, "{applied:?}");
    assert!(
        applied.out.contains("completed already (2 rows)"),
        "{applied:?}"
    );
    assert_eq!(states(&desk), "3 0 0 4 3");
    let again = desk.store("schema apply");
    assert_eq!(again.out, "rainfall: nothing is missing\n");
    let plan = desk.store("schema plan");
    assert!(plan.out.contains("nothing is missing"), "{plan:?}");
}

#[test]
fn an_adopted_table_is_served_and_its_own_columns_follow_the_state() {
    let mut desk = adopted();
    desk.store("schema apply");
    desk.serve();
    let leases = desk.call("claim rainfall --max 10 --worker me").json();
    let keys: Vec<_> = leases.iter().map(|lease| lease["key"].as_str()).collect();
    assert_eq!(keys, [Some("3"), Some("2")]);
    let owner: String = database::value(
        &desk.database(),
        "SELECT Process_ID FROM \"Rainfall Events\" WHERE Event_ID = 3",
    );
    assert_eq!(owner, "me");
    let id = leases[0]["lease_id"].as_str().expect("an id");
    desk.call(&format!("complete rainfall {id}")).json();
    let id = leases[1]["lease_id"].as_str().expect("an id");
    desk.call(&format!("fail rainfall {id} --dead-letter"))
        .json();
    let processed: String = database::value(
        &desk.database(),
        "SELECT group_concat(Processed || (Finished_At IS NOT NULL), ' ')
         FROM (SELECT * FROM \"Rainfall Events\" WHERE Event_ID IN (2, 3) ORDER BY Event_ID)",
    );
    assert_eq!(processed, "20 11");
    // Programs that know nothing of the queue go on inserting.
    let insert = "INSERT INTO \"Rainfall Events\" (Station) VALUES ('new')";
    desk.database().execute(insert, []).expect("a row");
    assert_eq!(desk.call("claim rainfall --wait 10s").json().len(), 1);
}

#[test]
fn a_managed_queue_needs_no_apply() {
    let desk = Desk::with(crate::desk::QUEUES);
    let plan = desk.store("schema plan work");
    assert!(plan.out.contains("CREATE TABLE \"work\""), "{plan:?}");
    assert!(!plan.out.contains("outbox"), "{plan:?}");
    let check = desk.store("schema check");
    assert_eq!(check.code, 0, "serve would start: {check:?}");
}

#[test]
fn plan_and_check_neither_make_a_file_nor_change_one() {
    let desk = Desk::with("[queues.notes]\nmanaged = { text = 'text' }");
    for command in ["schema plan", "schema check"] {
        let printed = desk.store(command);
        assert_eq!(printed.code, 0, "{printed:?}");
    }
    assert!(!desk.path("q.db").exists());
    let desk = adopted();
    let before = std::fs::read(desk.path("q.db")).expect("the file");
    desk.store("schema plan");
    desk.store("schema check");
    assert_eq!(std::fs::read(desk.path("q.db")).expect("the file"), before);
}

#[test]
fn drop_takes_away_what_apply_added_and_nothing_else() {
    let columns = |desk: &Desk| -> String {
        let columns = "SELECT group_concat(name) FROM pragma_table_info('Rainfall Events')";
        database::value(&desk.database(), columns)
    };
    let desk = adopted();
    let before = columns(&desk);
    desk.store("schema apply");
    let shown = desk.store("schema drop rainfall");
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(
        shown.out.contains("DROP COLUMN \"lease_state\""),
        "{shown:?}"
    );
    // It has a name of its own, and was there before.
    assert!(!shown.out.contains("Process_ID"), "{shown:?}");
    assert_ne!(columns(&desk), before, "it was only shown");
    let run = desk.store("schema drop rainfall --run");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(columns(&desk), before);
    let again = desk.store("schema drop rainfall");
    assert!(again.out.contains("nothing to drop"), "{again:?}");
    assert_eq!(
        desk.store("schema drop").code,
        64,
        "a queue has to be named"
    );
}

#[test]
fn a_managed_table_is_not_dropped_with_its_items() {
    let mut desk = Desk::with(crate::desk::QUEUES);
    desk.serve();
    let refused = desk.store("schema drop work --run");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("managed"), "{refused:?}");
}
