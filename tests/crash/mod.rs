//! Broker processes killed at random moments under load. No item may be lost, and none may be completed twice.

mod operations;
mod power_loss;
mod rates;
mod restores;
mod workload;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;

use crate::crash::workload::Workload;
use crate::support::client::{Client, duration, key};
use crate::support::database;
use crate::support::process::BrokerProcess;
use crate::support::timeout::{wait_until, with_timeout};

/// Each completion adds the key of its item to `outbox`. A second completion of an item would add the key twice.
const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text' }
lease_duration = '1s'
max_attempts = 0
[queues.outbox]
managed_columns = { payload = 'text' }
";

/// A folder with a database file and a configuration file that several broker processes use.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        Self::with(QUEUES)
    }

    fn with(queues: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        std::fs::write(folder.path().join("queues.toml"), queues).expect("the file is written");
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("queues.db")
    }

    fn serve(&self) -> BrokerProcess {
        BrokerProcess::serve(&self.file(), &self.folder.path().join("queues.toml"))
    }

    /// Stops the producer, waits until every item is completed, stops the workers, and compares the database with
    /// the journal.
    async fn finish_and_check(&self, workload: &Workload) {
        workload.stop_adding().await;
        let database = database::open(&self.file());
        let open = "SELECT count(*) FROM work WHERE lease_state <> 3";
        wait_until("all items are completed", async || {
            database::query_value::<i64>(&database, open) == 0
        })
        .await;
        workload.stop().await;
        workload.compare(&database);
    }
}

/// Creates the random generator of a test and prints its seed.
fn seeded_random() -> StdRng {
    let given = std::env::var("LEASE_BROKER_TEST_SEED").ok();
    let seed = given
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random);
    eprintln!(
        "seed {seed}; set LEASE_BROKER_TEST_SEED={seed} to kill the brokers after the same delays"
    );
    StdRng::seed_from_u64(seed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_broker_loses_and_repeats_nothing() {
    let mut random = seeded_random();
    let site = Site::new();
    let workload = Workload::new(4);
    for _ in 0..20 {
        let mut broker = site.serve();
        workload.use_brokers(vec![broker.channel()]);
        let before = workload.answers();
        // The broker is killed at a random moment once it has answered calls.
        wait_until("the broker answers", async || {
            workload.answers() > before + 20
        })
        .await;
        let delay = Duration::from_micros(random.random_range(0..200_000));
        tokio::time::sleep(delay).await;
        broker.kill();
    }
    let broker = site.serve();
    workload.use_brokers(vec![broker.channel()]);
    site.finish_and_check(&workload).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_of_two_brokers_can_be_killed() {
    let mut random = seeded_random();
    let site = Site::new();
    let workload = Workload::new(6);
    let mut brokers = [site.serve(), site.serve()];
    for round in 0..4 {
        workload.use_brokers(brokers.iter().map(BrokerProcess::channel).collect());
        let before = workload.answers();
        wait_until("the brokers answer", async || {
            workload.answers() > before + 50
        })
        .await;
        let delay = Duration::from_micros(random.random_range(0..200_000));
        tokio::time::sleep(delay).await;
        let killed = round % 2;
        brokers[killed].kill();
        let before = workload.answers();
        wait_until("the other broker continues alone", async || {
            workload.answers() > before + 50
        })
        .await;
        brokers[killed] = site.serve();
    }
    workload.use_brokers(brokers.iter().map(BrokerProcess::channel).collect());
    site.finish_and_check(&workload).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_broker_takes_expired_leases() {
    let site = Site::new();
    let mut brokers = [site.serve(), site.serve()];
    let [one, other] = [&brokers[0], &brokers[1]].map(|b| Client::new(b.channel(), "work"));
    one.enqueue(&["a", "b", "c"]).await;
    let lease = Duration::from_secs(2);
    let mut request = one.claim_request(3);
    request.lease_duration = Some(duration(lease));
    let start = Instant::now();
    let lost = one.try_claim(request).await.expect("the claim succeeds");
    brokers[0].kill();
    for (number, lost) in lost.iter().enumerate() {
        let waiting = other.waiting_claim_request(3, Duration::from_secs(60));
        let leases = with_timeout(other.try_claim(waiting))
            .await
            .expect("the claim succeeds");
        if number == 0 {
            let delay = start.elapsed().saturating_sub(lease);
            eprintln!("leased again {delay:?} after the lease expired");
            assert!(start.elapsed() >= lease);
        }
        // Each item may have crashed its worker, so it is leased alone.
        assert_eq!(leases.len(), 1);
        assert_eq!(key(&leases[0]), key(lost));
        assert_eq!(leases[0].attempt, 2);
        let late = other.complete(&[&lost.lease_id]).await;
        assert_eq!(late[0].outcome(), workload::LOST);
        other.complete(&[&leases[0].lease_id]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_can_start_together() {
    let site = Arc::new(Site::new());
    for _ in 0..3 {
        let starting: Vec<_> = (0..3)
            .map(|_| {
                let site = site.clone();
                std::thread::spawn(move || site.serve())
            })
            .collect();
        for broker in starting {
            let broker = broker.join().expect("the broker starts");
            Client::new(broker.channel(), "work").enqueue(&["x"]).await;
        }
        let file = site.file();
        for name in ["db", "db-wal", "db-shm"] {
            let _ = std::fs::remove_file(file.with_extension(name));
        }
    }
}
