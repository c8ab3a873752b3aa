//! Actors: workers and producers, each in a process of its own. The process is this test binary, started once more.
//!
//! An actor works until its standard input ends. It also ends if the test dies.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::chaos::calls::{Caller, Held};
use crate::chaos::journal::{self, Ending, Journal};
use crate::support::signal;
use crate::support::timeout::wait_until_blocking;

/// Environment variable that makes the test binary act as an actor. It holds [`Settings`] as JSON.
const ACTOR: &str = "LEASE_BROKER_CHAOS_ACTOR";
/// The number of times that an actor sends a call, with a pause in between.
const TRIES: usize = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// The work of an actor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Worker {
        /// The number of claims at the same time, each on a connection of its own.
        threads: usize,
        /// The duration of a lease.
        lease: Duration,
        /// The share of batches that are worked on for longer than the lease lasts.
        late: f64,
        /// The largest batch. A quarter of it and one item are also claimed.
        batch: i32,
    },
    Producer {
        /// The items of one call, and the pause after it.
        batch: usize,
        pause: Duration,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) role: Role,
    /// The name of the process: of its journal, and of its leases' owner.
    pub(crate) name: String,
    /// The folder of the journals.
    pub(crate) folder: PathBuf,
    pub(crate) url: String,
    pub(crate) seed: u64,
}

/// Returns the path of the journal of an actor.
pub(crate) fn journal_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension("journal")
}

/// A running actor. Dropping it kills the process.
pub(crate) struct Actor {
    child: Child,
    pub(crate) name: String,
}

impl Actor {
    pub(crate) fn start(settings: &Settings) -> Self {
        let module = module_path!();
        let module = module.split_once("::").map_or(module, |(_, inner)| inner);
        let child = Command::new(std::env::current_exe().expect("a test binary"))
            .args(["--exact", &format!("{module}::journal_survives_a_kill")])
            .env(ACTOR, serde_json::to_string(settings).expect("JSON"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test binary runs");
        Self {
            child,
            name: settings.name.clone(),
        }
    }

    /// Sends a signal, given by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        signal::send(&self.child, name);
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the actor runs");
        self.child.wait().expect("the actor ends");
    }

    /// Lets the actor end its work, and waits until the process has ended.
    pub(crate) fn stop(&mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("the actor ends");
        assert!(status.success(), "{}: {status}", self.name);
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The actor in its process.
struct Process {
    settings: Settings,
    journal: Journal,
    stop: AtomicBool,
}

impl Process {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn random(&self, thread: usize) -> StdRng {
        let name = self.settings.name.bytes().map(u64::from);
        let name = name.fold(thread as u64, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte)
        });
        StdRng::seed_from_u64(self.settings.seed ^ name)
    }

    fn caller(&self, thread: usize) -> Caller<'_> {
        let worker_id = format!("{}-{thread}", self.settings.name);
        Caller::new(&self.journal, &self.settings.url, &worker_id)
    }

    /// Adds items. A call that fails is sent again with its request id.
    async fn produce(&self, batch: usize, pause: Duration) {
        let (mut random, caller) = (self.random(0), self.caller(0));
        let mut count = 0;
        while !self.is_stopped() {
            let payloads: Vec<String> = (count..count + batch)
                .map(|number| format!("{}-{number}", self.settings.name))
                .collect();
            count += batch;
            let request_id = request_id(&mut random);
            for _ in 0..TRIES {
                if caller.enqueue(&payloads, &request_id).await.is_ok() {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Claims items, works on them, and settles them.
    async fn work(&self, thread: usize, lease: Duration, late: f64, batch: i32) {
        let (mut random, caller) = (self.random(thread), self.caller(thread));
        while !self.is_stopped() {
            let max_items = [1, batch / 4, batch][random.random_range(0..3)];
            let held = claim(&caller, max_items, &request_id(&mut random)).await;
            if held.is_empty() {
                tokio::time::sleep(PAUSE / 5).await;
                continue;
            }
            if random.random_bool(late) {
                let beyond = Duration::from_millis(random.random_range(100..1_500));
                tokio::time::sleep(lease + beyond).await;
            } else {
                tokio::time::sleep(Duration::from_millis(random.random_range(0..20))).await;
            }
            if random.random_bool(0.3) {
                // If it fails, the leases may be lost, and the settlement shows it.
                let _ = caller.heartbeat(&held).await;
            }
            let ending = match random.random_range(0..50) {
                0 => Ending::Fail,
                1 => Ending::Release,
                _ => Ending::Complete,
            };
            for _ in 0..TRIES {
                if caller.settle(ending, &held).await.is_ok() {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn run(&self) {
        match self.settings.role {
            Role::Producer { batch, pause } => self.produce(batch, pause).await,
            Role::Worker {
                threads,
                lease,
                late,
                batch,
            } => {
                let threads = (0..threads).map(|thread| self.work(thread, lease, late, batch));
                futures_util::future::join_all(threads).await;
            }
        }
    }
}

/// Claims items. A claim that fails is sent again with its request id, and so gets the leases of the first try.
async fn claim(caller: &Caller<'_>, max_items: i32, request_id: &str) -> Vec<Held> {
    for _ in 0..TRIES {
        if let Ok(held) = caller.claim(max_items, request_id).await {
            return held;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Vec::new()
}

fn request_id(random: &mut StdRng) -> String {
    uuid::Builder::from_random_bytes(random.random())
        .into_uuid()
        .to_string()
}

/// Acts until standard input ends.
fn act(settings: &str) {
    let settings: Settings = serde_json::from_str(settings).expect("settings");
    let process = Process {
        journal: Journal::create(&journal_path(&settings.folder, &settings.name)),
        settings,
        stop: AtomicBool::new(false),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            process.stop.store(true, Ordering::Relaxed);
        });
        runtime.expect("a runtime").block_on(process.run());
    });
}

/// Kills a worker that calls a port without a server, and reads its journal. In the process of an actor it acts.
#[test]
fn journal_survives_a_kill() {
    if let Ok(settings) = std::env::var(ACTOR) {
        return act(&settings);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings {
        role: Role::Worker {
            threads: 4,
            lease: Duration::from_secs(1),
            late: 0.0,
            batch: 20,
        },
        name: "worker".to_owned(),
        folder: folder.path().to_owned(),
        url: format!("http://{}", crate::support::ports::free_port()),
        seed: 1,
    };
    let path = journal_path(folder.path(), "worker");
    let mut actor = Actor::start(&settings);
    wait_until_blocking("the journal has 50 lines", || {
        path.exists() && journal::read(&path).len() >= 50
    });
    actor.kill();
    let lines = journal::read(&path);
    let mut calls: Vec<u64> = lines.iter().map(|line| line.call).collect();
    assert!(lines.iter().map(|line| line.at).max() <= Some(journal::now()));
    calls.sort_unstable();
    calls.dedup();
    let expected: Vec<u64> = (0..calls.len() as u64).collect();
    assert_eq!(calls, expected, "every call that was answered was asked");
}
