//! Tables that change data columns when a row is leased, and keys that SQLite gives out.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::SoftLockColumn;
use lease_broker_store::{Renewal, Renewed};
use lease_broker_value::Value;

use crate::harness::fixture::{Fixture, HOUR, MINUTE, new_item, queue, text};
use crate::harness::sqlite::SqliteHarness;

async fn fixture(table: &str) -> Fixture<SqliteHarness> {
    let harness = SqliteHarness::with(table).await;
    Fixture::adopt(harness, vec![queue("item")]).await
}

/// Adds a trigger that changes `payload` when a row is leased.
fn add_trigger(fixture: &Fixture<SqliteHarness>) {
    let trigger =
        "CREATE TRIGGER stamp AFTER UPDATE OF lease_state ON item WHEN new.lease_state = 1 BEGIN
        UPDATE item SET payload = payload || '!' WHERE id = new.id; END";
    fixture.harness.execute(trigger);
}

#[tokio::test]
async fn claim_returns_the_changes_of_a_trigger() {
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT)";
    let fixture = fixture(table).await;
    for _ in 0..3 {
        fixture.enqueue(new_item(&[("payload", text("a"))])).await;
    }
    let before = fixture.claim(1).await;
    assert_eq!(before[0].columns[1], text("a"));
    add_trigger(&fixture);
    let with_trigger = fixture.claim(1).await;
    assert_eq!(with_trigger[0].columns[1], text("a!"));
    fixture.harness.execute("DROP TRIGGER stamp");
    assert_eq!(fixture.claim(1).await[0].columns[1], text("a"));
}

/// The condition of triggers that run when a lease is extended by more than 10 minutes.
const EXTENDED: &str =
    "AFTER UPDATE OF lease_due_time ON item WHEN new.lease_due_time > old.lease_due_time + 600000";

#[tokio::test]
async fn heartbeat_answers_the_expiry_that_a_trigger_leaves() {
    let fixture = Fixture::<SqliteHarness>::items(3).await;
    let items = fixture.claim(3).await;
    let cap = format!(
        "CREATE TRIGGER cap {EXTENDED} AND old.id = 1 BEGIN
         UPDATE item SET lease_due_time = old.lease_due_time WHERE id IN (1, 2); END"
    );
    fixture.harness.execute(&cap);
    let renewals = [2, 1, 3].map(|id: usize| Renewal::new(items[id - 1].lease.clone(), 2 * HOUR));
    let renewed = fixture.store.heartbeat(fixture.queue, renewals.into());
    let renewed = renewed.await.expect("heartbeat");
    let answered: Vec<_> = renewed
        .iter()
        .map(|renewed| renewed.expiry().map(|expiry| expiry.expire_time))
        .collect();
    let before = items[0].expiry.expire_time;
    assert_eq!(answered[..2], [Some(before), Some(before)]);
    assert!(answered[2] > Some(before), "{answered:?}");
}

#[tokio::test]
async fn heartbeat_that_makes_a_trigger_end_the_lease_answers_that_it_is_lost() {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let lease = fixture.one().await.lease;
    let end = format!(
        "CREATE TRIGGER ends {EXTENDED} BEGIN
         UPDATE item SET lease_state = 4, lease_token = NULL, lease_due_time = NULL WHERE id = new.id; END"
    );
    fixture.harness.execute(&end);
    let lost = Renewed::Lost {
        state: Some(State::Dead),
        cancel_reason: None,
    };
    let mut renewed = fixture.renew(&lease, 2 * HOUR).await;
    if let Renewed::Lost { cancel_reason, .. } = &mut renewed {
        *cancel_reason = None;
    }
    assert_eq!(renewed, lost);
}

#[tokio::test]
async fn claim_answers_the_expiry_that_the_lease_of_another_row_leaves() {
    let fixture = Fixture::<SqliteHarness>::items(2).await;
    let cut = "CREATE TRIGGER cut AFTER UPDATE OF lease_state ON item WHEN new.lease_state = 1 AND new.id = 2 BEGIN
        UPDATE item SET lease_due_time = lease_due_time - 60000 WHERE id = 1; END";
    fixture.harness.execute(cut);
    let [first, second] = &*fixture.claim(2).await else {
        panic!("not two items");
    };
    let difference = second.expiry.expire_time - first.expiry.expire_time;
    assert_eq!(difference, 60_000);
}

#[tokio::test]
async fn claim_returns_generated_columns_of_the_lease() {
    let table = "CREATE TABLE item (
        id INTEGER PRIMARY KEY, payload TEXT, lease_attempt INTEGER NOT NULL DEFAULT 0, tenfold INT AS (lease_attempt * 10))";
    let harness = SqliteHarness::with(table).await;
    let mut spec = queue("item");
    let attempt = SoftLockColumn::Attempt;
    spec.soft_lock
        .map(attempt, attempt.default_name().to_owned());
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    fixture.enqueue(new_item(&[("payload", text("a"))])).await;
    let claimed = fixture.claim(1).await;
    assert_eq!(claimed[0].columns[1..], [text("a"), Value::Int(10)]);
}

#[tokio::test]
async fn trigger_that_inserts_does_not_change_the_key() {
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT);
        CREATE TABLE audit (id INTEGER PRIMARY KEY, item INT);
        INSERT INTO audit VALUES (1000, 0);
        CREATE TRIGGER audited AFTER INSERT ON item BEGIN INSERT INTO audit (item) VALUES (new.id); END";
    let fixture = fixture(table).await;
    let first = fixture.enqueue(new_item(&[("payload", text("a"))])).await;
    let second = fixture.enqueue(new_item(&[("payload", text("b"))])).await;
    assert_eq!(
        (first.to_string(), second.to_string()),
        ("1".into(), "2".into())
    );
}

#[tokio::test]
async fn descending_integer_key_is_no_rowid() {
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY DESC, payload TEXT);
        INSERT INTO item VALUES (7, 'seven'), (NULL, 'none')";
    let fixture = fixture(table).await;
    let item = new_item(&[("id", Value::Int(900)), ("payload", text("a"))]);
    assert_eq!(fixture.enqueue(item).await.to_string(), "900");
    let keys: Vec<String> = fixture
        .claim_for(9, MINUTE)
        .await
        .iter()
        .map(|item| item.lease.key.to_string())
        .collect();
    assert_eq!(keys, ["7", "900"], "the row without a key is not claimed");
}
