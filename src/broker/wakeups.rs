//! Wake-ups of one queue's background tasks: the claim dispatcher and the reaper.
//!
//! Without them, both tasks would learn of a change only at their next poll of the store.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The wake-ups of one queue.
#[derive(Default)]
pub(super) struct Wakeups {
    /// Wakes the claim dispatcher: an item has become ready through this broker.
    pub(super) items_ready: Notify,
    /// Wakes the reaper at the next due time that this broker knows of.
    pub(super) reaper_timer: DueTimer,
}

impl Wakeups {
    /// Wakes the task that an item needs which becomes ready after `delay`: the claim dispatcher if the item is ready
    /// now, otherwise the reaper when the delay has passed.
    pub(super) fn notify_item_ready_in(&self, delay: Duration) {
        if delay.is_zero() {
            self.items_ready.notify_one();
        } else {
            self.reaper_timer.advance_to(delay);
        }
    }
}

/// A timer for one waiting task. Any other task can make it fire earlier, but not later.
#[derive(Default)]
pub(super) struct DueTimer {
    /// The time when the timer fires. `None`: no time has been set.
    due: Mutex<Option<Instant>>,
    /// Wakes the waiting task to read an earlier `due`.
    advanced: Notify,
}

impl DueTimer {
    /// Sets the timer to fire after `delay`, whether that is earlier or later than before. Only the task that waits may
    /// call this, because it does not wake the waiting task.
    pub(super) fn set(&self, delay: Duration) {
        *self.due.lock() = Some(Instant::now() + delay);
    }

    /// Makes the timer fire after `delay` at the latest.
    pub(super) fn advance_to(&self, delay: Duration) {
        let Some(wanted) = Instant::now().checked_add(delay) else {
            return;
        };
        let mut due = self.due.lock();
        if due.is_none_or(|due| wanted < due) {
            *due = Some(wanted);
            drop(due);
            self.advanced.notify_one();
        }
    }

    /// Waits until the timer fires.
    pub(super) async fn wait(&self) {
        loop {
            let due = *self.due.lock();
            let advanced = self.advanced.notified();
            match due {
                None => advanced.await,
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = tokio::time::sleep_until(due) => return,
                        () = advanced => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn due_timer_fires_at_the_earliest_time_asked_for() {
        let timer = DueTimer::default();
        timer.set(Duration::from_secs(60));
        let start = Instant::now();
        tokio::join!(timer.wait(), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            timer.advance_to(Duration::from_secs(4));
            timer.advance_to(Duration::from_secs(30));
        });
        assert_eq!(start.elapsed().as_secs(), 5);
    }
}
