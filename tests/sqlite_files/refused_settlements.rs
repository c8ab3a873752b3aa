//! Settlements that a foreign key or a trigger of the table refuses. Only they fail, whichever way SQLite undoes them.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::Settled;
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::fixture::{Fixture, complete, fail, queue, text};
use crate::harness::sqlite::SqliteHarness;
use crate::support::database::query_value;

const ROWS: &str = "INSERT INTO item (payload) VALUES ('a'), ('b'), ('c')";

/// Creates the queue `item` with three rows, on a database with this schema. Completion deletes the row.
async fn fixture(schema: &str) -> Fixture<SqliteHarness> {
    fixture_with(schema, OnComplete::Delete).await
}

async fn fixture_with(schema: &str, on_complete: OnComplete) -> Fixture<SqliteHarness> {
    let harness = SqliteHarness::start().await;
    harness.execute(&format!("{schema}; {ROWS}"));
    let mut spec = queue("item");
    spec.on_complete = on_complete;
    Fixture::adopt(harness, vec![spec]).await
}

/// Completes the three items in one list. Expects that only the second completion is refused, with this text in its
/// problem, and that its lease is still held.
async fn assert_second_is_refused(fixture: &Fixture<SqliteHarness>, problem: &str) {
    let items = fixture.claim(9).await;
    let completions = items.iter().map(|item| (&item.lease, complete()));
    let results = fixture.try_settle(completions.collect()).await;
    let results = results.expect("settle");
    let completed = Settled::Ended(State::Completed);
    assert_eq!([&results[0], &results[2]], [&completed, &completed]);
    let Settled::Refused(refusal) = &results[1] else {
        panic!("{:?}", results[1]);
    };
    assert_eq!(refusal.field, None, "{refusal}");
    assert!(refusal.problem.text.contains(problem), "{refusal}");
    let left = fixture.harness.rows("item", &["payload"]).await;
    assert_eq!(left, [[text("b")]]);
    let alone = fixture.outcome(&items[1].lease, complete()).await;
    assert!(matches!(alone, Settled::Refused(_)), "{alone:?}");
    let failed = fixture.settle(&items[1].lease, fail(None)).await;
    assert_eq!(failed, Some(State::Dead));
}

#[tokio::test]
async fn foreign_key_refuses_its_own_completion() {
    let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT)";
    let fixture = fixture(schema).await;
    let line = "CREATE TABLE line (item INTEGER REFERENCES item (id)); INSERT INTO line VALUES (2)";
    fixture.harness.execute(line);
    let problem = "table \"item\": FOREIGN KEY constraint failed";
    assert_second_is_refused(&fixture, problem).await;
}

#[tokio::test]
async fn deferred_foreign_key_refuses_its_own_completion() {
    let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT)";
    let fixture = fixture(schema).await;
    let line =
        "CREATE TABLE line (item INTEGER REFERENCES item (id) DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO line VALUES (2)";
    fixture.harness.execute(line);
    assert_second_is_refused(&fixture, "FOREIGN KEY constraint failed").await;
}

#[tokio::test]
async fn trigger_refuses_its_own_completion() {
    for action in ["ABORT", "FAIL", "ROLLBACK"] {
        let schema = format!(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT);
             CREATE TABLE audit (id INTEGER);
             CREATE TRIGGER choosy AFTER DELETE ON item BEGIN
                 INSERT INTO audit VALUES (old.id);
                 SELECT RAISE({action}, 'b stays') WHERE old.payload = 'b';
             END"
        );
        let fixture = fixture(&schema).await;
        assert_second_is_refused(&fixture, "b stays").await;
        let audit = fixture.harness.rows("audit", &["id"]).await;
        assert_eq!(audit, [[Value::Int(1)], [Value::Int(3)]], "{action}");
    }
}

#[tokio::test]
async fn refused_completion_spares_concurrent_operations() {
    let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT);
        CREATE TRIGGER choosy AFTER DELETE ON item WHEN old.payload = 'b' BEGIN
            SELECT RAISE(ROLLBACK, 'b stays');
        END";
    let fixture = fixture(schema).await;
    let items = fixture.claim(3).await;
    let completions = items.iter().map(|item| {
        let broker = fixture.at(0);
        async move { broker.outcome(&item.lease, complete()).await }
    });
    let results = futures_util::future::join_all(completions).await;
    let completed = Settled::Ended(State::Completed);
    assert_eq!([&results[0], &results[2]], [&completed, &completed]);
    assert!(matches!(results[1], Settled::Refused(_)), "{results:?}");
}

#[tokio::test]
async fn completed_row_that_the_archive_ignores_stays() {
    const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT)";
    for (archive, problem) in [
        (
            "CREATE TABLE done (id INTEGER PRIMARY KEY ON CONFLICT IGNORE, payload TEXT);
             INSERT INTO done VALUES (2, 'of last year')",
            "ignores the insert",
        ),
        (
            "CREATE TABLE done (id INTEGER PRIMARY KEY, payload TEXT);
             CREATE TRIGGER choosy BEFORE INSERT ON done WHEN new.id = 2 BEGIN SELECT RAISE(IGNORE); END",
            "ignores the insert",
        ),
        (
            "CREATE TABLE done (id INTEGER PRIMARY KEY, payload TEXT);
             CREATE TRIGGER choosy BEFORE DELETE ON item WHEN old.id = 2 BEGIN SELECT RAISE(IGNORE); END",
            "ignores the deletion",
        ),
    ] {
        let schema = format!("{ITEM}; {archive}");
        let fixture = fixture_with(&schema, OnComplete::Archive("done".to_owned())).await;
        assert_second_is_refused(&fixture, problem).await;
        let copied = "SELECT count(*) FROM done WHERE payload = 'b'";
        let copied: i64 = query_value(&fixture.harness.connect(), copied);
        assert_eq!(copied, 0, "{archive}");
    }
}
