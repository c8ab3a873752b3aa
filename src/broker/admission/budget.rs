//! A budget: an amount of one resource, such as places of calls or bytes, of which each caller gets a share.
//!
//! A caller gets more while it holds less than three times what is free (dynamic thresholds, Choudhury and Hahne 1998). It thus
//! gets at most three quarters of what the others leave. Callers that compete get 3 parts in 3n + 1 each, and something is free
//! for a caller that holds little. The rule needs no memory of who called when.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lease_broker_model::call_source::{CallSource, SharedBudget};
use tokio::sync::Notify;

/// A caller that holds this many times what is free gets no more.
const SHARE: i64 = 3;
/// The part that is kept for settlements.
const KEPT_PART: i64 = 4;
/// The longest wait for a part that is returned.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// The smallest part that can be reserved before its use is known.
const MIN_RESERVED: i64 = 64 << 10;

/// An amount of one resource, over all callers.
pub struct Budget {
    kind: SharedBudget,
    /// Negative while more is used than was reserved.
    free: AtomicI64,
    /// The part that only settlements may take.
    kept: i64,
    returned: Notify,
}

/// Which part of a budget a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// Calls that extend or end leases may take everything.
    Settlement,
    /// Other calls leave what is kept for settlements.
    Other,
}

/// A part of a budget that a caller holds. Dropping it returns it.
pub struct Held {
    budget: Arc<Budget>,
    /// `None`: calls from inside the process have no share.
    source: Option<Arc<CallSource>>,
    amount: i64,
}

impl Budget {
    /// Creates a budget.
    pub fn new(kind: SharedBudget, total: usize) -> Arc<Self> {
        Self::keeping(kind, to_signed(total), 0)
    }

    /// Creates a budget of which a quarter is kept for settlements.
    pub fn with_kept_part(kind: SharedBudget, total: usize) -> Arc<Self> {
        let total = to_signed(total);
        Self::keeping(kind, total, total / KEPT_PART)
    }

    fn keeping(kind: SharedBudget, total: i64, kept: i64) -> Arc<Self> {
        Arc::new(Self {
            kind,
            free: AtomicI64::new(total),
            kept,
            returned: Notify::new(),
        })
    }

    /// Returns which budget this is.
    pub fn kind(&self) -> SharedBudget {
        self.kind
    }

    /// Takes a place. `None`: there is none for this caller.
    pub fn take_place(self: &Arc<Self>, source: Option<Arc<CallSource>>) -> Option<Held> {
        let mut held = self.hold_nothing(source);
        held.raise_to(1, Importance::Other).then_some(held)
    }

    /// Returns a part of nothing, which can be raised.
    pub fn hold_nothing(self: &Arc<Self>, source: Option<Arc<CallSource>>) -> Held {
        Held {
            budget: self.clone(),
            source,
            amount: 0,
        }
    }

    /// Returns whether this caller would get more.
    pub fn has_room_for(&self, source: &CallSource, importance: Importance) -> bool {
        let free = self.free_for(self.free.load(Ordering::Relaxed), importance);
        self.held_by(source) < SHARE.saturating_mul(free)
    }

    /// Returns whether this caller holds less than its share of what would be free if a part was returned.
    pub fn may_have_more(&self, source: &CallSource) -> bool {
        let free = self.free.load(Ordering::Relaxed).max(1);
        self.held_by(source) < SHARE.saturating_mul(free)
    }

    /// Returns what a caller holds.
    pub fn held_by(&self, source: &CallSource) -> i64 {
        source.held(self.kind).load(Ordering::Relaxed)
    }

    /// Reserves up to `wanted` for no caller yet, but not more than half of what is free, so that others find some. Waits up to
    /// 250 ms if less than 64 KiB is free. Returns `None` if that is still so afterwards.
    pub async fn reserve(self: &Arc<Self>, wanted: usize) -> Option<Held> {
        let wanted = to_signed(wanted);
        if let Some(held) = self.try_reserve(wanted) {
            return Some(held);
        }
        let wait = async {
            loop {
                // Created before the check, so that nothing that is returned between the check and the wait is missed.
                let returned = self.returned.notified();
                if let Some(held) = self.try_reserve(wanted) {
                    return held;
                }
                returned.await;
            }
        };
        tokio::time::timeout(MAX_WAIT, wait).await.ok()
    }

    fn try_reserve(self: &Arc<Self>, wanted: i64) -> Option<Held> {
        let share = |free: i64| (free / 2).max(MIN_RESERVED).min(wanted);
        let take = |all: i64| {
            let free = self.free_for(all, Importance::Other);
            (free >= MIN_RESERVED).then(|| all - share(free))
        };
        let before = self
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .ok()?;
        let mut held = self.hold_nothing(None);
        held.amount = share(self.free_for(before, Importance::Other));
        Some(held)
    }

    fn free_for(&self, free: i64, importance: Importance) -> i64 {
        match importance {
            Importance::Settlement => free,
            Importance::Other => free - self.kept,
        }
    }

    fn give_back(&self, amount: i64) {
        self.free.fetch_add(amount, Ordering::AcqRel);
        // Notifying takes a lock. Nothing else is waited for.
        if self.kind == SharedBudget::ResponseBytes {
            self.returned.notify_waiters();
        }
    }
}

impl Held {
    /// Returns which budget this is a part of.
    pub fn kind(&self) -> SharedBudget {
        self.budget.kind
    }

    /// Returns the caller.
    pub fn source(&self) -> Option<Arc<CallSource>> {
        self.source.clone()
    }

    /// Returns what the caller holds of the budget.
    pub fn held_by_caller(&self) -> i64 {
        let source = self.source.as_deref();
        source.map_or(0, |source| self.budget.held_by(source))
    }

    /// Returns the amount.
    pub fn amount(&self) -> usize {
        usize::try_from(self.amount).unwrap_or_default()
    }

    /// Takes more, so that the part is at least `amount`. Returns false, and takes nothing, if there is not so much for the
    /// caller.
    pub fn raise_to(&mut self, amount: usize, importance: Importance) -> bool {
        let more = to_signed(amount) - self.amount;
        if more <= 0 {
            return true;
        }
        let budget = &self.budget;
        let held = self.source.as_ref().map(|source| source.held(budget.kind));
        // Counted before the check, so that calls of one caller at the same time do not pass it together.
        let own = held.map_or(0, |held| held.fetch_add(more, Ordering::AcqRel));
        let take = |all: i64| {
            let free = budget.free_for(all, importance);
            (more <= free && own < SHARE.saturating_mul(free)).then(|| all - more)
        };
        let taken = budget
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        if taken.is_ok() {
            self.amount += more;
        } else if let Some(held) = held {
            held.fetch_sub(more, Ordering::AcqRel);
        }
        taken.is_ok()
    }

    /// Takes `amount` for a caller from what was reserved. If that is too little, the budget lends the rest.
    #[must_use]
    pub fn split(&mut self, amount: usize, source: Option<Arc<CallSource>>) -> Self {
        let amount = to_signed(amount);
        let lent = (amount - self.amount).max(0);
        self.budget.free.fetch_sub(lent, Ordering::AcqRel);
        self.amount -= amount - lent;
        if let Some(source) = &source {
            source
                .held(self.budget.kind)
                .fetch_add(amount, Ordering::AcqRel);
        }
        Self {
            budget: self.budget.clone(),
            source,
            amount,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(source) = &self.source {
            let held = source.held(self.budget.kind);
            held.fetch_sub(self.amount, Ordering::AcqRel);
        }
        if self.amount > 0 {
            self.budget.give_back(self.amount);
        }
    }
}

fn to_signed(amount: usize) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn places(total: usize) -> Arc<Budget> {
        Budget::new(SharedBudget::WorkingCalls, total)
    }

    fn bytes(total: usize) -> Arc<Budget> {
        Budget::with_kept_part(SharedBudget::ResponseBytes, total)
    }

    fn take(budget: &Arc<Budget>, source: &Arc<CallSource>, wanted: usize) -> Vec<Held> {
        let places = (0..wanted).map(|_| budget.take_place(Some(source.clone())));
        places.flatten().collect()
    }

    fn free(budget: &Budget) -> i64 {
        budget.free.load(Ordering::Acquire)
    }

    #[test]
    fn one_caller_gets_three_quarters_and_another_the_rest() {
        let budget = places(8);
        let (greedy, modest) = (CallSource::new(), CallSource::new());
        let taken = take(&budget, &greedy, 9);
        assert_eq!(taken.len(), 6);
        assert_eq!(take(&budget, &modest, 3).len(), 2);
        drop(taken);
        assert_eq!(free(&budget), 8);
        let held = greedy.held(SharedBudget::WorkingCalls);
        assert_eq!(held.load(Ordering::Acquire), 0);
    }

    #[test]
    fn newcomer_finds_places_beside_six_greedy_callers() {
        let budget = places(10_000);
        let greedy = [(); 6].map(|()| take(&budget, &CallSource::new(), 2_000));
        assert!(greedy[0].len() == 2_000 && greedy[5].len() < 2_000);
        assert!(take(&budget, &CallSource::new(), 100).len() > 50);
    }

    #[test]
    fn small_budgets_are_used_up() {
        for total in 1..=3 {
            let budget = places(total);
            assert_eq!(take(&budget, &CallSource::new(), 4).len(), total);
        }
    }

    #[test]
    fn last_quarter_is_kept_for_settlements() {
        let budget = bytes(1_000);
        let mut other = budget.hold_nothing(None);
        assert!(other.raise_to(750, Importance::Other));
        assert!(!other.raise_to(751, Importance::Other));
        let mut settlement = budget.hold_nothing(None);
        assert!(settlement.raise_to(250, Importance::Settlement));
        assert!(!settlement.raise_to(251, Importance::Settlement));
        drop(other);
        assert!(settlement.raise_to(1_000, Importance::Settlement));
        drop(settlement);
        assert_eq!(free(&budget), 1_000);
    }

    #[tokio::test]
    async fn reservation_takes_at_most_half() {
        let budget = bytes(16 * MIB);
        let first = budget.reserve(usize::MAX).await.expect("free");
        assert_eq!(first.amount(), 6 * MIB);
        let second = budget.reserve(MIB).await.expect("free");
        assert_eq!(second.amount(), MIB);
        drop((first, second));
        assert_eq!(free(&budget), 16 << 20);
    }

    #[tokio::test]
    async fn parts_of_a_reservation_count_for_their_callers() {
        let budget = bytes(16 * MIB);
        let caller = CallSource::new();
        let held = caller.held(SharedBudget::ResponseBytes);
        let mut reserved = budget.reserve(4 * MIB).await.expect("free");
        let small = reserved.split(MIB, Some(caller.clone()));
        let large = reserved.split(8 * MIB, Some(caller.clone()));
        drop(reserved);
        assert_eq!(free(&budget), 7 << 20);
        assert_eq!(held.load(Ordering::Acquire), 9 << 20);
        assert!(budget.has_room_for(&caller, Importance::Settlement));
        assert!(!budget.has_room_for(&caller, Importance::Other));
        drop((small, large));
        assert_eq!(free(&budget), 16 << 20);
        assert_eq!(held.load(Ordering::Acquire), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn full_budget_is_waited_for_and_then_refused() {
        let budget = bytes(16 * MIB);
        let mut reserved = budget.reserve(MIB).await.expect("free");
        let all = reserved.split(12 * MIB, None);
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
