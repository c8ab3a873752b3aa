//! DEFERRED foreign keys. SQLite checks them at the commit, and does not name the row that breaks one. Only this row is refused.

use lease_broker_model::group::GroupOrder;
use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, OnComplete};
use lease_broker_store::{ArchiveCutoff, Cancelled, Renewal, Renewed, StoreError};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::conformance::cancel::{because, cancel};
use crate::conformance::groups::{PARALLEL, STRICT, groups};
use crate::harness::errors::rejected;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, call, item_table, keys, mirror, new_item, queue,
};
use crate::harness::sqlite::SqliteHarness;
use crate::support::database::query_value;

const KEY_FAILED: &str = "FOREIGN KEY constraint failed";

/// Makes each change of the rows with these ids break a foreign key at the commit.
fn break_at(fixture: &Fixture<SqliteHarness>, ids: &str) {
    let sql = format!(
        "CREATE TABLE customer (id INTEGER PRIMARY KEY);
         CREATE TABLE audit (customer INTEGER REFERENCES customer (id) DEFERRABLE INITIALLY DEFERRED);
         CREATE TRIGGER audited AFTER UPDATE ON item WHEN old.id IN ({ids})
         BEGIN INSERT INTO audit VALUES (old.id); END"
    );
    fixture.harness.execute(&sql);
}

fn audited(fixture: &Fixture<SqliteHarness>) -> i64 {
    query_value(&fixture.harness.connect(), "SELECT count(*) FROM audit")
}

async fn claim_one(broker: &Broker, worker: &str) -> Result<Vec<String>, StoreError> {
    let calls = vec![call(worker, 1)].into();
    let claimed = broker.store.claim(broker.queue, calls, usize::MAX).await?;
    Ok(keys(&claimed[0].items))
}

#[tokio::test]
async fn claim_passes_over_the_rows_that_break_it() {
    let fixture = Fixture::<SqliteHarness>::items(6).await;
    break_at(&fixture, "1, 3, 6");
    assert_eq!(keys(&fixture.claim(2).await), ["2", "4"]);
    assert_eq!(keys(&fixture.claim(9).await), ["5"]);
    assert_eq!(audited(&fixture), 0);
    let rejection = rejected(claim_one(&fixture, "a").await);
    let expected = format!("item 1 cannot be leased: {KEY_FAILED}");
    assert_eq!(rejection.problem.text, expected);
    fixture.harness.execute("INSERT INTO customer VALUES (3)");
    assert_eq!(claim_one(&fixture, "a").await, Ok(vec!["3".to_owned()]));
}

#[tokio::test]
async fn call_without_other_rows_fails_no_other_call() {
    let fixture = Fixture::<SqliteHarness>::items(2).await;
    break_at(&fixture, "2");
    let leased = fixture.calls(vec![call("a", 1), call("b", 1)]).await;
    assert_eq!([keys(&leased[0]), keys(&leased[1])], [vec!["1"], vec![]]);
}

#[tokio::test]
async fn large_item_behind_a_row_that_breaks_it_stays_ready() {
    let fixture = Fixture::<SqliteHarness>::items(3).await;
    let change = "UPDATE item SET payload = printf('%.*c', 1000, 'x') WHERE id = 3";
    fixture.harness.execute(change);
    break_at(&fixture, "1");
    let mut small = call("a", 2);
    small.max_bytes = 900;
    assert_eq!(keys(&fixture.claim_by(small).await), ["2"]);
    assert_eq!(keys(&fixture.claim(9).await), ["3"]);
}

#[tokio::test]
async fn claim_in_a_queue_with_groups_passes_over_the_group() {
    for order in [STRICT, PARALLEL] {
        let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, customer TEXT, payload TEXT);
            INSERT INTO item (customer) VALUES ('a'), ('a'), ('b'), (NULL)";
        let harness = SqliteHarness::with(table).await;
        let mut spec = queue("item");
        spec.groups = Some(groups(order));
        let fixture = Fixture::adopt(harness, vec![spec]).await;
        break_at(&fixture, "1");
        let mut leased = keys(&fixture.claim(9).await);
        leased.sort_unstable();
        let expected: &[&str] = match order {
            GroupOrder::Strict { .. } => &["3", "4"],
            GroupOrder::Parallel { .. } => &["2", "3", "4"],
        };
        assert_eq!(leased, expected, "{order:?}");
    }
}

#[tokio::test]
async fn worker_whose_id_breaks_it_gets_no_item() {
    let mut spec = queue("item");
    spec.mirror
        .push(mirror(State::Leased, "worker", MirrorValue::Worker));
    let tables = "CREATE TABLE worker (id TEXT PRIMARY KEY);
        INSERT INTO worker VALUES ('known');
        CREATE TABLE item (id INTEGER PRIMARY KEY, worker TEXT REFERENCES worker (id) DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO item (id) VALUES (1), (2)";
    let harness = SqliteHarness::with(tables).await;
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let refused = claim_one(&fixture, "unknown").await;
    rejected(refused);
    let leased = claim_one(&fixture, "known").await;
    assert_eq!(leased, Ok(vec!["1".to_owned()]));
}

#[tokio::test]
async fn heartbeat_refuses_the_rows_that_break_it() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    let items = fixture.claim(9).await;
    break_at(&fixture, "2, 3");
    let renewals = items.iter();
    let renewals = renewals.map(|item| Renewal::new(item.lease.clone(), 2 * HOUR));
    let renewed = fixture.store.heartbeat(fixture.queue, renewals.collect());
    let renewed = renewed.await.expect("the leases are extended");
    let is_refused = |renewed: &Renewed| match renewed {
        Renewed::Refused(refusal) => refusal.problem.text == KEY_FAILED,
        _ => false,
    };
    let refused: Vec<_> = renewed.iter().map(is_refused).collect();
    assert_eq!(refused, [false, true, true, false]);
    fixture.harness.execute("INSERT INTO customer VALUES (2)");
    let renewed = fixture.renew(&items[1].lease, HOUR).await;
    assert!(matches!(renewed, Renewed::Extended(_)), "{renewed:?}");
}

#[tokio::test]
async fn cancellation_refuses_the_rows_that_break_it() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    fixture.claim(9).await;
    break_at(&fixture, "1, 3");
    let cancelled = cancel(&fixture, &["1", "2", "3", "4"], because("stuck")).await;
    let is_refused = |result: &Cancelled| matches!(result, Cancelled::Refused(_));
    let refused: Vec<_> = cancelled.iter().map(is_refused).collect();
    assert_eq!(refused, [true, false, true, false]);
    assert_eq!(fixture.counts().await, [2, 2, 0, 0, 0]);
}

#[tokio::test]
async fn reaper_keeps_the_rows_that_break_it() {
    let fixture = Fixture::<SqliteHarness>::items(5).await;
    fixture.claim_for(5, MINUTE).await;
    break_at(&fixture, "1, 4");
    fixture.advance(2 * MINUTE).await;
    let reaped = fixture.reap(9).await;
    assert_eq!(reaped.expired.len(), 3);
    let refused: Vec<_> = reaped.refused.iter().map(|row| row.0.to_string()).collect();
    assert_eq!(refused, ["1", "4"]);
    assert_eq!(fixture.counts().await, [3, 2, 0, 0, 0]);
}

#[tokio::test]
async fn release_of_a_claim_keeps_the_rows_that_break_it() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    let tokens = [1, 2].map(Uuid::from_u128);
    for token in tokens {
        fixture.request(token, 2).await;
    }
    break_at(&fixture, "2");
    let released = fixture.store.release_claims(fixture.queue, tokens.into());
    assert_eq!(released.await.expect("released").counts, [1, 2]);
    assert_eq!(fixture.counts().await, [3, 1, 0, 0, 0]);
}

#[tokio::test]
async fn archived_row_that_breaks_it_keeps_no_other() {
    let tables = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT);
        CREATE TABLE done (id INTEGER PRIMARY KEY, payload TEXT, lease_state_time INTEGER);
        CREATE TABLE line (done INTEGER REFERENCES done (id) DEFERRABLE INITIALLY DEFERRED)";
    let harness = SqliteHarness::with(tables).await;
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("done".to_owned());
    spec.keep_for.archive = Some(HOUR);
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    fixture.insert(1..=4).await;
    for item in fixture.claim(9).await {
        fixture.complete(&item.lease).await;
    }
    fixture.harness.execute("INSERT INTO line VALUES (2)");
    fixture.advance(HOUR + MINUTE).await;
    let deleted = fixture
        .store
        .purge_archive(fixture.queue, ArchiveCutoff::Time(i64::MAX), 9)
        .await;
    assert_eq!(deleted, Ok(3));
}

#[tokio::test]
async fn operations_of_one_transaction_keep_their_results() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    let items = fixture.claim(2).await;
    break_at(&fixture, "2");
    let other = fixture.harness.connect();
    other.execute_batch("BEGIN IMMEDIATE").expect("begin");
    // All operations wait for the lock, so they share one transaction.
    let unlock = async { other.execute_batch("COMMIT") };
    let (good, bad, claimed, added, unlocked) = tokio::join!(
        fixture.renew(&items[0].lease, HOUR),
        fixture.renew(&items[1].lease, HOUR),
        fixture.claim(9),
        fixture.enqueue(new_item(&[("id", Value::Int(5))])),
        unlock,
    );
    unlocked.expect("commit");
    assert!(matches!(good, Renewed::Extended(_)), "{good:?}");
    assert!(matches!(bad, Renewed::Refused(_)), "{bad:?}");
    assert!(keys(&claimed).starts_with(&["3".to_owned(), "4".to_owned()]));
    assert_eq!(added.to_string(), "5");
}

/// Without a row to blame, the operation fails as a whole.
#[tokio::test]
async fn change_of_another_table_is_no_change_of_a_row() {
    let table = item_table("item");
    let fixture = Fixture::<SqliteHarness>::over(&[table], vec![queue("item")]).await;
    fixture.insert(1..=2).await;
    let sql = "CREATE TABLE customer (id INTEGER PRIMARY KEY);
        CREATE TABLE audit (customer INTEGER REFERENCES customer (id) DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER audited AFTER INSERT ON item BEGIN INSERT INTO audit VALUES (1); END";
    fixture.harness.execute(sql);
    let added = fixture.try_enqueue(vec![new_item(&[("id", Value::Int(3))])]);
    let added = added.await;
    assert!(matches!(added, Err(StoreError::Rejected(_))), "{added:?}");
    assert_eq!(keys(&fixture.claim(9).await), ["1", "2"]);
}
