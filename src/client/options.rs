//! The options of a worker.

use std::time::Duration;

use super::credentials::{Credentials, Token};
use super::errors::WorkerError;
use super::events::{Event, Observer};
use super::worker::Worker;

/// The largest number of items in a call.
pub(super) const MAX_ITEMS_PER_CALL: usize = 1_000;

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
    pub(super) grace: Duration,
    pub(super) stuck_after: Duration,
    pub(super) max_stuck: Option<usize>,
    pub(super) credentials: Credentials,
    pub(super) token: Option<Token>,
    pub(super) on_event: Option<Observer>,
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
            grace: Duration::from_secs(20),
            stuck_after: Duration::from_secs(30),
            max_stuck: None,
            credentials: Credentials::plaintext(),
            token: None,
            on_event: None,
            max_items: None,
            until_empty: false,
        }
    }

    /// Checks the ranges that the broker does not check.
    pub(super) fn check(&self) -> Result<(), WorkerError> {
        let text = if self.queue.is_empty() {
            "the queue is empty; pass its name".to_owned()
        } else if self.concurrency == 0 {
            "concurrency is 0; it must be at least 1".to_owned()
        } else if !(1..=MAX_ITEMS_PER_CALL).contains(&self.batch) {
            format!(
                "the batch is {}; it must be 1 to {MAX_ITEMS_PER_CALL}",
                self.batch
            )
        } else if self.stuck_after.is_zero() {
            "stuck_after is 0; it must be more".to_owned()
        } else {
            return Ok(());
        };
        Err(WorkerError::Options(text))
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
        self.concurrency.div_ceil(self.max_slots_per_call())
    }
}

impl Worker {
    /// Sets the name of the worker, for people who look for the holder of a lease. 1 to 128 characters. Default: host,
    /// process id and random digits.
    pub fn worker_id(mut self, id: impl Into<String>) -> Self {
        self.options.worker_id = id.into();
        self
    }

    /// Sets the number of handlers that run at the same time. Default: 1.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.options.concurrency = handlers;
        self
    }

    /// Sets the duration of the leases. Default: the queue's.
    pub fn lease(mut self, duration: Duration) -> Self {
        self.options.lease = Some(duration);
        self
    }

    /// Turns heartbeats on or off. Default: on. Without them the lease is all the time that a handler has: after half of
    /// it the handler is cancelled with [`Cause::TimeLimit`](super::Cause::TimeLimit).
    pub fn heartbeat(mut self, on: bool) -> Self {
        self.options.heartbeat = on;
        self
    }

    /// Sets the longest time that a handler may run. The handler is then cancelled, and its item fails unless the handler
    /// returns within 5 s. Default: no limit.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.options.time_limit = Some(limit);
        self
    }

    /// Sets the time that a claim waits for items, up to 60 s. Default: 20 s.
    pub fn wait(mut self, time: Duration) -> Self {
        self.options.wait = time;
        self
    }

    /// Sets the time that handlers have to end when the worker stops. They are then cancelled, and have 5 s more. Keep
    /// this time plus 10 s below the time after which your supervisor kills the process. Default: 20 s.
    pub fn grace(mut self, time: Duration) -> Self {
        self.options.grace = time;
        self
    }

    /// Sets the time after its cancellation at which a handler that still runs is stuck. Default: 30 s.
    pub fn stuck_after(mut self, time: Duration) -> Self {
        self.options.stuck_after = time;
        self
    }

    /// Sets the number of stuck handlers whose slots are replaced. With more of them the worker claims no items and is
    /// not healthy. Default: as the concurrency.
    pub fn max_stuck(mut self, handlers: usize) -> Self {
        self.options.max_stuck = Some(handlers);
        self
    }

    /// Protects the connection. Default: plaintext, to this machine only.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.options.credentials = credentials;
        self
    }

    /// Sends a bearer token with each call. Default: none.
    pub fn token(mut self, token: Token) -> Self {
        self.options.token = Some(token);
        self
    }

    /// Sets a function that is called with each event, on the thread on which the event happens. It must not block.
    pub fn on_event(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.options.on_event = Some(std::sync::Arc::new(observer));
        self
    }
}

#[cfg(feature = "server")]
impl Worker {
    /// Ends the worker after this number of items.
    pub(crate) fn max_items(mut self, items: usize) -> Self {
        self.options.max_items = Some(items);
        self
    }

    /// Ends the worker when a claim finds no item.
    pub(crate) fn until_empty(mut self) -> Self {
        self.options.until_empty = true;
        self
    }

    /// Returns the name of the worker.
    pub(crate) fn id(&self) -> &str {
        &self.options.worker_id
    }
}

fn default_worker_id() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(90).collect();
    let host = if host.is_empty() { "unknown" } else { &host };
    let random: u32 = rand::random_range(0..1 << 24);
    format!("{host}-{}-{random:06x}", std::process::id())
}
