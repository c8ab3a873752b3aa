//! Several brokers and programs that use the same file at the same time.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{self, LeaseOrigin, LeaseOwner, LeaseRef};
use lease_broker_model::queue::OnComplete;
use lease_broker_store::sqlite::{SqliteSchema, SqliteStore};
use lease_broker_store::{Facts as _, Upkeep as _};
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::errors::unavailable;
use crate::harness::fixture::{Fixture, call, keys, new_item, queue};
use crate::harness::sqlite::SqliteHarness;

#[tokio::test]
async fn brokers_that_open_a_new_file_together_agree() {
    const BROKERS: usize = 6;
    let mut spec = queue("item");
    spec.managed_columns = Some(vec![("payload".to_owned(), "TEXT".to_owned())]);
    spec.on_complete = OnComplete::Archive("done".to_owned());
    for _ in 0..10 {
        let harness = SqliteHarness::start().await;
        let start = Barrier::new(BROKERS);
        let stores: Vec<SqliteStore> = thread::scope(|scope| {
            let open = || {
                start.wait();
                SqliteStore::open(
                    &harness.path(),
                    std::slice::from_ref(&spec),
                    harness.clock(),
                )
            };
            let threads: Vec<_> = (0..BROKERS).map(|_| scope.spawn(open)).collect();
            let opened = threads
                .into_iter()
                .map(|thread| thread.join().expect("join"));
            opened.collect::<Result<_, _>>().expect("open")
        });
        let lease = LeaseRef {
            key: Key([Value::Int(1)].into()),
            token: uuid::Uuid::nil(),
            fence: 1,
            attempt: 1,
        };
        let origin = LeaseOrigin::new(0, Duration::from_secs(1), None);
        let owner = LeaseOwner::default();
        let id = lease_id::encode(stores[0].signing_secrets(), "item", &owner, &lease, &origin);
        let id = id.expect("an id");
        for store in &stores {
            let read = lease_id::decode(store.signing_secrets(), "item", &owner, &id);
            let read = read.expect("the brokers have the same secret");
            assert_eq!(read.lease, lease);
            assert_eq!(store.probe().await, Ok(()));
        }
    }
}

#[tokio::test]
async fn write_waits_for_a_foreign_transaction() {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let other = fixture.harness.connect();
    other.execute_batch("BEGIN IMMEDIATE").expect("begin");
    let claim = tokio::spawn({
        let broker = fixture.clone();
        async move { broker.claim(9).await }
    });
    assert_eq!(
        fixture.counts().await,
        [1, 0, 0, 0, 0],
        "the read waited for the transaction"
    );
    let insert = "INSERT INTO item (id) VALUES (2)";
    other.execute(insert, []).expect(insert);
    other.execute_batch("COMMIT").expect("commit");
    assert_eq!(keys(&claim.await.expect("claim")), ["1", "2"]);
}

#[tokio::test]
async fn write_that_waits_too_long_is_unavailable() {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let other = fixture.harness.connect();
    other.execute_batch("BEGIN IMMEDIATE").expect("begin");
    let calls = [call("worker", 1)];
    let start = std::time::Instant::now();
    let error = fixture
        .store
        .claim(fixture.queue, calls.into(), usize::MAX)
        .await;
    let outage = unavailable(error);
    assert!(outage.reason.contains("write lock"), "{outage}");
    let one = start.elapsed();
    // Operations that wait behind it fail together. They do not each wait for the whole timeout.
    let start = std::time::Instant::now();
    let claims = (0..20).map(|_| {
        fixture
            .store
            .claim(fixture.queue, [call("worker", 1)].into(), usize::MAX)
    });
    for outcome in futures_util::future::join_all(claims).await {
        unavailable(outcome);
    }
    let all = start.elapsed();
    assert!(all < 10 * one, "one waited {one:?}, and twenty {all:?}");
    other.execute_batch("ROLLBACK").expect("rollback");
    assert_eq!(keys(&fixture.claim(9).await), ["1"]);
}

#[tokio::test]
async fn reader_that_keeps_the_file_out_of_wal_mode_is_named() {
    let harness = SqliteHarness::start().await;
    let other = harness.connect();
    let read = "CREATE TABLE item (id INTEGER PRIMARY KEY); BEGIN; SELECT * FROM item";
    other.execute_batch(read).expect(read);
    let outage = unavailable(SqliteSchema::open(&harness.path()));
    let reason = "another program has a transaction open, so the file cannot be put into WAL mode";
    assert!(outage.reason.contains(reason), "{outage}");
}

#[tokio::test]
async fn deferred_constraint_fails_only_its_own_operation() {
    let harness = SqliteHarness::start().await;
    let tables = "CREATE TABLE shop (id INTEGER PRIMARY KEY);
        CREATE TABLE item (
            id INTEGER PRIMARY KEY,
            shop INT REFERENCES shop (id) DEFERRABLE INITIALLY DEFERRED
        );
        INSERT INTO shop VALUES (1)";
    harness.execute(tables);
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let add = |shop| fixture.try_enqueue(vec![new_item(&[("shop", Value::Int(shop))])]);
    let other = fixture.harness.connect();
    other.execute_batch("BEGIN IMMEDIATE").expect("begin");
    // All three operations wait for the lock, so they share one transaction.
    let unlock = async { other.execute_batch("COMMIT") };
    let (first, bad, last, unlocked) = tokio::join!(add(1), add(2), add(1), unlock);
    unlocked.expect("commit");
    assert!(first.is_ok() && last.is_ok(), "{first:?} {last:?}");
    assert!(bad.is_err(), "{bad:?}");
    assert_eq!(fixture.counts().await, [2, 0, 0, 0, 0]);
}
