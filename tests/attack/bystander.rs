//! The bystander: an honest worker that holds a lease and extends it while others attack the broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lease_broker_proto::{HeartbeatRequest, HeartbeatResult, Outcome};
use tokio::time::{Instant, MissedTickBehavior};

use crate::support::client::{Client, renewal};
use crate::support::server::Server;
use crate::support::timeout::{TEST_TIMEOUT, wait_until_blocking};

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_millis(50);
/// The deadline of a heartbeat.
const DEADLINE: Duration = TEST_TIMEOUT;
/// The smallest number of heartbeats. After a short attack they show whether the broker is still well.
const MIN_HEARTBEATS: usize = 10;
/// The queue of the bystander. Attacks that need a queue have their own.
pub(crate) const QUEUE: &str = "bystander";

/// The running thread.
pub(crate) struct Bystander {
    stop: Arc<AtomicBool>,
    heartbeats: Arc<AtomicUsize>,
    thread: JoinHandle<Latencies>,
}

/// The results of all heartbeats.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    /// The time of each heartbeat, in ascending order. A failed one counts with its time too.
    sorted: Vec<Duration>,
    /// The errors.
    pub(crate) failed: Vec<String>,
}

impl Latencies {
    pub(crate) fn sent(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the latency that `percent` of the heartbeats did not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let index = (self.sorted.len() * percent).div_ceil(100).max(1) - 1;
        self.sorted.get(index).copied().unwrap_or_default()
    }
}

impl Bystander {
    /// `client` returns a client of [`QUEUE`] with its own connection. Claims an item and extends the lease until [`Self::stop`]. Returns after three heartbeats.
    pub(crate) fn start(client: impl FnOnce() -> Client + Send + 'static) -> Self {
        Self::start_with(async || (client(), ()))
    }

    /// Starts a broker in this process that nothing else calls, and a bystander on it.
    pub(crate) fn on_idle_broker() -> Self {
        Self::start_with(async || {
            let queue = format!("[queues.{QUEUE}]\nmanaged_columns = {{ payload = 'text' }}");
            let server = Server::with_config(&queue).await;
            (server.client().await, server)
        })
    }

    /// `connect` returns a client, and a value that is kept while the client is used.
    fn start_with<Kept>(connect: impl AsyncFnOnce() -> (Client, Kept) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let heartbeats = Arc::new(AtomicUsize::new(0));
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn({
            let (stop, heartbeats) = (stop.clone(), heartbeats.clone());
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                runtime.expect("a runtime").block_on(async {
                    let (client, _kept) = connect().await;
                    client.enqueue(&["bystander"]).await;
                    let lease = client.claim_one().await.lease_id;
                    for _ in 0..3 {
                        heartbeat(&client, &lease).await.expect("an idle broker");
                    }
                    ready.send(()).expect("the test waits");
                    extend(&client, &lease, &stop, &heartbeats).await
                })
            }
        });
        started.recv().expect("the bystander starts");
        Self {
            stop,
            heartbeats,
            thread,
        }
    }

    /// Waits until this number of further heartbeats has been answered.
    pub(crate) fn wait_for_heartbeats(&self, count: usize) {
        let until = self.heartbeats.load(Ordering::Relaxed) + count;
        wait_until_blocking("the bystander sends heartbeats", || {
            self.heartbeats.load(Ordering::Relaxed) >= until
        });
    }

    /// Ends the heartbeats.
    pub(crate) fn stop(self) -> Latencies {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the bystander does not panic")
    }
}

async fn extend(
    client: &Client,
    lease: &str,
    stop: &AtomicBool,
    heartbeats: &AtomicUsize,
) -> Latencies {
    let mut latencies = Latencies::default();
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.load(Ordering::Relaxed) || latencies.sent() < MIN_HEARTBEATS {
        interval.tick().await;
        let start = Instant::now();
        let result = heartbeat(client, lease).await;
        latencies.sorted.push(start.elapsed());
        latencies.failed.extend(result.err());
        heartbeats.fetch_add(1, Ordering::Relaxed);
    }
    latencies.sorted.sort_unstable();
    latencies
}

async fn heartbeat(client: &Client, lease: &str) -> Result<(), String> {
    let mut request = tonic::Request::new(HeartbeatRequest {
        queue: QUEUE.to_owned(),
        renewals: vec![renewal(lease)],
        lease_duration: None,
    });
    request.set_timeout(DEADLINE);
    let mut rpc = client.rpc.clone();
    let answer = tokio::time::timeout(DEADLINE, rpc.heartbeat(request)).await;
    let answer = answer.map_err(|_| format!("no answer within {DEADLINE:?}"))?;
    let answer = answer.map_err(|status| format!("{status:?}"))?;
    match answer
        .into_inner()
        .results
        .first()
        .map(HeartbeatResult::outcome)
    {
        Some(Outcome::Applied) => Ok(()),
        other => Err(format!("the lease was lost: {other:?}")),
    }
}
