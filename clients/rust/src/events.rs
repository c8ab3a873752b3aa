//! Events, which a worker reports to its observer, and the counters of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::context::Cause;
use super::item::Item;

/// The function that receives the events of a worker.
pub(super) type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// Declares the names of events with their texts.
macro_rules! event_names {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// The name of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum EventName {
            $($(#[$doc])* $name,)*
        }

        impl EventName {
            /// All names.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name as text, the same in all libraries.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

event_names! {
    /// A lease has arrived.
    Claimed "claimed",
    /// The handler is about to run.
    Started "started",
    /// The broker has completed the item.
    Completed "completed",
    /// The broker has recorded the failure.
    Failed "failed",
    /// The item was released.
    Released "released",
    /// The lease was lost.
    Lost "lost",
    /// The broker cannot apply the settlement.
    Refused "refused",
    /// No answer has said whether the item was settled.
    Unknown "unknown",
    /// One call has extended leases.
    Heartbeat "heartbeat",
    /// No heartbeat was answered for half of the lease.
    HeartbeatMissed "heartbeat_missed",
    /// The handler is about to be cancelled.
    Cancelled "cancelled",
    /// The handler did not stop after it was cancelled.
    Stuck "stuck",
    /// A request is about to be sent again.
    Retry "retry",
    /// A call was answered, after calls were not.
    Connected "connected",
    /// A call was not answered, after calls were.
    Disconnected "disconnected",
    /// The worker begins to stop.
    Stopping "stopping",
    /// The worker has stopped.
    Stopped "stopped",
}

/// A change in a worker. A field that does not apply to the event is empty.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The name of the event.
    pub name: EventName,
    /// The queue of the worker.
    pub queue: String,
    /// The item that the event is about.
    pub item: Option<Item>,
    /// The cause of `cancelled` and `stuck`.
    pub cause: Option<Cause>,
    /// The reason of `lost`, `cancelled` and `retry`, and the broker's text of `refused`.
    pub reason: String,
    /// The text of `failed`, `unknown`, `retry` and `disconnected`.
    pub error: String,
    /// The number of leases that the call of `heartbeat` extended.
    pub count: usize,
    /// The request of `retry`.
    pub retry: Option<RetriedCall>,
}

/// A request that is about to be sent again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetriedCall {
    /// The name of the method, such as `ClaimBatch`.
    pub rpc: &'static str,
    /// The status of the attempt that failed.
    pub code: tonic::Code,
    /// The number of the attempt that failed.
    pub attempt: u32,
    /// The time until the next attempt.
    pub wait: Duration,
}

impl Event {
    pub(super) fn new(name: EventName) -> Self {
        Self {
            name,
            queue: String::new(),
            item: None,
            cause: None,
            reason: String::new(),
            error: String::new(),
            count: 0,
            retry: None,
        }
    }

    pub(super) fn of_item(name: EventName, item: &Item) -> Self {
        let item = Some(item.clone());
        Self {
            item,
            ..Self::new(name)
        }
    }

    pub(super) fn with_reason(self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason, ..self }
    }

    pub(super) fn with_error(self, error: impl Into<String>) -> Self {
        let error = error.into();
        Self { error, ..self }
    }
}

/// Counts events and calls the observer. An observer that panics is not called again.
pub(super) struct EventLog {
    queue: String,
    observer: Option<Observer>,
    has_panicked: AtomicBool,
    counters: [AtomicU64; EventName::ALL.len()],
}

impl EventLog {
    pub(super) fn new(queue: String, observer: Option<Observer>) -> Self {
        Self {
            queue,
            observer,
            has_panicked: AtomicBool::new(false),
            counters: [const { AtomicU64::new(0) }; EventName::ALL.len()],
        }
    }

    /// Returns whether there is an observer.
    pub(super) const fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Counts an event that no observer receives.
    pub(super) fn count(&self, name: EventName) {
        self.counters[name as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Must be called without the lock of the state: the observer may ask for the worker's health.
    pub(super) fn emit(&self, mut event: Event) {
        self.count(event.name);
        let Some(observer) = &self.observer else {
            return;
        };
        if self.has_panicked.load(Ordering::Relaxed) {
            return;
        }
        event.queue.clone_from(&self.queue);
        if catch_unwind(AssertUnwindSafe(|| observer(&event))).is_err() {
            self.has_panicked.store(true, Ordering::Relaxed);
            tracing::error!("the observer of events panicked and is not called again");
        }
    }

    pub(super) fn counters(&self) -> Vec<(EventName, u64)> {
        let counts = self.counters.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        EventName::ALL.iter().copied().zip(counts).collect()
    }
}
