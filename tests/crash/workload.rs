//! Producers and workers that never give up, and a journal of all that they were told.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker::grpc::proto::Outcome;
use rusqlite::Connection;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;

use crate::support::client::{Client, completion, duration, key};
use crate::support::database;

pub(crate) const LOST: Outcome = Outcome::LeaseLost;

/// How long a call may take; a killed broker's connection usually fails at once.
const PATIENCE: Duration = Duration::from_secs(8);

/// What the clients were told, and whom they ask.
#[derive(Default)]
struct Journal {
    brokers: Mutex<Vec<Channel>>,
    answers: AtomicU64,
    added: Mutex<HashSet<String>>,
    /// The leases that were told APPLIED, by the item's key.
    completed: Mutex<HashMap<String, HashSet<String>>>,
    adding_ends: AtomicBool,
    ends: AtomicBool,
}

pub(crate) struct Workload {
    journal: Arc<Journal>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Workload {
    /// Starts this many workers and a producer; they wait for a broker.
    pub(crate) fn new(workers: usize) -> Self {
        let journal = Arc::new(Journal::default());
        let mut tasks = vec![tokio::spawn(journal.clone().produce())];
        tasks.extend((0..workers).map(|n| tokio::spawn(journal.clone().work(n))));
        Self {
            journal,
            tasks: Mutex::new(tasks),
        }
    }

    pub(crate) fn use_brokers(&self, brokers: Vec<Channel>) {
        *self.journal.brokers.lock().expect("sound") = brokers;
    }

    /// How many calls have been answered.
    pub(crate) fn answers(&self) -> u64 {
        self.journal.answers.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_adding(&self) {
        self.journal.adding_ends.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn stop(&self) {
        self.stop_adding();
        self.journal.ends.store(true, Ordering::Relaxed);
        let tasks = std::mem::take(&mut *self.tasks.lock().expect("sound"));
        for task in tasks {
            task.await.expect("no assertion of a client failed");
        }
    }

    /// Compares the database with the journal.
    pub(crate) fn compare(&self, database: &Connection) {
        let texts = |sql: &str| -> Vec<String> {
            let mut statement = database.prepare(sql).expect("a query");
            let rows = statement.query_map([], |row| row.get(0)).expect("rows");
            rows.collect::<Result<_, _>>().expect("texts")
        };
        let done = texts("SELECT CAST(id AS TEXT) FROM work WHERE lease_state = 3");
        let outbox = texts("SELECT payload FROM outbox");
        let added = self.journal.added.lock().expect("sound");
        let completed = self.journal.completed.lock().expect("sound");
        eprintln!(
            "{} items, {} known to be added, {} known to be completed",
            done.len(),
            added.len(),
            completed.len()
        );
        let distinct: HashSet<&String> = outbox.iter().collect();
        assert_eq!(distinct.len(), outbox.len(), "an item was completed twice");
        let done: HashSet<&String> = done.iter().collect();
        assert_eq!(distinct, done, "each completion has its follow-up");
        assert!(
            added.iter().all(|key| done.contains(key)),
            "an item was lost"
        );
        for (key, leases) in completed.iter() {
            assert!(
                done.contains(key),
                "{key}: said to be completed, and is not"
            );
            assert_eq!(leases.len(), 1, "{key}: two leases were told APPLIED");
        }
        assert!(!completed.is_empty());
        let check: String = database::query_value(database, "PRAGMA integrity_check");
        assert_eq!(check, "ok");
    }
}

impl Journal {
    /// Returns a client of one of the brokers, as soon as there is one.
    async fn client(&self, turn: usize) -> Client {
        loop {
            let brokers = self.brokers.lock().expect("sound").clone();
            if let Some(broker) = brokers.get(turn % brokers.len().max(1)) {
                return Client::new(broker.clone(), "work").as_worker(&format!("w{turn}"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for a call; none if it failed or took too long, and may have been applied.
    async fn answer<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Option<T> {
        if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, call).await {
            self.answers.fetch_add(1, Ordering::Relaxed);
            return Some(answer);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        None
    }

    async fn produce(self: Arc<Self>) {
        for turn in 0.. {
            if self.adding_ends.load(Ordering::Relaxed) {
                return;
            }
            let client = self.client(turn).await;
            let items = vec![crate::support::client::item("x"); 3];
            if let Some(keys) = self.answer(client.try_enqueue(items)).await {
                self.added.lock().expect("sound").extend(keys);
            }
            // No faster than the workers, on a machine with other things to do.
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    }

    /// Claims and completes. What was sent and not answered is sent again, to whichever broker there is.
    async fn work(self: Arc<Self>, number: usize) {
        for turn in number.. {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            let mut request = self
                .client(turn)
                .await
                .waiting_claim_request(5, Duration::from_millis(100));
            request.worker_id = format!("w{number}");
            request.request_id = uuid::Uuid::new_v4().to_string();
            request.lease_duration = Some(duration(Duration::from_secs(1)));
            let mut leases = None;
            for again in 0..3 {
                let client = self.client(turn + again).await;
                leases = self.answer(client.try_claim(request.clone())).await;
                if leases.is_some() {
                    break;
                }
            }
            let leases = leases.unwrap_or_default();
            let completions: Vec<_> = leases
                .iter()
                .map(|lease| completion(&lease.lease_id, &[("outbox", key(lease))]))
                .collect();
            for again in 0.. {
                let client = self.client(turn + again).await;
                let call = client.try_complete(completions.clone());
                let Some(results) = self.answer(call).await else {
                    continue;
                };
                let mut completed = self.completed.lock().expect("sound");
                for (lease, result) in leases.iter().zip(results) {
                    if result.outcome() == Outcome::Applied {
                        let leases = completed.entry(key(lease).to_owned()).or_default();
                        leases.insert(result.lease_id);
                    }
                }
                break;
            }
        }
    }
}
