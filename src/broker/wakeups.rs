//! What the parts of a queue tell one another: that items may be ready, and that something falls due sooner.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The signals of one queue.
#[derive(Default)]
pub(super) struct Wakeups {
    /// An item has become ready through this broker.
    pub(super) ready: Notify,
    /// When the reaper is to look.
    pub(super) due: DueTimer,
}

impl Wakeups {
    /// Tells of an item that is ready after `delay`.
    pub(super) fn item_ready_in(&self, delay: Duration) {
        if delay.is_zero() {
            self.ready.notify_one();
        } else {
            self.due.no_later_than(delay);
        }
    }
}

/// A wake-up time that anybody can bring forward.
#[derive(Default)]
pub(super) struct DueTimer {
    at: Mutex<Option<Instant>>,
    brought_forward: Notify,
}

impl DueTimer {
    /// Sets the time, later or sooner.
    pub(super) fn set(&self, delay: Duration) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + delay);
    }

    /// Brings the time forward, if it is later.
    pub(super) fn no_later_than(&self, delay: Duration) {
        let Some(wanted) = Instant::now().checked_add(delay) else {
            return;
        };
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if at.is_none_or(|at| wanted < at) {
            *at = Some(wanted);
            drop(at);
            self.brought_forward.notify_one();
        }
    }

    /// Waits until the time has come.
    pub(super) async fn ring(&self) {
        loop {
            let at = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
            let forward = self.brought_forward.notified();
            match at {
                None => forward.await,
                Some(at) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(at) => return,
                        () = forward => {}
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
    async fn an_alarm_can_be_brought_forward_and_never_put_off_by_others() {
        let alarm = DueTimer::default();
        alarm.set(Duration::from_secs(60));
        let start = Instant::now();
        tokio::join!(alarm.ring(), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            alarm.no_later_than(Duration::from_secs(4));
            alarm.no_later_than(Duration::from_secs(30));
        });
        assert_eq!(start.elapsed().as_secs(), 5);
    }
}
