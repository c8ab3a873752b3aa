//! A producer and workers that retry every call until it is answered, and a journal of the answers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker_proto::Outcome;
use rusqlite::Connection;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;

use crate::support::client::{Client, completion, duration, key};
use crate::support::database;

pub(crate) const LOST: Outcome = Outcome::LeaseLost;

/// Time limit of a call. A call to a killed broker usually fails immediately.
const CALL_TIMEOUT: Duration = Duration::from_secs(8);

/// The brokers to call, and the answers of all clients.
#[derive(Default)]
struct Journal {
    brokers: Mutex<Vec<Channel>>,
    answers: AtomicU64,
    added: Mutex<HashSet<String>>,
    /// The ids of the leases whose completion was answered with APPLIED, by the key of the item.
    completed: Mutex<HashMap<String, HashSet<String>>>,
    stop_adding: AtomicBool,
    stop: AtomicBool,
}

/// The running clients and their journal.
pub(crate) struct Workload {
    journal: Arc<Journal>,
    producer: Mutex<Option<JoinHandle<()>>>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

impl Workload {
    /// Starts one producer and `workers` workers. They wait until [`Workload::use_brokers`] gives them a broker.
    pub(crate) fn new(workers: usize) -> Self {
        let journal = Arc::new(Journal::default());
        let producer = tokio::spawn(journal.clone().produce());
        let workers = (0..workers).map(|n| tokio::spawn(journal.clone().work(n)));
        Self {
            producer: Mutex::new(Some(producer)),
            workers: Mutex::new(workers.collect()),
            journal,
        }
    }

    /// Sets the brokers that the clients call from now on.
    pub(crate) fn use_brokers(&self, brokers: Vec<Channel>) {
        *self.journal.brokers.lock().expect("not poisoned") = brokers;
    }

    /// Returns the number of calls that were answered so far.
    pub(crate) fn answers(&self) -> u64 {
        self.journal.answers.load(Ordering::Relaxed)
    }

    /// Stops the producer, and waits for its last call. The workers continue.
    pub(crate) async fn stop_adding(&self) {
        self.journal.stop_adding.store(true, Ordering::Relaxed);
        let producer = self.producer.lock().expect("not poisoned").take();
        if let Some(producer) = producer {
            producer.await.expect("the producer does not panic");
        }
    }

    /// Stops all clients and waits for them.
    pub(crate) async fn stop(&self) {
        self.stop_adding().await;
        self.journal.stop.store(true, Ordering::Relaxed);
        let workers = std::mem::take(&mut *self.workers.lock().expect("not poisoned"));
        for worker in workers {
            worker.await.expect("the worker does not panic");
        }
    }

    /// Asserts that the database agrees with the journal: no added item is missing, and no item was completed twice.
    pub(crate) fn compare(&self, database: &Connection) {
        let texts = |sql: &str| -> Vec<String> {
            let mut statement = database.prepare(sql).expect("the query is valid");
            let rows = statement
                .query_map([], |row| row.get(0))
                .expect("the query runs");
            rows.collect::<Result<_, _>>().expect("the rows are texts")
        };
        let done = texts("SELECT CAST(id AS TEXT) FROM work WHERE lease_state = 3");
        let outbox = texts("SELECT payload FROM outbox");
        let added = self.journal.added.lock().expect("not poisoned");
        let completed = self.journal.completed.lock().expect("not poisoned");
        eprintln!(
            "{} items, {} known to be added, {} known to be completed",
            done.len(),
            added.len(),
            completed.len()
        );
        let distinct: HashSet<&String> = outbox.iter().collect();
        assert_eq!(distinct.len(), outbox.len(), "an item was completed twice");
        let done: HashSet<&String> = done.iter().collect();
        assert_eq!(
            distinct, done,
            "a completion has no follow-up, or a follow-up no completion"
        );
        assert!(
            added.iter().all(|key| done.contains(key)),
            "an item was lost"
        );
        for (key, leases) in completed.iter() {
            assert!(
                done.contains(key),
                "{key}: the broker answered APPLIED, but the item is not completed"
            );
            assert_eq!(leases.len(), 1, "{key}: completed under two leases");
        }
        assert!(!completed.is_empty());
        let check: String = database::query_value(database, "PRAGMA integrity_check");
        assert_eq!(check, "ok");
    }
}

impl Journal {
    /// Returns a client of one of the brokers. Waits if there is no broker.
    async fn client(&self, turn: usize) -> Client {
        loop {
            let brokers = self.brokers.lock().expect("not poisoned").clone();
            if let Some(broker) = brokers.get(turn % brokers.len().max(1)) {
                return Client::new(broker.clone(), "work").as_worker(&format!("w{turn}"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for a call. `None`: the call failed or timed out, and the broker may have applied it.
    async fn answer<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Option<T> {
        if let Ok(Ok(answer)) = tokio::time::timeout(CALL_TIMEOUT, call).await {
            self.answers.fetch_add(1, Ordering::Relaxed);
            return Some(answer);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        None
    }

    /// Adds items, three per call.
    async fn produce(self: Arc<Self>) {
        for turn in 0.. {
            if self.stop_adding.load(Ordering::Relaxed) {
                return;
            }
            let client = self.client(turn).await;
            let items = vec![crate::support::client::item("x"); 3];
            if let Some(keys) = self.answer(client.try_enqueue(items)).await {
                self.added.lock().expect("not poisoned").extend(keys);
            }
            // The pause keeps the producer slower than the workers, even on a busy machine.
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    }

    /// Claims and completes items. A call without an answer is retried, each time on another broker if there are
    /// several.
    async fn work(self: Arc<Self>, number: usize) {
        for turn in number.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let mut request = self
                .client(turn)
                .await
                .waiting_claim_request(5, Duration::from_millis(100));
            request.worker_id = format!("w{number}");
            request.request_id = uuid::Uuid::new_v4().to_string();
            request.lease_duration = Some(duration(Duration::from_secs(1)));
            let mut claimed = None;
            for retry in 0..3 {
                let client = self.client(turn + retry).await;
                claimed = self.answer(client.try_claim(request.clone())).await;
                if claimed.is_some() {
                    break;
                }
            }
            let leases = claimed.unwrap_or_default();
            let completions: Vec<_> = leases
                .iter()
                .map(|lease| completion(&lease.lease_id, &[("outbox", key(lease))]))
                .collect();
            for retry in 0.. {
                let client = self.client(turn + retry).await;
                let call = client.try_complete(completions.clone());
                let Some(results) = self.answer(call).await else {
                    continue;
                };
                let mut completed = self.completed.lock().expect("not poisoned");
                for (lease, result) in leases.iter().zip(results) {
                    if result.outcome() == Outcome::Applied {
                        let lease_ids = completed.entry(key(lease).to_owned()).or_default();
                        lease_ids.insert(lease.lease_id.clone());
                    }
                }
                break;
            }
        }
    }
}
