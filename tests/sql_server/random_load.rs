//! A random load of several workers and two brokers over a network with faults. No item is lost, no item is completed
//! twice, and every row is in a valid state.
//!
//! `LEASE_BROKER_TEST_SEED` repeats the random choices of the network and of the workers, but not their timing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::mssql::{MssqlStore, Settings};
use lease_broker_store::{
    ClaimCall, ClaimedItem, Ending, FollowUp, NewItem, QueueIndex, Renewal, Settled, Settlement,
    StoreError,
};
use lease_broker_value::Value;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;
use uuid::Uuid;

use crate::harness::Harness as _;
use crate::harness::fixture::{Broker, HOUR, complete_with, fail, new_item, queue, release, text};
use crate::harness::mssql::read_catalog;
use crate::harness::program::{Program, start};
use crate::harness::proxy::Proxy;
use crate::sql_server::network_faults::inject_faults;

const WORKERS: usize = 4;
const ROWS: i64 = 100;
/// The time for which a worker repeats a failed request. Longer than any fault lasts.
const RETRY_TIMEOUT: Duration = Duration::from_secs(90);

/// The results that the workers received.
#[derive(Default)]
struct WorkerReports {
    /// Every lease: the key of the item and the fence, with the token of the claim.
    leases: BTreeMap<(String, i64), Uuid>,
    /// Leases that never reached a worker, because the network held the claim until its worker had stopped waiting.
    undelivered: BTreeSet<(String, i64)>,
    completed: BTreeSet<String>,
    /// Payloads of items whose enqueue succeeded.
    added: BTreeSet<String>,
    /// Payloads of items whose enqueue failed. The server may have added them before the connection broke.
    possibly_added: BTreeSet<String>,
}

/// State that the workers and the test share.
struct SharedState {
    reports: Mutex<WorkerReports>,
    network_restored: AtomicBool,
    answers: AtomicUsize,
    failures: AtomicUsize,
}

impl SharedState {
    /// Remembers the leases among these rows, with id and fence, that never reached a worker. Returns their number.
    fn remember_undelivered(&self, rows: Vec<Vec<String>>) -> usize {
        let mut reports = self.reports.lock().expect("no panic");
        for mut row in rows {
            let fence = row[1].parse().expect("a number");
            let lease = (row.swap_remove(0), fence);
            if !reports.leases.contains_key(&lease) {
                reports.undelivered.insert(lease);
            }
        }
        reports.undelivered.len()
    }

    /// Returns id, fence and state of the items whose leases never reached a worker. `None`: an item is open that a worker
    /// holds or can still claim.
    async fn undelivered(&self, program: &Program) -> Option<Vec<Vec<String>>> {
        let open =
            "SELECT id, lease_fence, lease_state FROM item WHERE lease_state <> 3 ORDER BY id";
        let rows = program.rows(open).await;
        let reports = self.reports.lock().expect("no panic");
        let is_undelivered = |row: &Vec<String>| {
            let fence = row[1].parse().expect("a number");
            row[2] == "1" && !reports.leases.contains_key(&(row[0].clone(), fence))
        };
        rows.iter().all(is_undelivered).then_some(rows)
    }
}

pub(super) fn seed() -> u64 {
    let given = std::env::var("LEASE_BROKER_TEST_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    eprintln!("LEASE_BROKER_TEST_SEED={seed} repeats the random choices");
    seed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_network_loses_and_repeats_nothing() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let seed = seed();
    let tables = format!(
        "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, payload nvarchar(50) NOT NULL);
        CREATE TABLE outbox (id int IDENTITY(1, 1) PRIMARY KEY, item int NOT NULL);
        DECLARE @n int = 0;
        WHILE @n < {ROWS} BEGIN
            INSERT item (payload) VALUES (N'row ' + CONVERT(nvarchar(10), @n)); SET @n = @n + 1; END"
    );
    program.run(&tables).await;
    let mut queues: Vec<QueueSpec> = ["item", "outbox"].map(queue).into();
    for queue in &mut queues {
        queue.retry.max_attempts = None;
        harness.apply(queue).await.expect("apply");
    }
    let proxy = Proxy::before(&program.connection_string).await;
    let settings = Settings {
        connect_timeout: Duration::from_secs(1),
        // On a busy machine, the first batches of a session take Babelfish seconds.
        handshake_timeout: Duration::from_secs(30),
        max_connections: 2,
        ..Settings::new(proxy.connection_string())
    };
    let mut brokers = Vec::new();
    for _ in 0..2 {
        let store = open_patiently(&settings, &queues).await;
        brokers.push(Broker::new(Arc::new(store)));
    }
    let load = Arc::new(SharedState {
        reports: Mutex::default(),
        network_restored: AtomicBool::new(false),
        answers: AtomicUsize::new(0),
        failures: AtomicUsize::new(0),
    });
    let stop = tokio_util::sync::CancellationToken::new();
    let mut workers = tokio::task::JoinSet::new();
    for at in 0..WORKERS {
        let random = StdRng::seed_from_u64(seed.wrapping_add(1 + at as u64));
        let worker = Worker {
            name: format!("worker {at}"),
            broker: brokers[at % 2].clone(),
            load: load.clone(),
            random,
        };
        workers.spawn(worker.run(stop.clone()));
    }
    inject_faults(&proxy, StdRng::seed_from_u64(seed)).await;
    load.network_restored.store(true, Ordering::SeqCst);
    let mut alive = async || {
        // A panic of a worker fails the test.
        while let Some(ended) = workers.try_join_next() {
            ended.expect("a worker");
        }
    };
    // The workers continue until every lease that reached a worker is settled.
    loop {
        alive().await;
        let undelivered = load.undelivered(&program).await;
        // The reply of a claim may still be on its way. It has arrived once every worker has sent another request.
        let answers = load.answers.load(Ordering::SeqCst) + 2 * WORKERS;
        wait_patiently("every worker gets two more answers", async || {
            load.answers.load(Ordering::SeqCst) > answers
        })
        .await;
        if undelivered.is_some() && undelivered == load.undelivered(&program).await {
            break;
        }
    }
    // The network may hold a claim so long that its worker has stopped waiting when it reaches the server. Its leases reach
    // no worker and must expire.
    let expire = "UPDATE item SET lease_due_time = DATEADD(hour, -2, lease_due_time)
        OUTPUT inserted.id, inserted.lease_fence WHERE lease_state = 1";
    let undelivered = load.remember_undelivered(program.rows(expire).await);
    wait_patiently("every item is completed", async || {
        alive().await;
        let open = "SELECT COUNT(*) FROM item WHERE lease_state <> 3";
        program.number(open).await == 0
    })
    .await;
    stop.cancel();
    while let Some(ended) = workers.join_next().await {
        ended.expect("a worker");
    }
    let [answers, failures] =
        [&load.answers, &load.failures].map(|count| count.load(Ordering::SeqCst));
    let connections = proxy.accepted();
    eprintln!(
        "{answers} answers, {failures} failures, {connections} connections, {undelivered} undelivered leases"
    );
    assert!(failures > 0, "the faults made no call fail");
    compare(&load, &program).await;
}

/// Waits until a condition holds. Fails the test after twice [`RETRY_TIMEOUT`].
async fn wait_patiently(description: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(
            start.elapsed() < 2 * RETRY_TIMEOUT,
            "{description}: not in time"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Opens a store, and tries again while the server is too busy to answer in time.
async fn open_patiently(settings: &Settings, queues: &[QueueSpec]) -> MssqlStore {
    let start = Instant::now();
    loop {
        match read_catalog(MssqlStore::open(settings, queues)).await {
            Err(StoreError::Unavailable(_)) if start.elapsed() < RETRY_TIMEOUT => {}
            opened => return opened.expect("open"),
        }
    }
}

struct Worker {
    name: String,
    broker: Broker,
    load: Arc<SharedState>,
    random: StdRng,
}

impl Worker {
    async fn run(mut self, stop: tokio_util::sync::CancellationToken) {
        while !stop.is_cancelled() {
            if !self.load.network_restored.load(Ordering::SeqCst) && self.random.random_bool(0.2) {
                self.add().await;
            }
            let items = self.claim().await;
            if items.is_empty() {
                let reap = |broker: Broker| async move {
                    broker.store.reap(broker.queue, 100, None).await
                };
                self.retry_while_unavailable(reap).await;
            }
            for item in items {
                self.work(item).await;
            }
        }
    }

    /// Repeats a request while the store is unavailable.
    async fn retry_while_unavailable<T, Answer>(&self, request: impl Fn(Broker) -> Answer) -> T
    where
        Answer: Future<Output = Result<T, StoreError>>,
    {
        let start = Instant::now();
        loop {
            match request(self.broker.clone()).await {
                Ok(answer) => {
                    self.load.answers.fetch_add(1, Ordering::SeqCst);
                    return answer;
                }
                Err(StoreError::Unavailable(_)) if start.elapsed() < RETRY_TIMEOUT => {
                    self.load.failures.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{}: {error:?}", self.name),
            }
        }
    }

    async fn add(&mut self) {
        let names: Vec<String> = (0..self.random.random_range(1..4))
            .map(|_| format!("{:016x}", self.random.random::<u64>()))
            .collect();
        let item = |name: &String| new_item(&[("payload", text(name))]);
        let items: Vec<NewItem> = names.iter().map(item).collect();
        let added = self.broker.try_enqueue(items).await;
        let mut reports = self.load.reports.lock().expect("no panic");
        match added {
            Ok(_) => reports.added.extend(names),
            Err(StoreError::Unavailable(_)) => reports.possibly_added.extend(names),
            Err(error) => panic!("{}: {error:?}", self.name),
        }
    }

    async fn claim(&mut self) -> Vec<ClaimedItem> {
        let call = ClaimCall {
            worker: self.name.clone(),
            token: Uuid::from_u128(self.random.random()),
            has_request_id: true,
            max_items: self.random.random_range(1..6),
            max_bytes: 4 << 20,
            duration: HOUR,
            groups: Vec::new(),
            max_run: 1,
        };
        let claim = |broker: Broker| {
            let call = call.clone();
            async move {
                let claimed = broker
                    .store
                    .claim(broker.queue, [call].into(), usize::MAX)
                    .await;
                claimed.map(|mut claimed| claimed.remove(0).items)
            }
        };
        let items = self.retry_while_unavailable(claim).await;
        let mut reports = self.load.reports.lock().expect("no panic");
        for item in &items {
            let lease = (item.lease.key.to_string(), item.lease.fence);
            let earlier = reports.leases.insert(lease, call.token);
            assert_eq!(earlier, None, "leased twice: {item:?}");
            assert_eq!(item.lease.token, call.token);
        }
        items
    }

    async fn work(&mut self, item: ClaimedItem) {
        if self.random.random_bool(0.3) {
            let extend = |broker: Broker| {
                let (lease, duration) = (item.lease.clone(), HOUR);
                let renewal = [Renewal::new(lease, duration)];
                async move { broker.store.heartbeat(broker.queue, renewal.into()).await }
            };
            let held = self.retry_while_unavailable(extend).await;
            assert!(held[0].expiry().is_some(), "{}: lost {item:?}", self.name);
        }
        match self.random.random_range(0..10) {
            // The result is unknown. If the settlement is repeated, another worker may already have claimed the item.
            0 => drop(self.settle(&item, release(Duration::ZERO)).await),
            1 => drop(self.settle(&item, fail(Some(Duration::ZERO))).await),
            _ => {
                let Value::Int(id) = item.lease.key.0[0] else {
                    panic!("{item:?}")
                };
                let follow_up = FollowUp {
                    queue: QueueIndex(1),
                    item: new_item(&[("item", Value::Int(id))]),
                };
                let result = self.settle(&item, complete_with(vec![follow_up])).await;
                let completed = Settled::Ended(State::Completed);
                assert_eq!(result, completed, "{}: {item:?}", self.name);
                let mut reports = self.load.reports.lock().expect("no panic");
                let fresh = reports.completed.insert(item.lease.key.to_string());
                assert!(fresh, "completed twice: {item:?}");
            }
        }
    }

    async fn settle(&self, item: &ClaimedItem, ending: Ending) -> Settled {
        let settlement = Settlement::new(item.lease.clone(), ending);
        let settle = |broker: Broker| {
            let settlement = [settlement.clone()];
            async move {
                let settled = broker.store.settle(broker.queue, settlement.into()).await;
                settled.map(|mut settled| settled.results.remove(0))
            }
        };
        self.retry_while_unavailable(settle).await
    }
}

/// Compares the results that the workers received with the rows of the tables.
async fn compare(load: &SharedState, program: &Program) {
    let reports = std::mem::take(&mut *load.reports.lock().expect("no panic"));
    let rows = program
        .rows("SELECT id, payload, lease_fence FROM item")
        .await;
    let ids: BTreeSet<String> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(
        reports.completed, ids,
        "a worker received the completion of each item"
    );
    for row in &rows {
        let leases = reports.leases.keys().chain(&reports.undelivered);
        let leases = leases.filter(|(id, _)| *id == row[0]);
        let fences: BTreeSet<i64> = leases.map(|(_, fence)| *fence).collect();
        let last: i64 = row[2].parse().expect("a number");
        let expected: BTreeSet<i64> = (1..=last).collect();
        assert_eq!(fences, expected, "a claim reached no worker: {row:?}");
    }
    let payloads: Vec<&String> = rows.iter().map(|row| &row[1]).collect();
    let added: Vec<&&String> = payloads
        .iter()
        .filter(|name| !name.starts_with("row "))
        .collect();
    assert_eq!(
        payloads.len() - added.len(),
        usize::try_from(ROWS).expect("rows")
    );
    let distinct: BTreeSet<&String> = added.iter().map(|name| **name).collect();
    assert_eq!(distinct.len(), added.len(), "no item was added twice");
    for name in &reports.added {
        assert!(distinct.contains(name), "item {name} was added and is lost");
    }
    for name in distinct {
        let known = reports.added.contains(name) || reports.possibly_added.contains(name);
        assert!(known, "no worker enqueued {name}");
    }
    let outbox = program
        .rows("SELECT item, COUNT(*) FROM outbox GROUP BY item")
        .await;
    let once = outbox.iter().all(|row| row[1] == "1");
    assert!(once, "a follow-up was added twice: {outbox:?}");
    let followed: BTreeSet<String> = outbox.into_iter().map(|mut row| row.remove(0)).collect();
    assert_eq!(followed, ids, "each completion added its follow-up");
    let invalid = "SELECT COUNT(*) FROM item WHERE lease_state <> 3 OR lease_due_time IS NOT NULL
        OR lease_token IS NULL OR lease_attempt < 1 OR lease_attempt > lease_fence OR lease_owner IS NULL";
    assert_eq!(
        program.number(invalid).await,
        0,
        "number of rows in an invalid state"
    );
}
