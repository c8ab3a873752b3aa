//! The steps of `schema plan`, which an administrator can also run by hand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, OnComplete, QueueSpec};
use lease_broker_store::schema::{Progress, Schema as _, Step, apply_missing};
use lease_broker_store::sqlite::SqliteSchema;
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::errors::misconfigured;
use crate::harness::fixture::{Fixture, by, keys, mirror, queue};
use crate::harness::sqlite::SqliteHarness;
use crate::support::database::query_value;

const ORDERS: &str = "CREATE TABLE \"my orders\" (
        id INTEGER PRIMARY KEY,
        customer VARCHAR(40) NOT NULL,
        urgency INT,
        processed BOOLEAN NOT NULL DEFAULT 0,
        label TEXT AS (customer || ' ' || urgency)
    );
    INSERT INTO \"my orders\" (customer, urgency, processed)
    VALUES ('ann', 1, 0), ('bob', 2, 1), ('cem', 3, 0)";

fn spec() -> QueueSpec {
    let mut spec = queue("my orders");
    spec.order = by(&["-urgency"]);
    spec.on_complete = OnComplete::Archive("done".to_owned());
    spec.mirror = vec![mirror(
        State::Completed,
        "processed",
        MirrorValue::Literal(Value::Bool(true)),
    )];
    spec
}

/// Returns the steps as text: purposes as comments, then the SQL.
fn text(steps: &[Step]) -> String {
    let step = |step: &Step| {
        let repeat = if step.until_no_rows {
            " (until it changes nothing)"
        } else {
            ""
        };
        format!("-- {}{repeat}\n{};\n", step.purpose, step.sql)
    };
    steps.iter().map(step).collect::<Vec<_>>().concat()
}

const PLAN: &str = r#"-- create the tables in which the broker records the parts that it adds
CREATE TABLE IF NOT EXISTS lease_broker_added (
    table_name TEXT NOT NULL COLLATE NOCASE,
    kind TEXT NOT NULL CHECK (kind IN ('column', 'index')),
    name TEXT NOT NULL COLLATE NOCASE,
    PRIMARY KEY (table_name, kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease_broker_fence (
    table_name TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
    fence INTEGER NOT NULL
) WITHOUT ROWID;
-- add the soft-lock column lease_state
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'lease_state');
ALTER TABLE "my orders" ADD COLUMN "lease_state" INTEGER NOT NULL DEFAULT 0;
-- add the soft-lock column lease_state_time
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'lease_state_time');
ALTER TABLE "my orders" ADD COLUMN "lease_state_time" INTEGER NOT NULL DEFAULT 0;
-- add the soft-lock column lease_due_time
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'lease_due_time');
ALTER TABLE "my orders" ADD COLUMN "lease_due_time" INTEGER;
-- add the soft-lock column lease_owner
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'lease_owner');
ALTER TABLE "my orders" ADD COLUMN "lease_owner" TEXT;
-- add the soft-lock column lease_token
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'lease_token');
ALTER TABLE "my orders" ADD COLUMN "lease_token" BLOB;
-- add the soft-lock column lease_fence
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'lease_fence');
ALTER TABLE "my orders" ADD COLUMN "lease_fence" INTEGER NOT NULL DEFAULT 0;
-- add the soft-lock column lease_attempt
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'lease_attempt');
ALTER TABLE "my orders" ADD COLUMN "lease_attempt" INTEGER NOT NULL DEFAULT 0;
-- add the soft-lock column lease_error
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'lease_error');
ALTER TABLE "my orders" ADD COLUMN "lease_error" TEXT;
-- add the soft-lock column trace_parent
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'column', 'trace_parent');
ALTER TABLE "my orders" ADD COLUMN "trace_parent" TEXT;
-- mark the rows that are already completed (until it changes nothing)
UPDATE "my orders"
SET "lease_state" = 3
WHERE ("id") IN (
    SELECT "id" FROM "my orders"
    WHERE "lease_state" = 0 AND "lease_fence" <= 0 AND "processed" = 1
    LIMIT 10000);
-- add the ready index
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'index', 'my orders_lease_ready');
CREATE INDEX "my orders_lease_ready" ON "my orders" ("urgency" DESC, "id") WHERE "lease_state" = 0;
-- add the due index
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'index', 'my orders_lease_due');
CREATE INDEX "my orders_lease_due" ON "my orders" ("lease_due_time") WHERE "lease_state" IN (1, 2);
-- add the token index
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'index', 'my orders_lease_token');
CREATE INDEX "my orders_lease_token" ON "my orders" ("lease_token") WHERE "lease_state" = 1;
-- add the dead index
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ('my orders', 'index', 'my orders_lease_dead');
CREATE INDEX "my orders_lease_dead" ON "my orders" ("lease_state_time") WHERE "lease_state" = 4;
-- create the archive table done
CREATE TABLE "done" ("id" INTEGER, "customer" VARCHAR(40), "urgency" INT, "processed" BOOLEAN, "lease_state_time" INTEGER, "lease_owner" TEXT, "lease_fence" INTEGER, "lease_attempt" INTEGER, "trace_parent" TEXT);
"#;

#[tokio::test]
async fn plan_of_an_adopted_table_is_exact() {
    let harness = SqliteHarness::with(ORDERS).await;
    let steps = harness.plan(&spec()).await.expect("plan");
    assert_eq!(text(&steps), PLAN);
}

#[tokio::test]
async fn plan_run_by_hand_is_complete() {
    let harness = SqliteHarness::with(ORDERS).await;
    let connection = harness.connect();
    for step in harness.plan(&spec()).await.expect("plan") {
        if step.until_no_rows {
            while connection.execute(&step.sql, []).expect(&step.sql) > 0 {}
        } else {
            connection.execute_batch(&step.sql).expect(&step.sql);
        }
    }
    assert_eq!(harness.check(&spec()).await, Ok(Vec::new()));
    assert_eq!(harness.plan(&spec()).await, Ok(Vec::new()));
    let fixture = Fixture::adopt(harness, vec![spec()]).await;
    let items = fixture.claim(9).await;
    assert_eq!(keys(&items), ["3", "1"]);
    fixture.complete(&items[0].lease).await;
    let done = "SELECT customer, processed, lease_owner FROM done";
    let done: (String, bool, String) = connection
        .query_row(done, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect(done);
    assert_eq!(done, ("cem".to_owned(), true, "worker".to_owned()));
}

const REPORT: &str = "CREATE VIEW report AS SELECT id, lease_owner FROM \"my orders\"";

#[tokio::test]
async fn removal_that_a_view_refuses_changes_nothing() {
    let harness = SqliteHarness::with(ORDERS).await;
    let before = harness.describe("my orders").await;
    harness.apply(&spec()).await.expect("apply");
    harness.execute(REPORT);
    let adopted = harness.describe("my orders").await;
    let steps = harness.plan_removal(&spec()).await.expect("plan").steps;
    let [step] = &*steps else {
        panic!("{steps:?}");
    };
    let text = misconfigured(harness.run(step).await);
    assert!(text.contains("view report"), "{text}");
    assert!(text.contains("drop that one first"), "{text}");
    assert_eq!(harness.describe("my orders").await, adopted);
    assert_eq!(harness.check(&spec()).await, Ok(Vec::new()));
    harness.execute("DROP VIEW report");
    harness.run(step).await.expect(&step.sql);
    assert_eq!(harness.describe("my orders").await, before);
}

/// The sqlite3 program goes on after an error.
#[tokio::test]
async fn removal_by_hand_keeps_the_record_of_a_column_that_stays() {
    let harness = SqliteHarness::with(ORDERS).await;
    let connection = harness.connect();
    let before = harness.describe("my orders").await;
    harness.apply(&spec()).await.expect("apply");
    connection.execute_batch(REPORT).expect(REPORT);
    let steps = harness.plan_removal(&spec()).await.expect("plan").steps;
    let statements = steps[0].sql.split(";\n");
    let refused = statements.filter(|sql| connection.execute_batch(sql).is_err());
    assert_eq!(refused.count(), 1);
    connection.execute_batch("DROP VIEW report").expect("drop");
    let steps = harness.plan_removal(&spec()).await.expect("plan").steps;
    harness.run(&steps[0]).await.expect(&steps[0].sql);
    assert_eq!(harness.describe("my orders").await, before);
}

#[tokio::test]
async fn names_of_indexes_that_are_taken_are_found_by_the_plan() {
    let harness = SqliteHarness::with(ORDERS).await;
    let others = "CREATE TABLE \"My Orders_lease_token\" (id INT);
        CREATE INDEX \"my orders_lease_due\" ON \"My Orders_lease_token\" (id)";
    harness.execute(others);
    let text = misconfigured(harness.plan(&spec()).await);
    assert!(
        text.contains("my orders_lease_due for an index, and another index of table My Orders_lease_token has it"),
        "{text}"
    );
    assert!(
        text.contains("my orders_lease_token for an index, and another table has it"),
        "{text}"
    );
}

#[tokio::test]
async fn refused_step_is_named() {
    let harness = SqliteHarness::with(ORDERS).await;
    let trigger = "CREATE TRIGGER finished BEFORE UPDATE ON \"my orders\" WHEN old.processed
        BEGIN SELECT RAISE(ABORT, 'finished orders are read-only'); END";
    harness.execute(trigger);
    let text = misconfigured(harness.apply(&spec()).await);
    assert_eq!(
        text,
        "mark the rows that are already completed: the schema refuses: finished orders are read-only"
    );
}

#[tokio::test]
async fn ignored_row_of_the_backfill_is_named_and_stays_planned() {
    let harness = SqliteHarness::with(ORDERS).await;
    let connection = harness.connect();
    let trigger = "UPDATE \"my orders\" SET processed = 1;
        CREATE TRIGGER frozen BEFORE UPDATE ON \"my orders\" WHEN old.id < 3 BEGIN SELECT RAISE(IGNORE); END";
    connection.execute_batch(trigger).expect(trigger);
    let text = misconfigured(harness.apply(&spec()).await);
    let expected = "mark the rows that are already completed: a trigger ignores the change of item 1 and 1 more";
    assert!(text.starts_with(expected), "{text}");
    let marked = "SELECT group_concat(id) FROM \"my orders\" WHERE lease_state = 3";
    assert_eq!(query_value::<String>(&connection, marked), "3");
    let mut schema = SqliteSchema::open(&harness.path()).expect("open");
    let steps = schema.plan(&spec()).expect("plan");
    assert!(steps.iter().any(|step| step.until_no_rows));
    connection
        .execute_batch("DROP TRIGGER frozen")
        .expect("dropped");
    harness.apply(&spec()).await.expect("apply");
    assert_eq!(query_value::<String>(&connection, marked), "1,2,3");
}

#[tokio::test]
async fn filtered_indexes_are_replaced_if_the_queue_has_none() {
    let harness = SqliteHarness::with(ORDERS).await;
    harness.apply(&spec()).await.expect("apply");
    let mut unfiltered = spec();
    unfiltered.filtered_indexes = false;
    let problems = harness.check(&unfiltered).await.expect("check").join("; ");
    assert!(problems.contains("my orders_lease_due"), "{problems}");
    let fixture = Fixture::adopt(harness, vec![unfiltered]).await;
    fixture.one().await;
    assert_eq!(fixture.list(State::Leased).await.len(), 1);
    assert_eq!(fixture.counts().await, [1, 1, 0, 1, 0]);
}

#[tokio::test]
async fn large_backfill_runs_in_batches_and_reports_progress() {
    let harness = SqliteHarness::with(ORDERS).await;
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 25000)
        INSERT INTO \"my orders\" (customer, processed) SELECT 'x', 1 FROM n";
    harness.execute(fill);
    let mut schema = SqliteSchema::open(&harness.path()).expect("open");
    let mut progress = Vec::new();
    for step in schema.plan(&spec()).expect("plan") {
        let mut report = |done: Progress| progress.push(done.changed);
        schema.apply(&step, &mut report).expect(&step.sql);
    }
    assert_eq!(progress.len(), 13);
    assert_eq!((progress[0], progress[12]), (2_000, 25_001));
}

/// A writer completes rows all the time, some of them behind the walk.
#[tokio::test]
async fn backfill_ends_while_others_complete_rows() {
    let harness = SqliteHarness::with(ORDERS).await;
    let connection = harness.connect();
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
        INSERT INTO \"my orders\" (customer, processed) SELECT 'x', 1 FROM n";
    connection.execute_batch(fill).expect(fill);
    let mut schema = SqliteSchema::open(&harness.path()).expect("open");
    let mut runs: i64 = 0;
    let mut complete_one = |_: Progress| {
        runs += 1;
        let insert = "INSERT INTO \"my orders\" (id, customer, processed) VALUES (?1, 'x', 1)";
        connection.execute(insert, [-runs]).expect(insert);
        assert!(runs < 100, "the back-fill does not end");
    };
    for step in schema.plan(&spec()).expect("plan") {
        let done = schema.apply(&step, &mut complete_one);
        done.expect(&step.sql);
    }
    // The next plan finds these rows.
    let left = schema.plan(&spec()).expect("plan");
    assert_eq!(left.len(), 1, "{left:?}");
    let mut changed = 0;
    let done = schema.apply(&left[0], &mut |done| changed = done.changed);
    done.expect(&left[0].sql);
    assert_eq!(changed, runs.unsigned_abs());
    assert_eq!(schema.plan(&spec()).expect("plan"), []);
}

/// The first run is interrupted after its second chunk.
#[tokio::test]
async fn interrupted_backfill_goes_on_where_it_stopped() {
    let create = "CREATE TABLE \"my orders\" (
            region TEXT, number INT, urgency INT, processed BOOLEAN NOT NULL, PRIMARY KEY (region, number)
        );
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 9000)
        INSERT INTO \"my orders\" SELECT 'region ' || (n % 7), n, 0, n % 2 FROM n";
    let harness = SqliteHarness::with(create).await;
    let mut schema = SqliteSchema::open(&harness.path()).expect("open");
    let steps = schema.plan(&spec()).expect("plan");
    let backfill = steps.iter().position(|step| step.until_no_rows);
    let backfill = backfill.expect("a back-fill");
    for step in &steps[..backfill] {
        schema.apply(step, &mut |_| ()).expect(&step.sql);
    }
    let interrupted = catch_unwind(AssertUnwindSafe(|| {
        let done = schema.apply(&steps[backfill], &mut |done| {
            assert!(done.changed < 4_000, "interrupted");
        });
        done.expect(&steps[backfill].sql);
    }));
    assert!(interrupted.is_err());
    let mut schema = SqliteSchema::open(&harness.path()).expect("open");
    let mut changed = 0;
    for step in schema.plan(&spec()).expect("plan") {
        let done = schema.apply(&step, &mut |done| changed = done.changed);
        done.expect(&step.sql);
    }
    assert_eq!(changed, 500);
    assert_eq!(schema.check(&spec()).expect("check"), [""; 0]);
}

#[tokio::test]
async fn backfill_reads_keys_that_are_no_valid_text() {
    let create = "CREATE TABLE \"my orders\" (id TEXT PRIMARY KEY NOT NULL, urgency INT, processed INT);
        INSERT INTO \"my orders\" (id, processed) VALUES (CAST(x'ff41' AS TEXT), 1), ('b', 1), ('c', 0)";
    let harness = SqliteHarness::with(create).await;
    let fixture = Fixture::adopt(harness, vec![spec()]).await;
    assert_eq!(fixture.counts().await, [1, 0, 0, 2, 0]);
}

#[tokio::test]
async fn plan_of_a_managed_table_creates_it() {
    let harness = SqliteHarness::start().await;
    let mut spec = queue("mail");
    spec.managed_columns = Some(vec![("body".to_owned(), "TEXT NOT NULL".to_owned())]);
    let steps = harness.plan(&spec).await.expect("plan");
    let expected = r#"-- create the table of queue "mail"
CREATE TABLE "mail" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    "body" TEXT NOT NULL,
    "lease_state" INTEGER NOT NULL DEFAULT 0,
    "lease_state_time" INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    "lease_due_time" INTEGER,
    "lease_owner" TEXT,
    "lease_token" BLOB,
    "lease_fence" INTEGER NOT NULL DEFAULT 0,
    "lease_attempt" INTEGER NOT NULL DEFAULT 0,
    "lease_error" TEXT,
    "trace_parent" TEXT
);
-- add the ready index
CREATE INDEX "mail_lease_ready" ON "mail" ("id") WHERE "lease_state" = 0;
-- add the due index
CREATE INDEX "mail_lease_due" ON "mail" ("lease_due_time") WHERE "lease_state" IN (1, 2);
-- add the token index
CREATE INDEX "mail_lease_token" ON "mail" ("lease_token") WHERE "lease_state" = 1;
-- add the dead index
CREATE INDEX "mail_lease_dead" ON "mail" ("lease_state_time") WHERE "lease_state" = 4;
"#;
    assert_eq!(text(&steps), expected);
}

#[tokio::test]
async fn plan_finds_a_taken_name_before_the_table_exists() {
    let harness = SqliteHarness::with("CREATE TABLE item_lease_due (id INT)").await;
    let mut spec = queue("item");
    spec.managed_columns = Some(vec![("payload".to_owned(), "TEXT".to_owned())]);
    let text = misconfigured(harness.plan(&spec).await);
    assert!(
        text.contains("item_lease_due for an index, and another table has it"),
        "{text}"
    );
}

#[tokio::test]
async fn steps_that_another_program_makes_meanwhile_do_not_fail() {
    let steps = {
        let harness = SqliteHarness::with(ORDERS).await;
        let mut schema = SqliteSchema::open(&harness.path()).expect("open");
        schema.plan(&spec()).expect("a plan").len()
    };
    // The other program is faster at each of the steps.
    for faster_at in 0..steps {
        let harness = SqliteHarness::with(ORDERS).await;
        let mut schema = SqliteSchema::open(&harness.path()).expect("open");
        let mut other = SqliteSchema::open(&harness.path()).expect("open");
        schema.create_broker_tables().expect("created");
        let mut applied = 0;
        let missing = apply_missing(&mut schema, &spec(), |schema, step| {
            if applied == faster_at {
                for step in other.plan(&spec())? {
                    other.apply(&step, &mut |_| ())?;
                }
            }
            applied += 1;
            schema.apply(step, &mut |_| ())
        });
        assert_eq!(missing, Ok(true), "{faster_at}");
        assert_eq!(schema.plan(&spec()), Ok(Vec::new()), "{faster_at}");
    }
}
