//! A lease as its worker holds it, and the run of a handler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::AbortRegistration;

use super::context::{Cause, Context};
use super::item::Item;
use super::values::after;

/// Numbers the runs of a worker.
pub(super) type RunNumber = u64;

/// The shortest time between two heartbeats.
const MIN_HEARTBEAT_PERIOD: Duration = Duration::from_millis(250);

/// The progress of a lease. It only moves forward, except that a refused settlement returns it to `Running`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The handler runs.
    Running,
    /// The handler has ended. The settling call was not sent yet.
    Ended,
    /// The settling call is in its first attempt. A lost lease in a heartbeat means nothing.
    Settling,
    /// The settling call is sent again, or waits because the row is locked. Heartbeats keep the lease meanwhile.
    Resending,
}

#[derive(Debug)]
pub(super) struct HeldLease {
    pub(super) id: String,
    pub(super) item: Item,
    pub(super) run: Option<RunNumber>,
    pub(super) phase: Phase,
    /// True if the item was released, and not processed.
    pub(super) is_released: bool,
    /// The time that the lease lasts after a heartbeat.
    pub(super) duration: Duration,
    /// The moment until which the lease is held. It is not later than the database's, unless the lease is unconfirmed.
    pub(super) deadline: Instant,
    /// True until the first heartbeat of a lease whose claim has waited for items. The lease began at some moment of the
    /// wait, so its deadline can be late by the time that the response took.
    pub(super) unconfirmed: bool,
    /// The moment before the last request that was answered for this lease was sent.
    pub(super) last_answer: Instant,
    /// True if no heartbeat was answered for half of the lease.
    pub(super) in_doubt: bool,
    /// The number of refusals of its ending because the row is locked.
    pub(super) tries: u32,
    /// The last checkpoint that the handler has saved. `saved` counts them. `stored` is the number of the last one that a
    /// heartbeat has stored.
    pub(super) checkpoint: Option<Vec<u8>>,
    pub(super) saved: u64,
    pub(super) stored: u64,
}

impl HeldLease {
    pub(super) fn new(
        id: String,
        item: Item,
        duration: Duration,
        sent_at: Instant,
        arrived_at: Instant,
    ) -> Self {
        let unconfirmed = arrived_at.duration_since(sent_at) > duration / 10;
        let since = if unconfirmed { arrived_at } else { sent_at };
        Self {
            id,
            item,
            run: None,
            phase: Phase::Running,
            is_released: false,
            duration,
            deadline: after(since, duration),
            unconfirmed,
            last_answer: since,
            in_doubt: false,
            tries: 0,
            checkpoint: None,
            saved: 0,
            stored: 0,
        }
    }

    /// Notes the answer to a heartbeat that was sent at `sent_at`.
    pub(super) fn extend(&mut self, sent_at: Instant, time_left: Duration) {
        let deadline = after(sent_at, time_left);
        if self.unconfirmed || deadline > self.deadline {
            self.deadline = deadline;
            self.unconfirmed = false;
        }
        self.last_answer = self.last_answer.max(sent_at);
        self.duration = self.duration.max(time_left);
        self.in_doubt = false;
    }

    /// Returns the moment at which the worker gives the lease up. With heartbeats it is early enough for the handler to
    /// stop before another worker starts. Without them a handler has until the deadline.
    pub(super) fn lost_at(&self, heartbeat: bool) -> Instant {
        let margin = if heartbeat {
            self.duration / 10
        } else {
            Duration::ZERO
        };
        self.deadline.checked_sub(margin).unwrap_or(self.deadline)
    }

    pub(super) fn wants_heartbeat(&self) -> bool {
        self.phase != Phase::Settling
    }

    /// Returns the time between two heartbeats.
    pub(super) fn heartbeat_period(&self) -> Duration {
        (self.duration / 3).max(MIN_HEARTBEAT_PERIOD)
    }
}

/// A handler that runs, with the items that it works on: one, or those of a batch.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) items: Arc<[Item]>,
    pub(super) context: Context,
    pub(super) started_at: Instant,
    pub(super) cancelled: Option<(Cause, Instant)>,
    /// True if the handler still runs long after its cancellation.
    pub(super) stuck: bool,
}

/// A run that is about to start.
pub(super) struct Start {
    pub(super) run: RunNumber,
    pub(super) items: Arc<[Item]>,
    pub(super) context: Context,
    /// Ends the future of the handler in the second step of the cancellation.
    pub(super) drops: AbortRegistration,
}
