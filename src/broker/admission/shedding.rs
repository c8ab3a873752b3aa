//! Shedding: refuses calls that wait too long for their turn, so that the queue of calls before the store stays short.
//!
//! The calls of one kind on one queue wait together. Each store operation takes the calls that wait, up to a maximum. If it
//! takes all of them, the store keeps up, and no call is refused, however slow the store is. If calls stay behind, operation
//! after operation, the store cannot keep up. Without shedding each call would then wait for as many operations as
//! `budgets.working_calls` allows, which can be a hundred, and its caller would have given up.
//!
//! Only calls that start work are refused. Calls that end or extend leases are not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::budgets::Budgets;
use crate::broker::error::{Error, OverloadCause};

/// The limits of a call's wait. A call is refused if it exceeds both: if this number of operations has started without it, and
/// this time has passed since the first of them.
///
/// A number alone would refuse a burst on a fast store. A time alone would refuse calls on a slow one.
struct Limits {
    operations: usize,
    time: Duration,
}

/// The limits until a call is refused. Ordinary workers with large batches wait for up to about eight operations.
const CALM: Limits = Limits {
    operations: 16,
    time: Duration::from_millis(500),
};
/// The limits after a refusal, until an operation takes all calls. With those above, every call that is served would have
/// waited nearly as long as one that is refused.
const OVERLOADED: Limits = Limits {
    operations: 4,
    time: Duration::from_millis(100),
};

/// The position of a call: the number of operations that had started when it arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::broker) struct Arrival(u64);

/// Gives calls their position.
#[derive(Clone, Default)]
pub(in crate::broker) struct Arrivals(Arc<AtomicU64>);

impl Arrivals {
    /// Returns the position of a call that arrives now.
    pub(in crate::broker) fn next(&self) -> Arrival {
        Arrival(self.0.load(Ordering::Relaxed))
    }
}

/// The operations of one kind on one queue, and the decision which of their calls are refused.
pub(in crate::broker) struct Shedding {
    arrivals: Arrivals,
    /// The start times of the last operations, the newest last.
    starts: VecDeque<Instant>,
    overloaded: bool,
    budgets: Arc<Budgets>,
}

impl Shedding {
    pub(in crate::broker) fn new(arrivals: Arrivals, budgets: Arc<Budgets>) -> Self {
        Self {
            arrivals,
            starts: VecDeque::with_capacity(CALM.operations),
            overloaded: false,
            budgets,
        }
    }

    /// Notes that an operation starts. `takes_all`: no call stays behind.
    pub(in crate::broker) fn operation_starts(&mut self, takes_all: bool) {
        self.arrivals.0.fetch_add(1, Ordering::Relaxed);
        if self.starts.len() == CALM.operations {
            self.starts.pop_front();
        }
        self.starts.push_back(Instant::now());
        if takes_all {
            self.overloaded = false;
        }
    }

    /// Returns the position up to which calls have waited too long. `None`: no call has.
    pub(in crate::broker) fn too_late(&self) -> Option<Arrival> {
        let limits = if self.overloaded { OVERLOADED } else { CALM };
        let first = self.starts.len().checked_sub(limits.operations)?;
        let waited = self.starts.get(first)?.elapsed();
        let operations = u64::try_from(limits.operations).unwrap_or(u64::MAX);
        let started = self.arrivals.next().0;
        (waited > limits.time).then(|| Arrival(started.saturating_sub(operations)))
    }

    /// Returns the error for a call that has waited too long.
    pub(in crate::broker) fn refuse(&mut self) -> Error {
        self.overloaded = true;
        self.budgets.overload.refuse(OverloadCause::Delay)
    }
}

impl Arrival {
    /// Returns whether a call with this position has waited too long. `too_late` is the result of [`Shedding::too_late`].
    pub(in crate::broker) fn is_too_late(self, too_late: Option<Self>) -> bool {
        too_late.is_some_and(|last| self.0 <= last.0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    fn shedding() -> Shedding {
        let budgets = Arc::new(Budgets::with_one_place());
        Shedding::new(Arrivals::default(), budgets)
    }

    /// Starts this number of operations that leave calls behind, each after this time.
    async fn start(shedding: &mut Shedding, count: usize, step: Duration) {
        for _ in 0..count {
            advance(step).await;
            shedding.operation_starts(false);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn call_is_refused_after_16_operations_and_500_ms() {
        let mut shedding = shedding();
        let first = shedding.arrivals.next();
        start(&mut shedding, 15, STEP).await;
        advance(STEP).await;
        assert!(!first.is_too_late(shedding.too_late()));
        let second = shedding.arrivals.next();
        shedding.operation_starts(false);
        assert!(first.is_too_late(shedding.too_late()));
        assert!(!second.is_too_late(shedding.too_late()));
    }

    #[tokio::test(start_paused = true)]
    async fn burst_on_a_fast_store_is_served() {
        let mut shedding = shedding();
        let first = shedding.arrivals.next();
        start(&mut shedding, 40, Duration::from_millis(10)).await;
        assert!(!first.is_too_late(shedding.too_late()));
    }

    #[tokio::test(start_paused = true)]
    async fn call_on_a_slow_store_is_served() {
        let mut shedding = shedding();
        let first = shedding.arrivals.next();
        start(&mut shedding, 8, Duration::from_secs(3)).await;
        assert!(!first.is_too_late(shedding.too_late()));
    }

    #[tokio::test(start_paused = true)]
    async fn limits_are_lower_until_an_operation_takes_all_calls() {
        let mut shedding = shedding();
        start(&mut shedding, 16, STEP).await;
        assert!(matches!(shedding.refuse(), Error::Overloaded { .. }));
        let call = shedding.arrivals.next();
        start(&mut shedding, 4, STEP).await;
        assert!(call.is_too_late(shedding.too_late()));
        advance(STEP).await;
        shedding.operation_starts(true);
        assert!(!call.is_too_late(shedding.too_late()));
    }
}
