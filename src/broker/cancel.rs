//! Calls of programs that are no workers: cancel leases, and wake the claims that wait.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::{Cancellation, Cancelled, CancelledLease, Refusal};

use super::Broker;
use super::call_context::CallContext;
use super::error::Error;
use super::limits::{MAX_ERROR_LENGTH, check_delay};
use super::operation_metrics::Operation;
use super::requests::CancelRequest;

/// The reason that is stored if the caller gives none.
const DEFAULT_REASON: &str = "the lease was cancelled";

impl Broker {
    /// Takes leases away from their workers. Returns one result per lease, in request order.
    ///
    /// # Errors
    /// As [`Self::heartbeat`].
    pub async fn cancel_leases(
        &self,
        context: &CallContext,
        request: CancelRequest,
    ) -> Result<Vec<Cancelled>, Error> {
        let queue = self.queue(&request.queue)?;
        self.metrics.add_call(queue.index, Operation::Settle);
        let _place = self.budgets.working_call(context)?;
        self.limits
            .check_length("cancellations", request.leases.len())?;
        let delay = request.delay.unwrap_or_default();
        check_delay(|| "delay".to_owned(), delay)?;
        if request.dead_letter && !delay.is_zero() {
            return Err(Error::invalid(
                "delay",
                "cannot be combined with dead_letter",
            ));
        }
        let mut seen = HashSet::new();
        let checked = request.leases.into_iter().map(|(text, fence)| {
            let refused = |problem: String| Cancelled::Refused(Refusal::of_field("key", problem));
            let key = self.store.parse_key(queue.index, &text).map_err(refused)?;
            if seen.insert(text) {
                Ok(CancelledLease { key, fence })
            } else {
                Err(refused("another entry of the list has this key".to_owned()))
            }
        });
        let checked: Vec<Result<CancelledLease, Cancelled>> = checked.collect();
        let leases: Arc<[CancelledLease]> = checked.iter().flatten().cloned().collect();
        let reason: String = request.reason.chars().take(MAX_ERROR_LENGTH).collect();
        let cancellation = Cancellation {
            delay,
            dead_letter: request.dead_letter,
            reason: if reason.is_empty() {
                DEFAULT_REASON.to_owned()
            } else {
                reason
            },
            call: context.span(),
        };
        let cancelled = if leases.is_empty() {
            Vec::new()
        } else {
            context.begin()?;
            let operations = &self.lease_operations;
            let cancelled = operations.cancel(queue.index, leases, cancellation);
            cancelled.await?.results
        };
        let has_entered = |state| {
            let mut results = cancelled.iter();
            results.any(
                |result| matches!(result, Cancelled::Ended { state: new, .. } if *new == state),
            )
        };
        if has_entered(State::Ready) {
            queue.wakeups.notify_item_ready_in(Duration::ZERO);
        }
        if has_entered(State::Delayed) {
            queue.wakeups.notify_item_ready_in(delay);
        }
        let mut cancelled = cancelled.into_iter();
        let results = checked.into_iter().map(|checked| match checked {
            Ok(_) => cancelled.next().unwrap_or(Cancelled::NoRow),
            Err(refused) => refused,
        });
        Ok(results.collect())
    }

    /// Lets the claims that wait for items of the queue look for them now. Several calls at once cause one look.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`].
    pub fn wake(&self, queue: &str) -> Result<(), Error> {
        self.queue(queue)?.wakeups.items_ready.notify_one();
        Ok(())
    }
}
