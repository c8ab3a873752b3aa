//! Decides which operations of one kind on one queue run at the same time.
//!
//! Calls that wait for an operation share the next one. So an operation that starts early shares its transaction with fewer calls, and
//! one that starts late makes its calls wait.

use lease_broker_store::Concurrency;

/// The largest number of items of an operation beside which a pipelined store takes the next one. With more items the work counts, and
/// not the wait for the device.
const MAX_SMALL_ITEMS: usize = 8;
/// The largest number of operations that a pipelined store has at a time. Four were measured faster than two.
const MAX_PIPELINED: usize = 4;

/// The rule for the operations of one kind on one queue.
pub(super) struct Overlap {
    concurrency: Concurrency,
    /// The number of items of the operation that started last.
    last: usize,
}

impl Overlap {
    pub(super) const fn new(concurrency: Concurrency) -> Self {
        Self {
            concurrency,
            last: 0,
        }
    }

    /// Returns whether a further operation could start beside those that run. Otherwise new calls need no look.
    pub(super) const fn has_room(&self, running: usize) -> bool {
        match self.concurrency {
            Concurrency::Pipelined => {
                running == 0 || running < MAX_PIPELINED && self.last <= MAX_SMALL_ITEMS
            }
            Concurrency::Parallel(max) => running == 0 || running < max,
        }
    }

    /// Returns whether an operation with these items may start now. `is_large`: it need not wait for further calls.
    pub(super) const fn may_start(&self, running: usize, items: usize, is_large: bool) -> bool {
        let is_worth_it = match self.concurrency {
            // So operations have equal sizes, each with its share of the calls.
            Concurrency::Pipelined => is_large || items >= self.last,
            Concurrency::Parallel(_) => is_large,
        };
        items > 0 && self.has_room(running) && (running == 0 || is_worth_it)
    }

    /// Notes that an operation starts.
    pub(super) const fn start(&mut self, items: usize) {
        self.last = items;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelined_operations_overlap_if_both_are_small() {
        let mut overlap = Overlap::new(Concurrency::Pipelined);
        assert!(overlap.may_start(0, 1, false));
        overlap.start(3);
        assert!(!overlap.may_start(1, 2, false), "smaller than the last");
        assert!(overlap.may_start(1, 3, false));
        assert!(!overlap.has_room(MAX_PIPELINED));
        overlap.start(MAX_SMALL_ITEMS + 1);
        assert!(!overlap.has_room(1));
        assert!(overlap.may_start(0, 1, false));
    }

    #[test]
    fn parallel_operations_overlap_if_they_are_large() {
        let overlap = Overlap::new(Concurrency::Parallel(2));
        assert!(overlap.may_start(0, 1, false));
        assert!(!overlap.may_start(1, 1, false));
        assert!(overlap.may_start(1, 1, true));
        assert!(!overlap.may_start(2, 1, true));
    }
}
