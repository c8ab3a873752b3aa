//! The store operations that run now, so that one that hangs can be seen while it hangs.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The operations that run now.
#[derive(Default)]
pub(super) struct RunningOperations(Mutex<Operations>);

#[derive(Default)]
struct Operations {
    next: u64,
    /// In the order of their start.
    running: Vec<Operation>,
}

struct Operation {
    number: u64,
    start: Instant,
    /// The broker has given it up, and the store may still run it.
    is_abandoned: bool,
}

/// A running operation. Dropping it ends the operation, unless it was abandoned.
pub(super) struct RunningOperation<'a> {
    operations: &'a RunningOperations,
    number: u64,
}

impl RunningOperations {
    /// Notes that an operation starts.
    pub(super) fn start(&self) -> RunningOperation<'_> {
        self.with(|operations| {
            let number = operations.next;
            operations.next += 1;
            operations.running.push(Operation {
                number,
                start: Instant::now(),
                is_abandoned: false,
            });
            RunningOperation {
                operations: self,
                number,
            }
        })
    }

    /// Notes that the store works again, so that it runs no abandoned operation any more.
    pub(super) fn forget_abandoned(&self) {
        self.with(|operations| operations.running.retain(|running| !running.is_abandoned));
    }

    /// Returns the time for which the oldest operation has run. Zero: none runs.
    pub(super) fn oldest_age(&self) -> Duration {
        let oldest = self.with(|operations| operations.running.first().map(|first| first.start));
        oldest.map_or(Duration::ZERO, |start| start.elapsed())
    }

    fn with<T>(&self, use_operations: impl FnOnce(&mut Operations) -> T) -> T {
        use_operations(&mut self.0.lock())
    }
}

impl RunningOperation<'_> {
    /// Gives the operation up while the store runs it.
    pub(super) fn abandon(self) {
        self.operations.with(|operations| {
            let mut running = operations.running.iter_mut();
            if let Some(own) = running.find(|running| running.number == self.number) {
                own.is_abandoned = true;
            }
        });
    }
}

impl Drop for RunningOperation<'_> {
    fn drop(&mut self) {
        self.operations.with(|operations| {
            let is_own = |running: &Operation| running.number == self.number;
            operations
                .running
                .retain(|running| running.is_abandoned || !is_own(running));
        });
    }
}
