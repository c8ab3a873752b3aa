//! The places of requests that have arrived in part (`budgets.incomplete_requests`).
//!
//! A request has a place from its headers to its last byte. If there is none for its caller, a request of a caller with more
//! places loses its place. If there is no such caller, the request that has been incomplete for longest loses its place, provided
//! that it is older than a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::call_source::{CallSource, SharedBudget};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::broker::{Budget, Held};

/// The age from which a request can lose its place to another.
const MIN_AGE: Duration = Duration::from_secs(1);

/// The places of all requests.
pub(in crate::grpc) struct Incomplete {
    budget: Arc<Budget>,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    next: u64,
    /// By the order in which they were taken.
    taken: BTreeMap<u64, Taken>,
}

struct Taken {
    place: Held,
    since: Instant,
    /// Cancelled when another request takes the place.
    lost: CancellationToken,
}

/// A place of a request. It is returned when the value is dropped.
pub(super) struct Place {
    incomplete: Arc<Incomplete>,
    number: u64,
    lost: CancellationToken,
}

impl Incomplete {
    pub(in crate::grpc) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            budget: Budget::new(SharedBudget::IncompleteRequests, max),
            places: Mutex::default(),
        })
    }

    /// Takes a place. `None`: there is none for this caller.
    pub(super) fn take(self: &Arc<Self>, source: &Arc<CallSource>) -> Option<Place> {
        let mut places = self.places.lock();
        let take = || self.budget.take_place(Some(source.clone()));
        let place = take().or_else(|| {
            let taken = self.place_to_lose(&places, source)?;
            places.taken.remove(&taken)?.lost.cancel();
            take()
        })?;
        let number = places.next;
        places.next += 1;
        let (since, lost) = (Instant::now(), CancellationToken::new());
        let taken = Taken {
            place,
            since,
            lost: lost.clone(),
        };
        places.taken.insert(number, taken);
        Some(Place {
            incomplete: self.clone(),
            number,
            lost,
        })
    }

    /// Returns the place that a request of this caller may take from another one.
    fn place_to_lose(&self, places: &Places, source: &CallSource) -> Option<u64> {
        if !self.budget.may_have_more(source) {
            return None;
        }
        let own = self.budget.held_by(source);
        let is_greedier = |(_, taken): &(&u64, &Taken)| taken.place.held_by_caller() > own + 1;
        let is_old = |(_, taken): &(&u64, &Taken)| taken.since.elapsed() >= MIN_AGE;
        let greedy = places.taken.iter().find(is_greedier);
        let lost = greedy.or_else(|| places.taken.first_key_value().filter(is_old));
        lost.map(|(number, _)| *number)
    }
}

impl Place {
    /// Waits until another request has taken the place.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.incomplete.places.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn greedy_callers_make_room_for_others() {
        let incomplete = Incomplete::new(16);
        let greedy: Vec<_> = (0..16).map(|_| CallSource::new()).collect();
        let taken: Vec<_> = [&greedy[..8], &greedy[..8]].concat();
        let taken: Vec<_> = taken
            .iter()
            .map(|caller| incomplete.take(caller).expect("a place"))
            .collect();
        let modest = CallSource::new();
        let _place = incomplete.take(&modest).expect("a place");
        let lost = |places: &[Place]| {
            places
                .iter()
                .filter(|place| place.lost.is_cancelled())
                .count()
        };
        assert!(taken[0].lost.is_cancelled());
        assert_eq!(lost(&taken), 1);
        // Each has as many as the others now, or one more.
        assert!(incomplete.take(&modest).is_none());
    }

    #[tokio::test]
    async fn caller_with_its_share_takes_no_place_of_others() {
        let incomplete = Incomplete::new(8);
        let (greedy, modest) = (CallSource::new(), CallSource::new());
        let all: Vec<_> = (0..8).map_while(|_| incomplete.take(&greedy)).collect();
        assert_eq!(all.len(), 6);
        let place = incomplete.take(&modest).expect("a place");
        assert!(incomplete.take(&greedy).is_none() && !place.lost.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_request_loses_its_place_after_a_second() {
        let incomplete = Incomplete::new(2);
        let take = || incomplete.take(&CallSource::new());
        let oldest = take().expect("a place");
        tokio::time::advance(MIN_AGE / 2).await;
        let second = take().expect("a place");
        assert!(take().is_none());
        tokio::time::advance(MIN_AGE / 2).await;
        let _third = take().expect("a place");
        oldest.lost().await;
        assert!(!second.lost.is_cancelled());
        drop(oldest);
        assert!(take().is_none());
    }
}
