//! The budget of the memory that leases take between the store and the network (`budgets.response_bytes`).
//!
//! A claim dispatcher reserves bytes before a store operation, and the store leases no more than that. After the operation,
//! each response keeps the bytes of its own leases until it has been sent or dropped. The rest is returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The longest wait for bytes that responses return.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// The bytes that must be free before a store operation may claim.
const MIN_RESERVED: i64 = 64 << 10;
/// The largest response that is not counted. There can be many small ones, and each would cost an allocation.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// The bytes that the leases of all queues may take in responses.
pub(super) struct ResponseBudget {
    /// Negative while responses take more than was reserved for them.
    free: AtomicI64,
    returned: Notify,
}

/// Bytes of the budget. They are returned when the value is dropped.
pub struct ResponseBytes {
    budget: Arc<ResponseBudget>,
    bytes: i64,
}

impl ResponseBudget {
    /// Creates a budget. An eighth of `bytes` is kept for responses that are not counted.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            free: AtomicI64::new(to_signed(bytes - bytes / 8)),
            returned: Notify::new(),
        }
    }

    /// Reserves up to `wanted` bytes, but not more than half of what is free, so that other queues find some. Waits up to
    /// 250 ms if less than 64 KiB is free. Returns `None` if that is still so afterwards.
    pub(super) async fn reserve(self: &Arc<Self>, wanted: usize) -> Option<ResponseBytes> {
        let wait = async {
            loop {
                // Created before the check, so that no return between the check and the wait is missed.
                let returned = self.returned.notified();
                if let Some(bytes) = self.try_reserve(to_signed(wanted)) {
                    return bytes;
                }
                returned.await;
            }
        };
        if let Some(bytes) = self.try_reserve(to_signed(wanted)) {
            return Some(bytes);
        }
        tokio::time::timeout(MAX_WAIT, wait).await.ok()
    }

    fn try_reserve(self: &Arc<Self>, wanted: i64) -> Option<ResponseBytes> {
        let share = |free: i64| (free / 2).max(MIN_RESERVED).min(wanted);
        let take = |free: i64| (free >= MIN_RESERVED).then(|| free - share(free));
        let free = self
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .ok()?;
        Some(ResponseBytes {
            budget: self.clone(),
            bytes: share(free),
        })
    }
}

impl ResponseBytes {
    /// Returns the number of bytes.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or_default()
    }

    /// Takes the bytes of a response with leases of `bytes` from these. If they are too few, the budget lends the rest.
    /// `None`: the response is so small that it is not counted.
    pub(super) fn split(&mut self, bytes: usize) -> Option<Self> {
        if bytes <= UNCOUNTED_BYTES {
            return None;
        }
        let bytes = to_signed(bytes);
        let lent = (bytes - self.bytes).max(0);
        self.budget.free.fetch_sub(lent, Ordering::AcqRel);
        self.bytes -= bytes - lent;
        Some(Self {
            budget: self.budget.clone(),
            bytes,
        })
    }
}

impl Drop for ResponseBytes {
    fn drop(&mut self) {
        self.budget.free.fetch_add(self.bytes, Ordering::AcqRel);
        self.budget.returned.notify_waiters();
    }
}

fn to_signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn free(budget: &ResponseBudget) -> i64 {
        budget.free.load(Ordering::Acquire)
    }

    #[tokio::test]
    async fn reservation_takes_at_most_half() {
        let budget = Arc::new(ResponseBudget::new(16 * MIB));
        let first = budget.reserve(usize::MAX).await.expect("free");
        assert_eq!(first.bytes(), 7 * MIB);
        let second = budget.reserve(MIB).await.expect("free");
        assert_eq!(second.bytes(), MIB);
        drop((first, second));
        assert_eq!(free(&budget), 14 << 20);
    }

    #[tokio::test]
    async fn responses_keep_their_bytes_until_they_are_dropped() {
        let budget = Arc::new(ResponseBudget::new(16 * MIB));
        let mut reserved = budget.reserve(4 * MIB).await.expect("free");
        assert!(reserved.split(UNCOUNTED_BYTES).is_none());
        let small = reserved.split(MIB).expect("counted");
        let large = reserved.split(8 * MIB).expect("counted");
        drop(reserved);
        assert_eq!(free(&budget), 5 << 20);
        drop(large);
        assert_eq!(free(&budget), 13 << 20);
        drop(small);
        assert_eq!(free(&budget), 14 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn full_budget_is_waited_for_and_then_refused() {
        let budget = Arc::new(ResponseBudget::new(16 * MIB));
        let mut reserved = budget.reserve(MIB).await.expect("free");
        let all = reserved.split(14 * MIB).expect("counted");
        drop(reserved);
        assert!(budget.reserve(MIB).await.is_none());
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.reserve(MIB).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(all);
        assert!(waiting.await.expect("ended"));
    }
}
