//! A budget of places that the sources of calls share.
//!
//! One source alone may take all places. If another source has used the budget within the last 10 s and less than a quarter of
//! the places is free, a source that has more than half of them gets no further place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use lease_broker_model::call_source::{CallSource, SharedBudget, SourceNumber};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The time for which a source counts after its last call.
const RECENT_SECONDS: u32 = 10;

pub(super) struct SharedPlaces {
    budget: SharedBudget,
    free: Arc<Semaphore>,
    total: usize,
    recent: RecentSources,
    started: Instant,
}

/// A place in the budget. Dropping it returns it.
pub(super) struct SharedPlace {
    source: Option<Arc<CallSource>>,
    budget: SharedBudget,
    _permit: OwnedSemaphorePermit,
}

impl SharedPlaces {
    pub(super) fn new(budget: SharedBudget, total: usize) -> Self {
        Self {
            budget,
            free: Arc::new(Semaphore::new(total)),
            total,
            recent: RecentSources::default(),
            started: Instant::now(),
        }
    }

    /// Takes a place for a call of this source. `None`: there is no place for it.
    pub(super) fn take(&self, source: Option<Arc<CallSource>>) -> Option<SharedPlace> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        let place = SharedPlace {
            source,
            budget: self.budget,
            _permit: permit,
        };
        let Some(source) = &place.source else {
            return Some(place);
        };
        let taken = source.places(self.budget).fetch_add(1, Ordering::Relaxed) + 1;
        let second = u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX);
        self.recent.note(source.number(), second);
        let is_scarce = self.free.available_permits() < self.total / 4;
        let is_refused = is_scarce
            && taken > self.total / 2
            && self.recent.has_other_than(source.number(), second);
        (!is_refused).then_some(place)
    }
}

impl SharedPlace {
    /// Returns the source of the call.
    pub(super) fn source(&self) -> Option<Arc<CallSource>> {
        self.source.clone()
    }
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        if let Some(source) = &self.source {
            source.places(self.budget).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The last two sources, each with the second of its last call. A race between two calls can lose one of them, which the next
/// call of that source corrects.
#[derive(Default)]
struct RecentSources {
    last: AtomicU64,
    other: AtomicU64,
}

impl RecentSources {
    fn note(&self, source: SourceNumber, second: u32) {
        let entry = u64::from(source.0) << 32 | u64::from(second);
        let last = self.last.load(Ordering::Relaxed);
        if last == entry {
            return;
        }
        if number_of(last) != source {
            self.other.store(last, Ordering::Relaxed);
        }
        self.last.store(entry, Ordering::Relaxed);
    }

    fn has_other_than(&self, source: SourceNumber, second: u32) -> bool {
        [&self.last, &self.other].into_iter().any(|entry| {
            let entry = entry.load(Ordering::Relaxed);
            let number = number_of(entry);
            let age = second.saturating_sub(second_of(entry));
            number != source && number != SourceNumber::default() && age < RECENT_SECONDS
        })
    }
}

fn number_of(entry: u64) -> SourceNumber {
    SourceNumber(u32::try_from(entry >> 32).unwrap_or_default())
}

fn second_of(entry: u64) -> u32 {
    u32::try_from(entry & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_alone_may_take_all_places() {
        let budget = SharedPlaces::new(SharedBudget::WorkingCalls, 8);
        let source = CallSource::new();
        let places: Vec<_> = (0..9).map(|_| budget.take(Some(source.clone()))).collect();
        assert_eq!(places.iter().flatten().count(), 8);
        drop(places);
        let places = source.places(SharedBudget::WorkingCalls);
        assert_eq!(places.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn greedy_source_leaves_places_to_another() {
        let budget = SharedPlaces::new(SharedBudget::WorkingCalls, 8);
        let (greedy, modest) = (CallSource::new(), CallSource::new());
        drop(budget.take(Some(modest.clone())));
        let places: Vec<_> = (0..9).map(|_| budget.take(Some(greedy.clone()))).collect();
        assert_eq!(places.iter().flatten().count(), 6);
        let others: Vec<_> = (0..3).map(|_| budget.take(Some(modest.clone()))).collect();
        assert_eq!(others.iter().flatten().count(), 2);
        drop(places);
        assert!(budget.take(Some(greedy)).is_some());
    }

    #[test]
    fn source_counts_for_10_seconds() {
        let recent = RecentSources::default();
        let (first, second) = (SourceNumber(1), SourceNumber(2));
        recent.note(first, 5);
        assert!(!recent.has_other_than(first, 5));
        recent.note(second, 6);
        recent.note(second, 14);
        assert!(recent.has_other_than(second, 14));
        assert!(!recent.has_other_than(second, 15));
        assert!(recent.has_other_than(first, 23));
        assert!(!recent.has_other_than(first, 24));
    }
}
