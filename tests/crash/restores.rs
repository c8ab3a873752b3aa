//! Backups restored while workers run: no fencing token of an item is given twice.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tonic::transport::Channel;

use super::{Site, seeded_random};
use crate::support::client::{Client, completion, duration, item, key, lease_ids};
use crate::support::database;
use crate::support::process::{CommandOutput, run};
use crate::support::timeout::wait_until;

/// The number of restores. `LEASE_BROKER_TEST_RESTORES` sets another one.
const RESTORES: usize = 3;
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The leases that workers got, over all restores.
#[derive(Default)]
struct Ledger {
    broker: Mutex<Option<Channel>>,
    /// The lease ids by key and fencing token. A repeated claim returns the same lease again.
    given: Mutex<HashMap<(String, i64), String>>,
    twice: Mutex<Vec<(String, i64)>>,
    calls: AtomicU64,
    stop: AtomicBool,
}

impl Ledger {
    fn note(&self, key: &str, token: i64, id: &str) {
        let place = (key.to_owned(), token);
        let mut given = self.given.lock().expect("not poisoned");
        if let Some(other) = given.insert(place.clone(), id.to_owned())
            && other != id
        {
            self.twice.lock().expect("not poisoned").push(place);
        }
    }

    /// Adds, claims and ends items until it is stopped. A call that fails is not repeated.
    async fn work(self: Arc<Self>, number: u64) {
        let mut random = StdRng::seed_from_u64(number);
        while !self.stop.load(Ordering::Relaxed) {
            let broker = self.broker.lock().expect("not poisoned").clone();
            let Some(broker) = broker else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            let client = Client::new(broker, "work").as_worker(&format!("w{number}"));
            let turn = self.turn(&client, &mut random);
            if !matches!(tokio::time::timeout(CALL_TIMEOUT, turn).await, Ok(Ok(()))) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    async fn turn(&self, client: &Client, random: &mut StdRng) -> Result<(), tonic::Status> {
        client.try_enqueue(vec![item("x"); 2]).await?;
        let mut request = client.claim_request(4);
        request.request_id = uuid::Uuid::new_v4().to_string();
        request.lease_duration = Some(duration(Duration::from_secs(30)));
        let leases = client.try_claim(request).await?;
        for lease in &leases {
            self.note(key(lease), lease.fencing_token, &lease.lease_id);
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let ids = lease_ids(&leases);
        match random.random_range(0..10) {
            // The items stay leased.
            0 => {}
            1..=6 => {
                let completions = ids.iter().map(|id| completion(id, &[])).collect();
                client.try_complete(completions).await?;
            }
            _ => {
                client.try_release(&ids, None).await?;
            }
        }
        Ok(())
    }
}

fn store_command(site: &Site, arguments: &[&str]) -> CommandOutput {
    let file = site.file();
    let store = [
        "--store",
        file.to_str().expect("text"),
        "--config",
        "queues.toml",
    ];
    run(site.folder.path(), &[arguments, &store].concat())
}

/// Makes a backup.
fn back_up(site: &Site, backup: &str) {
    let made = store_command(site, &["backup", backup]);
    assert_eq!(made.code, 0, "{made:?}");
}

fn restore(site: &Site, backup: &str) {
    let outcome = store_command(site, &["restore", backup]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

/// Makes a copy that is no backup.
fn copy(site: &Site, target: &str) {
    let copy = format!("VACUUM INTO '{target}'");
    database::open(&site.file())
        .execute_batch(&copy)
        .expect("a copy");
}

/// Restores a copy without the command.
fn copy_back(site: &Site, copy: &str) {
    let file = site.file();
    for suffix in ["-wal", "-shm"] {
        let mut name = file.clone().into_os_string();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
    fs::copy(copy, file).expect("copied");
}

/// Restores a database under load this number of times. Returns the tokens that were given twice.
async fn restores_under_load(
    restores: usize,
    save: fn(&Site, &str),
    restore: fn(&Site, &str),
) -> Vec<(String, i64)> {
    let mut random = seeded_random();
    let site = Site::new();
    let ledger = Arc::new(Ledger::default());
    let workers: Vec<_> = (0..4)
        .map(|number| tokio::spawn(ledger.clone().work(number)))
        .collect();
    let work = async |turns: u64| {
        let before = ledger.calls.load(Ordering::Relaxed);
        wait_until("workers get leases", async || {
            ledger.calls.load(Ordering::Relaxed) > before + turns
        })
        .await;
    };
    let mut backups: Vec<String> = Vec::new();
    let mut broker = site.serve();
    for round in 0..restores {
        *ledger.broker.lock().expect("not poisoned") = Some(broker.channel());
        work(random.random_range(5..20)).await;
        let backup = site.folder.path().join(format!("backup-{round}.db"));
        let backup = backup.to_str().expect("text").to_owned();
        save(&site, &backup);
        backups.push(backup);
        work(random.random_range(5..20)).await;
        if random.random() {
            broker.kill();
        } else {
            broker.signal("TERM");
            broker.wait();
        }
        // An older backup is also restored a second time.
        restore(&site, backups.choose(&mut random).expect("a backup"));
        broker = site.serve();
    }
    *ledger.broker.lock().expect("not poisoned") = Some(broker.channel());
    work(20).await;
    ledger.stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.expect("the worker does not panic");
    }
    let given = ledger.given.lock().expect("not poisoned").len();
    let twice = std::mem::take(&mut *ledger.twice.lock().expect("not poisoned"));
    eprintln!("{restores} restores, {given} leases, {} twice", twice.len());
    twice
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restores_under_load_give_no_token_twice() {
    let restores = std::env::var("LEASE_BROKER_TEST_RESTORES").ok();
    let restores = restores.map_or(RESTORES, |count| count.parse().expect("a number"));
    let twice = restores_under_load(restores, back_up, restore).await;
    assert_eq!(twice, []);
}

/// Shows that the test above can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_are_put_back_give_tokens_twice() {
    assert_ne!(restores_under_load(1, copy, copy_back).await, []);
}
