//! The budget of the memory that requests take (`budgets.request_bytes`).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The part of the budget that is kept for calls that end or extend leases: a quarter.
const RESERVED_PART: i64 = 4;

/// The bytes that the requests of all connections may take.
pub(in crate::grpc) struct RequestBytes {
    free: AtomicI64,
    reserved: i64,
}

/// Which calls may use the reserved part of the budget.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Importance {
    /// Calls that end or extend leases may use all bytes.
    Settlement,
    /// All other calls.
    Other,
}

/// Bytes of the budget. They are returned when the value is dropped.
pub(super) struct Charge {
    budget: Arc<RequestBytes>,
    bytes: i64,
}

impl RequestBytes {
    pub(in crate::grpc) fn new(bytes: usize) -> Self {
        let bytes = to_signed(bytes);
        Self {
            free: AtomicI64::new(bytes),
            reserved: bytes / RESERVED_PART,
        }
    }

    fn try_take(&self, bytes: i64, importance: Importance) -> bool {
        let kept = match importance {
            Importance::Settlement => 0,
            Importance::Other => self.reserved,
        };
        let take = |free: i64| (free - bytes >= kept).then(|| free - bytes);
        let taken = self
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.is_ok()
    }
}

impl Charge {
    /// Returns a charge of no bytes.
    pub(super) fn new(budget: Arc<RequestBytes>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Takes more bytes, so that the charge has at least `bytes`. Returns false, and takes nothing, if they are not free.
    pub(super) fn raise_to(&mut self, bytes: usize, importance: Importance) -> bool {
        let more = to_signed(bytes) - self.bytes;
        if more <= 0 {
            return true;
        }
        let taken = self.budget.try_take(more, importance);
        if taken {
            self.bytes += more;
        }
        taken
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.free.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

fn to_signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_quarter_is_kept_for_settlements() {
        let budget = Arc::new(RequestBytes::new(1_000));
        let mut other = Charge::new(budget.clone());
        assert!(other.raise_to(750, Importance::Other));
        assert!(!other.raise_to(751, Importance::Other));
        let mut settlement = Charge::new(budget.clone());
        assert!(settlement.raise_to(250, Importance::Settlement));
        assert!(!settlement.raise_to(251, Importance::Settlement));
        drop(other);
        assert!(settlement.raise_to(1_000, Importance::Settlement));
        drop(settlement);
        assert_eq!(budget.free.load(Ordering::Acquire), 1_000);
    }
}
