//! The options of a worker.

use std::time::Duration;

use super::connection::Connection;
use super::credentials::{Credentials, Token};
use super::errors::WorkerError;
use super::events::Observer;
use super::middleware::Middleware;

/// The largest number of items in a call.
pub(super) const MAX_ITEMS_PER_CALL: usize = 1_000;
const MAX_GROUPS: usize = 100;
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The largest number of claims that wait at the same time. Each is followed by another as soon as its items have arrived.
const MAX_POLLERS: usize = 100;

#[derive(Clone)]
pub(super) struct Options {
    pub(super) address: String,
    pub(super) queue: String,
    pub(super) worker_id: String,
    pub(super) concurrency: usize,
    pub(super) batch: usize,
    pub(super) lease: Option<Duration>,
    pub(super) heartbeat: bool,
    pub(super) time_limit: Option<Duration>,
    pub(super) wait: Duration,
    pub(super) groups: Vec<String>,
    pub(super) grace: Duration,
    pub(super) stuck_after: Duration,
    pub(super) max_stuck: Option<usize>,
    pub(super) credentials: Credentials,
    /// The connection that the worker shares. `None`: it makes one of its own.
    pub(super) connection: Option<Connection>,
    pub(super) token: Option<Token>,
    pub(super) on_event: Option<Observer>,
    /// Surround the handler, the first one outermost.
    pub(super) middleware: Vec<Middleware>,
    /// Claim no more items than these. `None`: no limit.
    pub(super) max_items: Option<usize>,
    /// End when a claim finds no item.
    pub(super) until_empty: bool,
}

impl Options {
    pub(super) fn new(address: String, queue: String) -> Self {
        Self {
            address,
            queue,
            worker_id: default_worker_id(),
            concurrency: 1,
            batch: 1,
            lease: None,
            heartbeat: true,
            time_limit: None,
            wait: Duration::from_secs(20),
            groups: Vec::new(),
            grace: Duration::from_secs(15),
            stuck_after: Duration::from_secs(30),
            max_stuck: None,
            credentials: Credentials::plaintext(),
            connection: None,
            token: None,
            on_event: None,
            middleware: Vec::new(),
            max_items: None,
            until_empty: false,
        }
    }

    /// Checks the ranges that the broker does not check.
    pub(super) fn check(&self) -> Result<(), WorkerError> {
        let text = if self.queue.is_empty() {
            "the queue is empty; pass its name".to_owned()
        } else if self.worker_id.is_empty() {
            "worker_id is empty".to_owned()
        } else if self.concurrency == 0 {
            "concurrency is 0; it must be at least 1".to_owned()
        } else if !(1..=MAX_ITEMS_PER_CALL).contains(&self.batch) {
            format!(
                "the batch is {}; it must be 1 to {MAX_ITEMS_PER_CALL}",
                self.batch
            )
        } else if self.groups.len() > MAX_GROUPS {
            let count = self.groups.len();
            format!("groups has {count} entries; it must have at most {MAX_GROUPS}")
        } else if self.wait > MAX_WAIT {
            format!("wait is {:?}; it must be at most 60 s", self.wait)
        } else if self.max_stuck == Some(0) {
            "max_stuck is 0; it must be at least 1".to_owned()
        } else {
            let times = [
                ("stuck_after", Some(self.stuck_after)),
                ("lease", self.lease),
                ("time_limit", self.time_limit),
            ];
            let zero = times.iter().find(|(_, time)| *time == Some(Duration::ZERO));
            let Some((name, _)) = zero else {
                return Ok(());
            };
            format!("{name} is 0; it must be more")
        };
        Err(WorkerError::Options(text))
    }

    /// Returns the reason of a lease that the worker gives up by itself.
    pub(super) const fn lost_reason(&self) -> &'static str {
        if self.heartbeat {
            "no heartbeat was answered in time"
        } else {
            "the lease has ended"
        }
    }

    pub(super) fn max_stuck(&self) -> usize {
        self.max_stuck.unwrap_or(self.concurrency)
    }

    /// Returns the number of handlers for which one claim can get items.
    pub(super) fn max_slots_per_call(&self) -> usize {
        (MAX_ITEMS_PER_CALL / self.batch).max(1)
    }

    /// Returns the largest number of claims that wait at the same time: those that fill all slots.
    pub(super) fn pollers(&self) -> usize {
        let claims = self.concurrency.div_ceil(self.max_slots_per_call());
        claims.min(MAX_POLLERS)
    }
}

fn default_worker_id() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(90).collect();
    let host = if host.is_empty() { "unknown" } else { &host };
    let random: u32 = rand::random_range(0..1 << 24);
    format!("{host}-{}-{random:06x}", std::process::id())
}
