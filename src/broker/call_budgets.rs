//! The budgets of running calls. Each kind of call has its own, so that one kind cannot take the place of another.
//!
//! A call that ends or extends leases takes a place among the settlements. A call that starts work takes one among the
//! working calls. A claim that has found no item gives its place back and takes one among the waiting claims.

use std::sync::{Mutex, PoisonError};

use lease_broker_model::call_source::SharedBudget;

use super::call_context::CallContext;
use super::error::Error;
use super::overload::Overload;
use super::shared_places::{SharedPlace, SharedPlaces};
use crate::config::Budgets;

/// The places of all queues.
pub(super) struct CallBudgets {
    settlements: SharedPlaces,
    working_calls: SharedPlaces,
    waiting_claims: SharedPlaces,
    pub(super) overload: Overload,
}

impl CallBudgets {
    pub(super) fn new(budgets: Budgets) -> Self {
        Self {
            settlements: SharedPlaces::new(SharedBudget::Settlements, budgets.settlements),
            working_calls: SharedPlaces::new(SharedBudget::WorkingCalls, budgets.working_calls),
            waiting_claims: SharedPlaces::new(SharedBudget::WaitingClaims, budgets.waiting_claims),
            overload: Overload::default(),
        }
    }

    /// Takes a place for a call that ends or extends leases.
    pub(super) fn settlement(&self, context: &CallContext) -> Result<SharedPlace, Error> {
        let place = self.settlements.take(context.source.clone());
        place.ok_or_else(|| self.overload.refuse("settlements"))
    }

    /// Takes a place for a call that starts work.
    pub(super) fn working_call(&self, context: &CallContext) -> Result<SharedPlace, Error> {
        let place = self.working_calls.take(context.source.clone());
        place.ok_or_else(|| self.overload.refuse("working_calls"))
    }

    /// Takes a place for a claim. A claim that can wait takes one among the waiting claims if there is no other.
    pub(super) fn claim(&self, context: &CallContext, can_wait: bool) -> Result<ClaimPlace, Error> {
        let place = match self.working_calls.take(context.source.clone()) {
            Some(place) => Place::Working(place),
            None if can_wait => match self.waiting_claims.take(context.source.clone()) {
                Some(place) => Place::Waiting(place),
                None => return Err(self.overload.refuse("waiting_claims")),
            },
            None => return Err(self.overload.refuse("working_calls")),
        };
        Ok(ClaimPlace(Mutex::new(place)))
    }
}

/// The place of a claim.
pub(super) struct ClaimPlace(Mutex<Place>);

enum Place {
    Working(SharedPlace),
    Waiting(#[expect(dead_code, reason = "dropping it returns the place")] SharedPlace),
    Returned,
}

impl ClaimPlace {
    /// Changes to a place among the waiting claims. Returns false, and keeps the place, if there is none.
    pub(super) fn start_waiting(&self, budgets: &CallBudgets) -> bool {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Place::Working(working) = &*place {
            match budgets.waiting_claims.take(working.source()) {
                Some(waiting) => *place = Place::Waiting(waiting),
                None => return false,
            }
        }
        true
    }

    /// Returns the place. The caller of the claim has its answer, or has gone away.
    pub(super) fn give_back(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Place::Returned;
    }
}

#[cfg(test)]
impl CallBudgets {
    /// Returns budgets with one place for each kind of call.
    pub(super) fn with_one_place() -> Self {
        Self::with_places(1)
    }

    /// Returns budgets with this number of places for each kind of call.
    fn with_places(places: usize) -> Self {
        Self::new(Budgets {
            settlements: places,
            working_calls: places,
            waiting_claims: places,
            incomplete_requests: 1,
            request_bytes: 1,
            response_bytes: 1,
            health_checks: 1,
            health_watchers: 1,
            reflection_streams: 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease_broker_model::call_source::CallSource;
    use std::sync::Arc;

    #[tokio::test]
    async fn waiting_claim_leaves_its_place_to_others() {
        let budgets = CallBudgets::with_one_place();
        let first = budgets
            .claim(&CallContext::default(), true)
            .expect("a place");
        assert!(budgets.working_call(&CallContext::default()).is_err());
        assert!(first.start_waiting(&budgets));
        drop(
            budgets
                .working_call(&CallContext::default())
                .expect("a place"),
        );
        let second = budgets
            .claim(&CallContext::default(), true)
            .expect("a place");
        assert!(!second.start_waiting(&budgets));
        first.give_back();
        assert!(second.start_waiting(&budgets));
    }

    #[tokio::test]
    async fn greedy_source_leaves_settlements_to_another() {
        let budgets = CallBudgets::with_places(8);
        let (greedy, modest) = (CallSource::new(), CallSource::new());
        let settle = |source: &Arc<CallSource>| {
            let context = CallContext {
                source: Some(source.clone()),
                ..CallContext::default()
            };
            budgets.settlement(&context).ok()
        };
        drop(settle(&modest));
        let places: Vec<_> = (0..9).filter_map(|_| settle(&greedy)).collect();
        assert_eq!(places.len(), 6);
        assert!(settle(&modest).is_some());
    }

    #[tokio::test]
    async fn claim_that_can_wait_is_refused_last() {
        let budgets = CallBudgets::with_one_place();
        let _working = budgets
            .working_call(&CallContext::default())
            .expect("a place");
        assert!(budgets.claim(&CallContext::default(), false).is_err());
        let _waiting = budgets
            .claim(&CallContext::default(), true)
            .expect("a place");
        assert!(budgets.claim(&CallContext::default(), true).is_err());
        assert!(budgets.settlement(&CallContext::default()).is_ok());
    }
}
