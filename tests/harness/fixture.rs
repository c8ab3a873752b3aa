//! The fixture of most store tests: a database with queues and one broker on it.
//!
//! Also has the test data, and methods that call an operation of the store with a single request and unwrap its
//! result.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::{Backoff, RetryPolicy, State};
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::{LeaseBounds, QueueSpec};
use lease_broker_store::{
    Browse, ClaimCall, Claimed, ClaimedItem, Ending, EnqueueOnce, EnqueuedOnce, FollowUp,
    LeaseExpiry, ListedItem, NewItem, QueueIndex, Reaped, Renewal, Renewed, Settled, Settlement,
    Store, StoreError,
};
use lease_broker_value::Value;
use uuid::Uuid;

use super::table::{Kind, Table};
use super::{Harness, test_queue};

pub(crate) use super::test_queue::{by, mirror};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// Returns a queue over `table` with defaults: ordered by the primary key, three attempts, completed rows are kept.
pub(crate) fn queue(table: &str) -> QueueSpec {
    QueueSpec {
        name: table.to_owned(),
        lease: LeaseBounds {
            default: MINUTE,
            min: SECOND,
            max: HOUR,
        },
        retry: RetryPolicy {
            max_attempts: Some(3),
            backoff: Backoff {
                initial: SECOND,
                factor: 2.0,
                max: MINUTE,
                jitter: 0.0,
            },
        },
        ..test_queue::spec(table)
    }
}

/// Returns the table that most tests use: `id` and `payload`.
pub(crate) fn item_table(name: &str) -> Table {
    Table::new(name)
        .required("id", Kind::BigInt)
        .column("payload", Kind::Text)
        .key(&["id"])
}

/// Returns whether `left` is `expected` minus at most 20 s, which a test may take. Stores round times to milliseconds, so it
/// can be one more.
pub(crate) fn about(left: Duration, expected: Duration) -> bool {
    left <= expected + Duration::from_millis(1) && left + 20 * SECOND > expected
}

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Returns an item that is ready immediately.
pub(crate) fn new_item(columns: &[(&str, Value)]) -> NewItem {
    let columns = columns.iter().cloned();
    NewItem {
        columns: columns
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        delay: Duration::ZERO,
        trace_parent: None,
    }
}

pub(crate) fn call(worker: &str, max_items: usize) -> ClaimCall {
    ClaimCall {
        worker: worker.to_owned(),
        token: Uuid::new_v4(),
        has_request_id: false,
        max_items,
        max_bytes: 4 << 20,
        duration: HOUR,
        groups: Vec::new(),
        max_run: 1,
    }
}

pub(crate) fn complete() -> Ending {
    Ending::Complete {
        follow_ups: Vec::new(),
    }
}

pub(crate) fn complete_with(follow_ups: Vec<FollowUp>) -> Ending {
    Ending::Complete { follow_ups }
}

pub(crate) fn fail(retry: Option<Duration>) -> Ending {
    Ending::Fail {
        error: "no luck".to_owned(),
        retry,
    }
}

pub(crate) fn release(delay: Duration) -> Ending {
    Ending::Release { delay }
}

/// Returns the keys of leases in the text form of the API.
pub(crate) fn keys(items: &[ClaimedItem]) -> Vec<String> {
    items
        .iter()
        .map(|item| item.lease.key.to_string())
        .collect()
}

/// A broker's access to one queue: the store with the queue's index.
#[derive(Clone)]
pub(crate) struct Broker {
    pub(crate) store: Arc<dyn Store>,
    /// The reads of the store.
    pub(crate) reads: Arc<dyn Browse>,
    pub(crate) queue: QueueIndex,
}

impl Broker {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            reads: store.reads().clone(),
            store,
            queue: QueueIndex(0),
        }
    }

    /// Returns the same broker's access to another queue.
    pub(crate) fn at(&self, queue: usize) -> Self {
        Self {
            queue: QueueIndex(queue),
            ..self.clone()
        }
    }

    /// Claims for several calls, and returns the whole results.
    pub(crate) async fn results(&self, calls: Vec<ClaimCall>) -> Vec<Claimed> {
        let asked = calls.len();
        let results = self.store.claim(self.queue, calls.into(), usize::MAX).await;
        let results = results.expect("claim");
        assert_eq!(results.len(), asked, "one result per call");
        results
    }

    pub(crate) async fn calls(&self, calls: Vec<ClaimCall>) -> Vec<Vec<ClaimedItem>> {
        let results = self.results(calls).await.into_iter();
        results.map(|claimed| claimed.items).collect()
    }

    pub(crate) async fn claim_by(&self, call: ClaimCall) -> Vec<ClaimedItem> {
        self.calls(vec![call]).await.remove(0)
    }

    /// Claims with a lease of one hour.
    pub(crate) async fn claim(&self, max_items: usize) -> Vec<ClaimedItem> {
        self.claim_by(call("worker", max_items)).await
    }

    pub(crate) async fn claim_for(&self, max_items: usize, lease: Duration) -> Vec<ClaimedItem> {
        let mut call = call("worker", max_items);
        call.duration = lease;
        self.claim_by(call).await
    }

    /// Claims one item. Panics if none is ready.
    pub(crate) async fn one(&self) -> ClaimedItem {
        self.claim(1).await.pop().expect("a ready item")
    }

    /// Claims with the token of a `request_id`, so that a second call returns the same leases.
    pub(crate) async fn request(&self, token: Uuid, max_items: usize) -> Vec<ClaimedItem> {
        let mut call = call("worker", max_items);
        call.token = token;
        call.has_request_id = true;
        self.claim_by(call).await
    }

    pub(crate) async fn heartbeat(
        &self,
        lease: &LeaseRef,
        duration: Duration,
    ) -> Option<LeaseExpiry> {
        self.renew(lease, duration).await.expiry()
    }

    pub(crate) async fn renew(&self, lease: &LeaseRef, duration: Duration) -> Renewed {
        let lease = lease.clone();
        let renewal = Renewal::new(lease, duration);
        let renewed = self.store.heartbeat(self.queue, [renewal].into()).await;
        renewed.expect("heartbeat").remove(0)
    }

    pub(crate) async fn try_settle(
        &self,
        settlements: Vec<(&LeaseRef, Ending)>,
    ) -> Result<Vec<Settled>, StoreError> {
        let asked = settlements.len();
        let settlements = settlements
            .into_iter()
            .map(|(lease, ending)| Settlement::new(lease.clone(), ending));
        let results = self
            .store
            .settle(self.queue, settlements.collect())
            .await?
            .results;
        assert_eq!(results.len(), asked, "one result per settlement");
        Ok(results)
    }

    pub(crate) async fn outcome(&self, lease: &LeaseRef, ending: Ending) -> Settled {
        let results = self.try_settle(vec![(lease, ending)]).await;
        results.expect("settle").remove(0)
    }

    /// Settles a lease and returns the state of its item, or `None` if the lease is lost.
    pub(crate) async fn settle(&self, lease: &LeaseRef, ending: Ending) -> Option<State> {
        match self.outcome(lease, ending).await {
            Settled::Ended(state) | Settled::Repeated(state) => Some(state),
            Settled::Lost => None,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn complete(&self, lease: &LeaseRef) -> Option<State> {
        self.settle(lease, complete()).await
    }

    pub(crate) async fn reap(&self, limit: usize) -> Reaped {
        let reaped = self.store.reap(self.queue, limit, None).await;
        reaped.expect("reap")
    }

    pub(crate) async fn try_enqueue(&self, items: Vec<NewItem>) -> Result<Vec<Key>, StoreError> {
        self.store.enqueue(self.queue, items.into()).await
    }

    pub(crate) async fn enqueue_once(
        &self,
        request_id: Uuid,
        items: Vec<NewItem>,
    ) -> Result<EnqueuedOnce, StoreError> {
        let request = EnqueueOnce { request_id, items };
        self.store.enqueue_once(self.queue, request.into()).await
    }

    pub(crate) async fn enqueue(&self, item: NewItem) -> Key {
        self.try_enqueue(vec![item])
            .await
            .expect("enqueue")
            .remove(0)
    }

    pub(crate) async fn list(&self, state: State) -> Vec<ListedItem> {
        let items = self.reads.list(self.queue, state, 10_000).await;
        items.expect("list")
    }

    /// Returns the number of items per state: ready, leased, delayed, completed, dead.
    pub(crate) async fn counts(&self) -> [u64; 5] {
        self.reads.stats(self.queue).await.expect("stats").count
    }
}

/// A database with queues, and a broker on the first queue.
pub(crate) struct Fixture<H> {
    pub(crate) harness: H,
    pub(crate) queues: Vec<QueueSpec>,
    broker: Broker,
}

impl<H> Deref for Fixture<H> {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        &self.broker
    }
}

impl<H: Harness> Fixture<H> {
    /// Creates a queue with rows 1 to `rows`, inserted without the broker.
    pub(crate) async fn items(rows: i64) -> Self {
        Self::with(rows, |_| ()).await
    }

    /// Creates the same queue with a changed configuration.
    pub(crate) async fn with(rows: i64, change: impl FnOnce(&mut QueueSpec)) -> Self {
        let mut spec = queue("item");
        change(&mut spec);
        let fixture = Self::over(&[item_table("item")], vec![spec]).await;
        fixture.insert(1..=rows).await;
        fixture
    }

    /// Creates tables and queues over them.
    pub(crate) async fn over(tables: &[Table], queues: Vec<QueueSpec>) -> Self {
        let harness = H::start().await;
        for table in tables {
            harness.create(table).await;
        }
        Self::adopt(harness, queues).await
    }

    /// Adopts existing tables for these queues.
    pub(crate) async fn adopt(harness: H, queues: Vec<QueueSpec>) -> Self {
        for queue in &queues {
            harness.apply(queue).await.expect("apply");
        }
        let store = harness.open(&queues).await.expect("open");
        Self {
            harness,
            queues,
            broker: Broker::new(store),
        }
    }

    /// Inserts rows with these ids, without the broker.
    pub(crate) async fn insert(&self, ids: impl IntoIterator<Item = i64>) {
        for id in ids {
            let payload = text(&format!("payload {id}"));
            let row = [("id", Value::Int(id)), ("payload", payload)];
            self.harness.insert(&self.queues[0].table, &row).await;
        }
    }

    /// Opens another broker on the same database.
    pub(crate) async fn another(&self) -> Broker {
        let store = self.harness.open(&self.queues).await.expect("open");
        Broker::new(store)
    }

    pub(crate) async fn advance(&self, by: Duration) {
        self.harness.advance(by).await;
    }

    /// Reads the soft-lock columns of every row of the first queue, to compare them later.
    pub(crate) async fn snapshot(&self) -> Vec<Vec<Value>> {
        let names: Vec<&str> = self.queues[0].soft_lock_names().collect();
        let key: Vec<&str> = match &*self.queues[0].key {
            [] => vec!["id"],
            key => key.iter().map(String::as_str).collect(),
        };
        let columns = [&*key, &names].concat();
        self.harness.rows(&self.queues[0].table, &columns).await
    }
}
