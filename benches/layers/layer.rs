//! The layers below gRPC, in this process: the broker, and the store below the broker.
//!
//! At the store, each worker has its own operations: there is no group commit.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use lease_broker::broker::{
    Broker, BrokerConfig, CallContext, ClaimRequest, LeaseCompletion, LeaseFailure,
    UndeliveredLeases,
};
use lease_broker::config::{Config, Sources};
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{LeaseOwner, LeaseRef};
use lease_broker_store::sqlite::{SqliteStore, system_clock};
use lease_broker_store::{ClaimCall, Ending, NewItem, QueueIndex, Settled, Settlement, Store};
use lease_broker_value::Value;

/// The queue of the default configuration.
const QUEUE: QueueIndex = QueueIndex(0);
const QUEUE_NAME: &str = "default";
const LEASE: Duration = Duration::from_secs(60);
const PAYLOAD_BYTES: usize = 100;
/// The most rows that one reap changes.
const MAX_REAPED_ROWS: usize = 500;

/// One layer, and an SQLite file.
pub(crate) enum Layer {
    Broker(Box<Broker>),
    Store(Arc<dyn Store>),
}

/// A lease on an item.
pub(crate) struct Lease {
    /// The broker's name for the lease. Empty at the store.
    id: String,
    lease: LeaseRef,
}

impl Lease {
    /// Returns the key of the item.
    pub(crate) fn key(&self) -> i64 {
        integer(&self.lease.key)
    }
}

impl Layer {
    /// Starts a broker on a new file.
    pub(crate) fn open_broker(file: &Path) -> Self {
        let config = config();
        let settings = BrokerConfig::from(&config);
        Self::Broker(Box::new(Broker::start(
            store(file, &config),
            &config.queues,
            settings,
        )))
    }

    /// Opens a store on a new file.
    pub(crate) fn open_store(file: &Path) -> Self {
        Self::Store(store(file, &config()))
    }

    /// Adds items and returns their keys.
    pub(crate) async fn enqueue(&self, count: usize) -> Vec<i64> {
        let item = NewItem {
            columns: vec![("payload".to_owned(), Value::Text("x".repeat(PAYLOAD_BYTES)))],
            delay: Duration::ZERO,
            trace_parent: None,
        };
        let items = vec![item; count];
        let keys = match self {
            Self::Broker(broker) => {
                broker
                    .enqueue(&CallContext::default(), QUEUE_NAME, items, None)
                    .await
                    .expect("added")
                    .keys
            }
            Self::Store(store) => store.enqueue(QUEUE, items.into()).await.expect("added"),
        };
        keys.iter().map(integer).collect()
    }

    /// Claims up to `max_items` items.
    pub(crate) async fn claim(&self, worker: &str, max_items: usize) -> Vec<Lease> {
        let store = match self {
            Self::Broker(broker) => {
                let claimed = broker
                    .claim(
                        &CallContext::default(),
                        claim_request(worker, max_items),
                        None,
                    )
                    .await;
                return deliver(claimed.expect("claimed"));
            }
            Self::Store(store) => store,
        };
        let call = ClaimCall {
            worker: worker.to_owned(),
            token: Uuid::new_v4(),
            has_request_id: false,
            max_items,
            max_bytes: 4 << 20,
            duration: LEASE,
            groups: Vec::new(),
            max_run: 1,
        };
        let items = store
            .claim(QUEUE, [call].into(), usize::MAX)
            .await
            .expect("claimed");
        let lease = |lease| Lease {
            id: String::new(),
            lease,
        };
        let leases: Vec<Lease> = items
            .into_iter()
            .flat_map(|claimed| claimed.items)
            .map(|item| lease(item.lease))
            .collect();
        if leases.is_empty() {
            // Makes failed items ready again, which is a broker's task.
            let reaped = store.reap(QUEUE, MAX_REAPED_ROWS, None).await;
            reaped.expect("reaped");
        }
        leases
    }

    /// Completes items.
    pub(crate) async fn complete(&self, leases: Vec<Lease>) {
        let states = match self {
            Self::Broker(broker) => {
                broker
                    .complete(
                        &CallContext::default(),
                        QUEUE_NAME,
                        completions(leases),
                        None,
                    )
                    .await
                    .expect("completed")
                    .0
            }
            Self::Store(store) => settle(store, leases, completion()).await,
        };
        assert_applied(&states);
    }

    /// Completes items and claims the next ones.
    pub(crate) async fn complete_and_claim(
        &self,
        leases: Vec<Lease>,
        worker: &str,
        max_items: usize,
    ) -> Vec<Lease> {
        match self {
            Self::Broker(broker) => {
                let claim = claim_request(worker, max_items);
                let context = CallContext::default();
                let call = broker.complete(&context, QUEUE_NAME, completions(leases), Some(claim));
                let (states, claimed) = call.await.expect("completed");
                assert_applied(&states);
                deliver(claimed.expect("a claim").expect("claimed"))
            }
            Self::Store(store) => {
                let settle = settle(store, leases, completion());
                let (states, claimed) = tokio::join!(settle, self.claim(worker, max_items));
                assert_applied(&states);
                claimed
            }
        }
    }

    /// Fails items, to be tried again immediately.
    pub(crate) async fn fail(&self, leases: Vec<Lease>) {
        let retry = Some(Duration::ZERO);
        let states = match self {
            Self::Broker(broker) => {
                let failure = |lease: Lease| LeaseFailure {
                    columns: Ok(Vec::new()),
                    lease_id: lease.id,
                    error: String::new(),
                    retry_delay: Ok(retry),
                    dead_letter: false,
                    checkpoint: None,
                };
                let failures = leases.into_iter().map(failure).collect();
                let failed = broker
                    .fail(&CallContext::default(), QUEUE_NAME, failures, None)
                    .await;
                failed.expect("failed").0
            }
            Self::Store(store) => {
                let error = String::new();
                settle(store, leases, Ending::Fail { error, retry }).await
            }
        };
        assert_applied(&states);
    }

    /// Stops the broker's tasks.
    pub(crate) async fn stop(&self) {
        if let Self::Broker(broker) = self {
            broker.stop().await;
        }
    }
}

/// Returns the default configuration. Failed items are tried again without limit, as a run waits until all are
/// completed.
fn config() -> Config {
    let mut config = Sources::default().load().expect("the defaults");
    config.queues[0].retry.max_attempts = None;
    config
}

fn store(file: &Path, config: &Config) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(file, &config.queues, system_clock()).expect("a store"))
}

fn claim_request(worker: &str, max_items: usize) -> ClaimRequest {
    ClaimRequest {
        groups: Vec::new(),
        max_run: 1,
        queue: QUEUE_NAME.to_owned(),
        worker_id: worker.to_owned(),
        max_items,
        max_bytes: 4 << 20,
        lease_duration: None,
        wait_timeout: None,
        request_id: None,
    }
}

fn deliver(undelivered: UndeliveredLeases) -> Vec<Lease> {
    let (delivered, delivery) = undelivered.deliver(LeaseOwner::default(), usize::MAX);
    if let Some(delivery) = delivery {
        delivery.confirm();
    }
    let leases = delivered.map(|lease| Lease {
        id: lease.id,
        lease: lease.item.lease,
    });
    leases.collect()
}

fn completions(leases: Vec<Lease>) -> Vec<LeaseCompletion> {
    let completion = |lease: Lease| LeaseCompletion {
        columns: Ok(Vec::new()),
        lease_id: lease.id,
        follow_ups: Ok(Vec::new()),
    };
    leases.into_iter().map(completion).collect()
}

fn completion() -> Ending {
    Ending::Complete {
        follow_ups: Vec::new(),
    }
}

async fn settle(store: &Arc<dyn Store>, leases: Vec<Lease>, ending: Ending) -> Vec<Settled> {
    let settlement = |lease: Lease| Settlement::new(lease.lease, ending.clone());
    let settlements = leases.into_iter().map(settlement).collect();
    let states = store.settle(QUEUE, settlements).await;
    states.expect("settled").results
}

fn assert_applied(results: &[Settled]) {
    let mut results = results.iter();
    let applied = results.all(|result| matches!(result, Settled::Ended(_)));
    assert!(applied, "a lease was lost");
}

fn integer(key: &Key) -> i64 {
    match &*key.0 {
        [Value::Int(integer)] => *integer,
        other => panic!("{other:?} is not an integer key"),
    }
}
