//! Takes leases away from their workers.

use std::collections::HashSet;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::trace_context::Span;
use lease_broker_store::{
    CancelResults, Cancellation, Cancelled, CancelledLease, Leases as _, Refusal,
};

use super::Operator;
use crate::broker::error::Error;
use crate::broker::limits::{cancel_reason, check_cancel_delay, check_length};
use crate::broker::operation_metrics::Operation;
use crate::broker::requests::CancelRequest;

impl Operator {
    /// Takes leases away from their workers, and records that if a broker runs in this process. Claims that wait get the items. Returns
    /// one result per lease, in request order. `call`: the span of the call. `None`: the call is not recorded.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`], [`Error::LimitExceeded`], and those of the store.
    pub async fn cancel_leases(
        &self,
        request: CancelRequest,
        call: Option<Span>,
    ) -> Result<Vec<Cancelled>, Error> {
        let (queue, spec) = self.queue(&request.queue)?;
        if let Some(recorded) = &self.recorded {
            recorded.metrics.add_call(queue, Operation::Settle);
        }
        let store = self.store()?;
        check_length("cancellations", request.leases.len(), self.max_items)?;
        let delay = request.delay.unwrap_or_default();
        check_cancel_delay("delay", delay, request.dead_letter)?;
        let cancellation = Cancellation {
            delay,
            dead_letter: request.dead_letter,
            reason: cancel_reason(&request.reason),
            call,
        };
        let mut seen = HashSet::new();
        let mut leases = Vec::new();
        // One entry per lease of the request: that it is in `leases`, or its refusal.
        let entries = request.leases.into_iter().map(|(text, fence)| {
            let refused = |problem| Cancelled::Refused(Refusal::of_field("key", problem));
            let key = self.parse_key(queue, &text).map_err(refused)?;
            // Several texts can be one key, such as `7` and `07`.
            if !seen.insert(key.to_string()) {
                return Err(Cancelled::repeated_key());
            }
            leases.push(CancelledLease { key, fence });
            Ok(())
        });
        let entries: Vec<Result<(), Cancelled>> = entries.collect();
        let CancelResults {
            results, released, ..
        } = match &self.recorded {
            _ if leases.is_empty() => CancelResults::default(),
            Some(recorded) => recorded.cancel(queue, leases.into(), cancellation).await?,
            None => store.cancel(queue, leases.into(), cancellation).await?,
        };
        let has_entered = |state| {
            let mut results = results.iter();
            results.any(
                |result| matches!(result, Cancelled::Ended { state: new, .. } if *new == state),
            )
        };
        // The end of a lease can free other items of its group.
        let frees_others = spec.takes_turns() && has_entered(State::Dead);
        if has_entered(State::Ready) || !released.is_empty() || frees_others {
            self.wake(queue, Duration::ZERO);
        }
        if has_entered(State::Delayed) {
            self.wake(queue, delay);
        }
        let mut results = results.into_iter();
        let entries = entries.into_iter().map(|entry| match entry {
            Ok(()) => results.next().unwrap_or(Cancelled::NoRow),
            Err(refused) => refused,
        });
        Ok(entries.collect())
    }
}
