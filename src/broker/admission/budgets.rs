//! All budgets of a broker. Each kind of call and of memory has its own, so that one kind cannot take what another needs.
//!
//! A call that ends or extends leases takes a place among the settlements. A call that starts work takes one among the
//! working calls. A claim that has found no item gives its place back and takes one among the waiting claims.

use std::sync::Arc;

use lease_broker_model::call_source::SharedBudget;
use parking_lot::Mutex;

use super::budget::{Budget, Held};
use super::overload::Overload;
use crate::broker::call_context::CallContext;
use crate::broker::error::{Error, OverloadCause};
use crate::config;

/// The budgets of all queues and connections.
pub struct Budgets {
    settlements: Arc<Budget>,
    working_calls: Arc<Budget>,
    waiting_claims: Arc<Budget>,
    /// The memory of requests.
    pub request_bytes: Arc<Budget>,
    /// The memory of responses that have not left.
    pub response_bytes: Arc<Budget>,
    /// Calls whose responses have not left.
    pub open_streams: Arc<Budget>,
    /// Health checks whose answers have not left.
    pub health_checks: Arc<Budget>,
    /// Clients that watch the health.
    pub health_watchers: Arc<Budget>,
    /// Streams of the reflection service.
    pub reflection_streams: Arc<Budget>,
    pub(super) overload: Overload,
}

impl Budgets {
    /// Creates the budgets.
    pub fn new(budgets: config::Budgets) -> Self {
        use SharedBudget as Of;
        Self {
            settlements: Budget::new(Of::Settlements, budgets.settlements),
            working_calls: Budget::new(Of::WorkingCalls, budgets.working_calls),
            waiting_claims: Budget::new(Of::WaitingClaims, budgets.waiting_claims),
            request_bytes: Budget::with_kept_part(Of::RequestBytes, budgets.request_bytes),
            response_bytes: Budget::with_kept_part(Of::ResponseBytes, budgets.response_bytes),
            open_streams: Budget::new(Of::OpenStreams, budgets.open_streams),
            health_checks: Budget::new(Of::HealthChecks, budgets.health_checks),
            health_watchers: Budget::new(Of::HealthWatchers, budgets.health_watchers),
            reflection_streams: Budget::new(Of::ReflectionStreams, budgets.reflection_streams),
            overload: Overload::default(),
        }
    }

    /// Returns the error for a call that is refused because this setting of the section `budgets` is used up.
    pub fn refuse(&self, setting: &'static str) -> Error {
        self.overload.refuse(OverloadCause::Budget(setting))
    }

    /// Takes a place for a call that ends or extends leases.
    pub(in crate::broker) fn settlement(&self, context: &CallContext) -> Result<Held, Error> {
        self.place(&self.settlements, context)
    }

    /// Takes a place for a call that starts work.
    pub(in crate::broker) fn working_call(&self, context: &CallContext) -> Result<Held, Error> {
        self.place(&self.working_calls, context)
    }

    fn place(&self, budget: &Arc<Budget>, context: &CallContext) -> Result<Held, Error> {
        let place = budget.take_place(context.source.clone());
        place.ok_or_else(|| self.refuse(budget.kind().name()))
    }

    /// Takes a place for a claim. A claim that can wait takes one among the waiting claims if there is no other.
    pub(in crate::broker) fn claim(
        &self,
        context: &CallContext,
        can_wait: bool,
    ) -> Result<ClaimPlace, Error> {
        let place = match self.working_call(context) {
            Err(_) if can_wait => self.place(&self.waiting_claims, context),
            place => place,
        };
        Ok(ClaimPlace(Mutex::new(Some(place?))))
    }
}

/// The place of a claim, among the working calls or the waiting claims. `None`: it was returned.
pub(in crate::broker) struct ClaimPlace(Mutex<Option<Held>>);

impl ClaimPlace {
    /// Changes to a place among the waiting claims. Returns false, and keeps the place, if there is none.
    pub(in crate::broker) fn start_waiting(&self, budgets: &Budgets) -> bool {
        let mut place = self.0.lock();
        let is_working = |place: &&Held| place.kind() == SharedBudget::WorkingCalls;
        let Some(working) = place.as_ref().filter(is_working) else {
            return true;
        };
        let waiting = budgets.waiting_claims.take_place(working.source());
        waiting.is_some_and(|waiting| place.replace(waiting).is_some())
    }

    /// Returns the place. The caller of the claim has its answer, or has gone away.
    pub(in crate::broker) fn give_back(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
impl Budgets {
    /// Returns budgets with one place for each kind of call.
    pub(in crate::broker) fn with_one_place() -> Self {
        Self::new(config::Budgets {
            settlements: 1,
            working_calls: 1,
            waiting_claims: 1,
            incomplete_requests: 1,
            request_bytes: 1,
            response_bytes: 1,
            open_streams: 1,
            health_checks: 1,
            health_watchers: 1,
            reflection_streams: 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_claim_leaves_its_place_to_others() {
        let budgets = Budgets::with_one_place();
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
    async fn claim_that_can_wait_is_refused_last() {
        let budgets = Budgets::with_one_place();
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
