//! What became of the items, counted on this side of the calls: which were added, which have ended, and how often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::keys::{ItemKey, Keys};

/// The books of all queues.
pub(super) struct Ledger {
    queues: Box<[Queue]>,
    /// Leases settled, in whatever way.
    settled: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    released: AtomicU64,
    dead: AtomicU64,
    lost: AtomicU64,
    extended: AtomicU64,
    empty_claims: AtomicU64,
    /// How many of the items added must have ended, or leases be held; none: there is no goal.
    goal: Option<u64>,
    reached: AtomicU64,
    done: CancellationToken,
}

#[derive(Default)]
struct Queue {
    added: AtomicU64,
    ended: AtomicU64,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    added: Keys,
    ended: Keys,
    /// Items that ended once more.
    again: u64,
}

/// What became of a lease that was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Completed,
    /// Failed for good.
    Dead,
    /// Failed, to be tried again.
    Failed,
    Released,
    /// It was not held any more.
    Lost,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) added: u64,
    pub(super) settled: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) released: u64,
    pub(super) dead: u64,
    pub(super) lost: u64,
    pub(super) extended: u64,
    pub(super) empty_claims: u64,
}

/// What comparing the keys shows in the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    /// Added and not ended.
    pub(super) left: u64,
    /// Ended, though this run did not add them.
    pub(super) found: u64,
    /// Ended more than once.
    pub(super) again: u64,
}

impl Ledger {
    /// Opens the books of so many queues.
    pub(super) fn new(queues: usize, goal: Option<u64>) -> Self {
        Self {
            queues: (0..queues).map(|_| Queue::default()).collect(),
            settled: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            released: AtomicU64::new(0),
            dead: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            extended: AtomicU64::new(0),
            empty_claims: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            goal,
            done: CancellationToken::new(),
        }
    }

    /// Books items that were added.
    pub(super) fn add(&self, queue: usize, keys: impl ExactSizeIterator<Item = ItemKey>) {
        let queue = &self.queues[queue];
        queue.added.fetch_add(keys.len() as u64, Ordering::Relaxed);
        let mut book = lock(&queue.book);
        for key in keys {
            book.added.insert(key);
        }
    }

    /// Books what became of leases.
    pub(super) fn settle(&self, queue: usize, settled: impl Iterator<Item = (ItemKey, Settled)>) {
        let mut counts = [0_u64; 5];
        let mut of_goal = 0;
        {
            let mut book = lock(&self.queues[queue].book);
            for (key, settled) in settled {
                counts[settled as usize] += 1;
                let ends = matches!(settled, Settled::Completed | Settled::Dead);
                if !ends {
                    continue;
                }
                if !book.ended.insert(key) {
                    book.again += 1;
                } else if self.goal.is_some() && book.added.contains(key) {
                    // Items of others, in a queue that had some, do not count.
                    of_goal += 1;
                }
            }
        }
        let [completed, dead, failed, released, lost] = counts;
        let add = |counter: &AtomicU64, count| counter.fetch_add(count, Ordering::Relaxed);
        add(&self.settled, completed + dead + failed + released);
        add(&self.completed, completed);
        for (counter, count) in [
            (&self.failed, failed + dead),
            (&self.dead, dead),
            (&self.released, released),
            (&self.lost, lost),
        ] {
            if count > 0 {
                add(counter, count);
            }
        }
        if completed + dead > 0 {
            add(&self.queues[queue].ended, completed + dead);
            self.reach(of_goal);
        }
    }

    /// Books leases that were extended, and those that were lost instead.
    pub(super) fn extend(&self, extended: u64, lost: u64) {
        self.extended.fetch_add(extended, Ordering::Relaxed);
        self.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// Books leases that were claimed to be held.
    pub(super) fn hold(&self, leases: u64) {
        self.reach(leases);
    }

    /// Books a claim that got nothing.
    pub(super) fn nothing_claimed(&self) {
        self.empty_claims.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many of a queue's items were added and have not ended.
    pub(super) fn waiting(&self, queue: usize) -> u64 {
        let queue = &self.queues[queue];
        let added = queue.added.load(Ordering::Relaxed);
        added.saturating_sub(queue.ended.load(Ordering::Relaxed))
    }

    /// Is cancelled once the goal is reached: all that must end has ended, or is held.
    pub(super) fn done(&self) -> &CancellationToken {
        &self.done
    }

    /// Returns the counts as they are now.
    pub(super) fn tally(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            added: self.queues.iter().map(|queue| read(&queue.added)).sum(),
            settled: read(&self.settled),
            completed: read(&self.completed),
            failed: read(&self.failed),
            released: read(&self.released),
            dead: read(&self.dead),
            lost: read(&self.lost),
            extended: read(&self.extended),
            empty_claims: read(&self.empty_claims),
        }
    }

    /// Compares the keys.
    pub(super) fn balance(&self) -> Balance {
        let mut balance = Balance::default();
        for queue in &self.queues {
            let book = lock(&queue.book);
            balance.left += book.added.count_without(&book.ended);
            balance.found += book.ended.count_without(&book.added);
            balance.again += book.again;
        }
        balance
    }

    /// Comes nearer to the goal.
    fn reach(&self, by: u64) {
        let Some(goal) = self.goal else { return };
        if self.reached.fetch_add(by, Ordering::Relaxed) + by >= goal {
            self.done.cancel();
        }
    }
}

/// A panic in another task has left no book half written.
fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}
