//! Runs a plan in simulated time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lease_broker::broker::{Broker, BrokerConfig, Error};
use lease_broker::config::Sources;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::Concurrency;
use tokio::runtime::Builder;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::database::Database;
use super::operator;
use super::plan::{End, Plan, Turn};
use super::store::SimulatedStore;
use super::worker::{Answer, Worker};

pub(super) const QUEUE: &str = "default";
/// A call that takes longer hangs. The longest wait of a claim is 8 s, and an operation waits 30 s for a store that is out.
const HANGS: Duration = Duration::from_secs(60);
/// The time in which the last worker must be able to finish all items, beyond the duration of a lease.
const FINISH: Duration = Duration::from_secs(40);

/// A run that broke a promise.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) problem: String,
    pub(super) history: Vec<String>,
}

/// A broker of a run.
pub(super) struct RunningBroker {
    pub(super) broker: Broker,
    killed: CancellationToken,
    drained: AtomicBool,
}

impl RunningBroker {
    /// Waits for the answer to a call. `None`: the broker was killed.
    pub(super) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Answer<T> {
        self.killed.run_until_cancelled(call).await
    }

    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }
}

/// Returns the queue and the configuration of the brokers.
pub(super) fn configuration(plan: &Plan) -> (QueueSpec, BrokerConfig) {
    let config = Sources::default()
        .load()
        .expect("the default configuration");
    let mut queue = config.queues[0].clone();
    queue.lease.default = plan.lease;
    queue.retry.max_attempts = Some(5);
    queue.retry.backoff.jitter = 0.0;
    let mut broker = BrokerConfig::from(&config);
    broker.stats_interval = Duration::from_secs(86_400);
    broker.jitter_seed = plan.seed;
    (queue, broker)
}

/// The brokers and the database of a run.
pub(super) struct Site {
    pub(super) database: Database,
    brokers: Mutex<Vec<Arc<RunningBroker>>>,
    queues: Vec<QueueSpec>,
    config: BrokerConfig,
    concurrency: Concurrency,
}

impl Site {
    fn new(plan: &Plan) -> Arc<Self> {
        let (queue, broker) = configuration(plan);
        let site = Self {
            database: Database::new(plan, queue.clone()),
            brokers: Mutex::default(),
            queues: vec![queue],
            config: broker,
            concurrency: plan.concurrency,
        };
        for _ in 0..plan.brokers {
            let broker = site.start();
            site.lock().push(broker);
        }
        Arc::new(site)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<RunningBroker>>> {
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Arc<RunningBroker> {
        let killed = CancellationToken::new();
        let store = SimulatedStore::new(self.database.clone(), killed.clone(), self.concurrency);
        Arc::new(RunningBroker {
            broker: Broker::start(Arc::new(store), &self.queues, self.config),
            killed,
            drained: AtomicBool::new(false),
        })
    }

    pub(super) fn broker(&self, number: usize) -> Arc<RunningBroker> {
        let brokers = self.lock();
        brokers[number % brokers.len()].clone()
    }

    /// Puts a new broker in the place of one, and returns the old one.
    fn replace(&self, number: usize) -> Arc<RunningBroker> {
        let new = self.start();
        let mut brokers = self.lock();
        let at = number % brokers.len();
        std::mem::replace(&mut brokers[at], new)
    }

    /// Stops a broker, as SIGTERM does. Calls can still reach it while it drains.
    pub(super) async fn stop(&self, number: usize) {
        let old = self.broker(number);
        old.broker.drain();
        old.drained.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
        if old.killed.is_cancelled() {
            return;
        }
        self.replace(number);
        let stop = async {
            old.killed.run_until_cancelled(old.broker.stop()).await;
        };
        if tokio::time::timeout(HANGS, stop).await.is_err() {
            let problem = "a broker does not stop".to_owned();
            self.database.lock().breaks(problem);
        }
    }

    /// Kills a broker, as SIGKILL does: no operation goes on, and no call is answered.
    pub(super) fn kill(&self, number: usize) {
        self.replace(number).killed.cancel();
    }

    /// Waits for an answer. A call that gets none breaks a promise.
    pub(super) async fn in_time<T>(
        &self,
        call: &str,
        answer: impl Future<Output = Answer<T>>,
    ) -> Answer<T> {
        let answered = tokio::time::timeout(HANGS, answer).await;
        answered.unwrap_or_else(|_| {
            let problem = format!("{call} is not answered");
            self.database.lock().breaks(problem);
            None
        })
    }

    /// Completes all items that are left. Each must be claimable soon.
    async fn finish(self: &Arc<Self>, plan: &Plan) {
        let mut worker = Worker::new(self.clone(), 99, plan.seed);
        let turn = Turn {
            pause: Duration::ZERO,
            broker: 0,
            max_items: 10,
            wait: Some(Duration::from_secs(2)),
            has_request_id: false,
            gone_after: None,
            work: Duration::from_millis(10),
            heartbeat: false,
            end: End::Complete,
            next: false,
        };
        let lease = if plan.loses_no_lease() {
            Duration::ZERO
        } else {
            plan.lease
        };
        let deadline = Instant::now() + lease + FINISH;
        while self.database.lock().unfinished() > 0 {
            if Instant::now() > deadline {
                let mut database = self.database.lock();
                let rows = format!("items stay unfinished: {:?}", database.rows);
                database.breaks(rows);
                return;
            }
            let held = worker.claim(&turn).await;
            worker.work(&turn, held).await;
        }
    }
}

/// Runs a plan. Returns its history.
pub(super) fn run(plan: &Plan) -> Result<Vec<String>, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(async {
        let site = Site::new(plan);
        let mut tasks = Vec::new();
        for (number, worker) in plan.workers.iter().enumerate() {
            let actor = Worker::new(site.clone(), number, plan.seed);
            tasks.push(tokio::spawn(actor.run(worker.clone())));
        }
        for (at, fault) in &plan.faults {
            let fault = operator::run(site.clone(), *at, fault.clone());
            tasks.push(tokio::spawn(fault));
        }
        for task in tasks {
            if let Err(error) = task.await {
                site.database.lock().breaks(error.to_string());
            }
        }
        site.finish(plan).await;
        let count = site.lock().len();
        for number in 0..count {
            site.stop(number).await;
        }
        let history = site.database.take_history();
        let problem = site.database.lock().problem.take();
        match problem {
            None => Ok(history),
            Some(problem) => Err(Failure { problem, history }),
        }
    })
}
