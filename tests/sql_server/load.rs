//! A random load of several workers and two brokers through a network that keeps breaking: nothing is lost, nothing is
//! completed twice, and every row is in a state that it may be in.
//!
//! `LEASE_BROKER_TEST_SEED` repeats the network's and the workers' choices, though not their timing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker::item_state::State;
use lease_broker::queue::QueueSpec;
use lease_broker::store::mssql::{MssqlStore, Settings};
use lease_broker::store::{
    ClaimCall, ClaimedItem, Ending, FollowUp, NewItem, QueueIndex, Renewal, Settlement, StoreError,
};
use lease_broker::value::Value;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;
use uuid::Uuid;

use crate::harness::Harness as _;
use crate::harness::fixture::{Broker, HOUR, complete_with, fail, new_item, queue, release, text};
use crate::program::{Program, start};
use crate::proxy::Proxy;
use crate::storm::storm;
use crate::support::timeout::wait_until;

const WORKERS: usize = 4;
const ROWS: i64 = 100;
/// How often a worker sends a request again before it gives up: longer than any trouble lasts.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the workers were told.
#[derive(Default)]
struct Told {
    /// Every lease: the item and its fence, and whose request got it.
    leases: BTreeMap<(String, i64), Uuid>,
    /// Leases that no worker was told of: the network kept the request for so long that nobody waited for its answer.
    orphans: BTreeSet<(String, i64)>,
    completed: BTreeSet<String>,
    /// Payloads of items whose enqueue succeeded, and of those whose enqueue failed.
    added: BTreeSet<String>,
    perhaps: BTreeSet<String>,
}

struct Load {
    told: Mutex<Told>,
    calm: AtomicBool,
    answers: AtomicUsize,
    failures: AtomicUsize,
}

impl Load {
    /// Remembers the leases among these rows of id and fence that no worker was told of.
    fn remember_orphans(&self, rows: Vec<Vec<String>>) -> usize {
        let mut told = self.told.lock().expect("no panic");
        for mut row in rows {
            let fence = row[1].parse().expect("a number");
            let lease = (row.swap_remove(0), fence);
            if !told.leases.contains_key(&lease) {
                told.orphans.insert(lease);
            }
        }
        told.orphans.len()
    }

    /// Returns the items whose leases no worker was told of, if no other item is left.
    async fn orphans(&self, program: &Program) -> Option<Vec<Vec<String>>> {
        let open =
            "SELECT id, lease_fence, lease_state FROM item WHERE lease_state <> 3 ORDER BY id";
        let rows = program.rows(open).await;
        let told = self.told.lock().expect("no panic");
        let orphan = |row: &Vec<String>| {
            let fence = row[1].parse().expect("a number");
            row[2] == "1" && !told.leases.contains_key(&(row[0].clone(), fence))
        };
        rows.iter().all(orphan).then_some(rows)
    }
}

fn seed() -> u64 {
    let given = std::env::var("LEASE_BROKER_TEST_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    eprintln!("LEASE_BROKER_TEST_SEED={seed} repeats the choices");
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
        max_connections: 2,
        ..Settings::new(proxy.connection_string())
    };
    let mut brokers = Vec::new();
    for _ in 0..2 {
        let store = MssqlStore::open(&settings, &queues).await.expect("open");
        brokers.push(Broker::new(Arc::new(store)));
    }
    let load = Arc::new(Load {
        told: Mutex::default(),
        calm: AtomicBool::new(false),
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
    storm(&proxy, StdRng::seed_from_u64(seed)).await;
    load.calm.store(true, Ordering::SeqCst);
    let mut alive = async || {
        // A worker's panic is the test's.
        while let Some(ended) = workers.try_join_next() {
            ended.expect("a worker");
        }
    };
    // Every lease that somebody knows of is settled; however long that takes, the workers go on.
    loop {
        alive().await;
        let orphans = load.orphans(&program).await;
        // A claim's answer may be on its way: it is there once each worker has asked again.
        let answers = load.answers.load(Ordering::SeqCst) + 2 * WORKERS;
        wait_until("the workers go on", async || {
            load.answers.load(Ordering::SeqCst) > answers
        })
        .await;
        if orphans.is_some() && orphans == load.orphans(&program).await {
            break;
        }
    }
    // The leases of requests that the network kept for too long have to expire.
    let last = "UPDATE item SET lease_due_time = DATEADD(hour, -2, lease_due_time)
        OUTPUT inserted.id, inserted.lease_fence WHERE lease_state = 1";
    let orphans = load.remember_orphans(program.rows(last).await);
    wait_until("every item is completed", async || {
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
        "{answers} answers, {failures} failures, {connections} connections, {orphans} orphans"
    );
    assert!(failures > 0, "no trouble was made");
    compare(&load, &program).await;
}

struct Worker {
    name: String,
    broker: Broker,
    load: Arc<Load>,
    random: StdRng,
}

impl Worker {
    async fn run(mut self, stop: tokio_util::sync::CancellationToken) {
        while !stop.is_cancelled() {
            if !self.load.calm.load(Ordering::SeqCst) && self.random.random_bool(0.2) {
                self.add().await;
            }
            let items = self.claim().await;
            if items.is_empty() {
                let reap =
                    |broker: Broker| async move { broker.store.reap(broker.queue, 100).await };
                self.patiently(reap).await;
            }
            for item in items {
                self.work(item).await;
            }
        }
    }

    /// Sends a request until it is answered.
    async fn patiently<T, Answer>(&self, request: impl Fn(Broker) -> Answer) -> T
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
                Err(StoreError::Unavailable(_)) if start.elapsed() < PATIENCE => {
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
        let mut told = self.load.told.lock().expect("no panic");
        match added {
            Ok(_) => told.added.extend(names),
            Err(StoreError::Unavailable(_)) => told.perhaps.extend(names),
            Err(error) => panic!("{}: {error:?}", self.name),
        }
    }

    async fn claim(&mut self) -> Vec<ClaimedItem> {
        let call = ClaimCall {
            worker: self.name.clone(),
            token: Uuid::from_u128(self.random.random()),
            has_request_id: true,
            max_items: self.random.random_range(1..6),
            duration: HOUR,
        };
        let claim = |broker: Broker| {
            let call = call.clone();
            async move {
                let claimed = broker.store.claim(broker.queue, [call].into()).await;
                claimed.map(|mut items| items.remove(0))
            }
        };
        let items = self.patiently(claim).await;
        let mut told = self.load.told.lock().expect("no panic");
        for item in &items {
            let lease = (item.lease.key.to_string(), item.lease.fence);
            let earlier = told.leases.insert(lease, call.token);
            assert_eq!(earlier, None, "leased twice: {item:?}");
            assert_eq!(item.lease.token, call.token);
        }
        items
    }

    async fn work(&mut self, item: ClaimedItem) {
        if self.random.random_bool(0.3) {
            let extend = |broker: Broker| {
                let (lease, duration) = (item.lease.clone(), HOUR);
                let renewal = [Renewal { lease, duration }];
                async move { broker.store.heartbeat(broker.queue, renewal.into()).await }
            };
            let held = self.patiently(extend).await;
            assert!(held[0].is_some(), "{}: lost {item:?}", self.name);
        }
        match self.random.random_range(0..10) {
            // Once it is back, another may have claimed it before the repeat comes: then nothing is known of it.
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
                let state = self.settle(&item, complete_with(vec![follow_up])).await;
                assert_eq!(state, Some(State::Completed), "{}: {item:?}", self.name);
                let mut told = self.load.told.lock().expect("no panic");
                let fresh = told.completed.insert(item.lease.key.to_string());
                assert!(fresh, "completed twice: {item:?}");
            }
        }
    }

    async fn settle(&self, item: &ClaimedItem, ending: Ending) -> Option<State> {
        let settlement = Settlement {
            lease: item.lease.clone(),
            ending,
        };
        let settle = |broker: Broker| {
            let settlement = [settlement.clone()];
            async move {
                let settled = broker.store.settle(broker.queue, settlement.into()).await;
                settled.map(|mut states| states.remove(0))
            }
        };
        self.patiently(settle).await
    }
}

/// Compares what the workers were told with what is in the tables.
async fn compare(load: &Load, program: &Program) {
    let told = std::mem::take(&mut *load.told.lock().expect("no panic"));
    let rows = program
        .rows("SELECT id, payload, lease_fence FROM item")
        .await;
    let ids: BTreeSet<String> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(
        told.completed, ids,
        "each item was completed by somebody who knows it"
    );
    for row in &rows {
        let leases = told.leases.keys().chain(&told.orphans);
        let claimed = leases.filter(|(id, _)| *id == row[0]).count();
        assert_eq!(
            claimed.to_string(),
            row[2],
            "every claim but the orphans reached its worker: {row:?}"
        );
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
    for name in &told.added {
        assert!(distinct.contains(name), "{name} was added, and is lost");
    }
    for name in distinct {
        let known = told.added.contains(name) || told.perhaps.contains(name);
        assert!(known, "nobody has added {name}");
    }
    let outbox = program
        .rows("SELECT item, COUNT(*) FROM outbox GROUP BY item")
        .await;
    let once = outbox.iter().all(|row| row[1] == "1");
    assert!(once, "a completion added its follow-up twice: {outbox:?}");
    let followed: BTreeSet<String> = outbox.into_iter().map(|mut row| row.remove(0)).collect();
    assert_eq!(followed, ids, "each completion added its follow-up");
    let illegal = "SELECT COUNT(*) FROM item WHERE lease_state <> 3 OR lease_due_time IS NOT NULL
        OR lease_token IS NULL OR lease_attempt < 1 OR lease_attempt > lease_fence OR lease_owner IS NULL";
    assert_eq!(program.number(illegal).await, 0, "rows in no legal state");
}
