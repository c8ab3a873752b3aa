//! The bench's own record of every item, kept on the client's side of the calls: enqueued, settled, and how often.
//!
//! At the end of a run it shows items that were settled twice, never settled, or never enqueued by this run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::key_set::{ItemKey, KeySet};

/// The way in which a worker settles leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    /// Fail the items, to be tried again immediately.
    Fail,
    Release,
}

/// The result of settling one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Applied,
    /// Applied, and the item has no attempt left.
    Dead,
    /// The lease was lost, so the call changed nothing.
    Lost,
}

/// The record of all queues under load.
pub(crate) struct ItemLedger {
    record: Mutex<Record>,
    /// Number of items to finish, or of leases to hold.
    goal: Option<u64>,
    goal_reached: CancellationToken,
}

#[derive(Default)]
struct Record {
    counts: ItemCounts,
    queues: Vec<QueueRecord>,
    /// Progress towards the goal.
    reached: u64,
}

/// The keys of one queue. `backlog`: how many items are enqueued and not finished.
#[derive(Default)]
struct QueueRecord {
    enqueued: KeySet,
    /// Completed, or dead.
    finished: KeySet,
    backlog: u64,
}

/// Numbers of items, leases and claims since the start of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ItemCounts {
    pub(crate) enqueued: u64,
    pub(crate) completed: u64,
    /// Includes the dead items.
    pub(crate) failed: u64,
    pub(crate) released: u64,
    pub(crate) dead: u64,
    /// Enqueued by this run and not finished. Known only at the end, see [`ItemLedger::final_counts`].
    pub(crate) unfinished: u64,
    /// Finished, but not enqueued by this run. Known only at the end.
    pub(crate) unexpected: u64,
    pub(crate) settled_twice: u64,
    pub(crate) leases_lost: u64,
    pub(crate) leases_extended: u64,
    /// Claims that returned no lease.
    pub(crate) empty_claims: u64,
    /// Claims sent by `--rate`.
    #[serde(skip)]
    pub(crate) scheduled_claims: u64,
    /// Those of them that were sent after their due time.
    #[serde(skip)]
    pub(crate) late_claims: u64,
}

impl ItemCounts {
    /// Returns the number of leases that were settled in any way.
    pub(crate) const fn settled(&self) -> u64 {
        self.completed + self.failed + self.released
    }

    /// Returns the number of items that need no more work.
    pub(crate) const fn finished(&self) -> u64 {
        self.completed + self.dead
    }
}

impl ItemLedger {
    pub(crate) fn new(queues: usize, goal: Option<u64>) -> Self {
        Self {
            record: Mutex::new(Record {
                queues: (0..queues).map(|_| QueueRecord::default()).collect(),
                ..Record::default()
            }),
            goal,
            goal_reached: CancellationToken::new(),
        }
    }

    /// Records enqueued items.
    pub(crate) fn record_enqueued(
        &self,
        queue: usize,
        keys: impl ExactSizeIterator<Item = ItemKey>,
    ) {
        let mut record = self.lock();
        record.counts.enqueued += keys.len() as u64;
        let queue = &mut record.queues[queue];
        queue.backlog += keys.len() as u64;
        for key in keys {
            queue.enqueued.insert(key);
        }
    }

    /// Records the results of settling leases.
    pub(crate) fn record_settled(
        &self,
        queue: usize,
        ending: Ending,
        results: impl Iterator<Item = (ItemKey, Settled)>,
    ) {
        let mut record = self.lock();
        let Record {
            counts,
            queues,
            reached,
        } = &mut *record;
        let queue = &mut queues[queue];
        for (key, result) in results {
            match (result, ending) {
                (Settled::Lost, _) => counts.leases_lost += 1,
                (_, Ending::Complete) => counts.completed += 1,
                (_, Ending::Fail) => counts.failed += 1,
                (_, Ending::Release) => counts.released += 1,
            }
            let is_dead = result == Settled::Dead;
            counts.dead += u64::from(is_dead);
            let is_completed = (result, ending) == (Settled::Applied, Ending::Complete);
            if !(is_completed || is_dead) {
                continue;
            }
            queue.backlog = queue.backlog.saturating_sub(1);
            if !queue.finished.insert(key) {
                counts.settled_twice += 1;
            } else if queue.enqueued.contains(key) {
                // Items that were in the queue before the run do not count towards the goal.
                *reached += 1;
            }
        }
        self.check_goal(&record);
    }

    /// Changes counts that have no effect on the goal.
    pub(crate) fn count(&self, change: impl FnOnce(&mut ItemCounts)) {
        change(&mut self.lock().counts);
    }

    /// Records leases that a worker claimed in order to hold them.
    pub(crate) fn record_held(&self, leases: u64) {
        let mut record = self.lock();
        record.reached += leases;
        self.check_goal(&record);
    }

    /// Returns how many items of a queue this run has enqueued and not finished.
    pub(crate) fn backlog(&self, queue: usize) -> u64 {
        self.lock().queues[queue].backlog
    }

    /// Returns a token that is cancelled when the goal is reached.
    pub(crate) fn goal_reached(&self) -> &CancellationToken {
        &self.goal_reached
    }

    /// Returns the current counts. Does not compare the keys.
    pub(crate) fn counts(&self) -> ItemCounts {
        self.lock().counts
    }

    /// Returns the counts, and compares the enqueued keys with the finished ones.
    pub(crate) fn final_counts(&self) -> ItemCounts {
        let record = self.lock();
        let mut counts = record.counts;
        for queue in &record.queues {
            counts.unfinished += queue.enqueued.difference_len(&queue.finished);
            counts.unexpected += queue.finished.difference_len(&queue.enqueued);
        }
        counts
    }

    fn check_goal(&self, record: &Record) {
        if self.goal.is_some_and(|goal| record.reached >= goal) {
            self.goal_reached.cancel();
        }
    }

    /// Locks the record. Ignores poisoning: a panic in any task fails the run, so a partial record is not reported.
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
