//! Calls of programs that are no workers: cancel leases, and wake the claims that wait.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_store::{
    CancelResults, Cancellation, Cancelled, CancelledLease, Leases as _, Refusal,
};

use super::Broker;
use super::call_context::CallContext;
use super::error::Error;
use super::limits::{cancel_reason, check_cancel_delay};
use super::operation_metrics::Operation;
use super::requests::CancelRequest;
use lease_broker_model::trace_context::Span;

/// A cancellation whose request was checked.
pub(super) struct CheckedCancel {
    /// The leases to cancel. No key is in the list twice.
    pub(super) leases: Arc<[CancelledLease]>,
    /// The change.
    pub(super) cancellation: Cancellation,
    /// One entry per lease of the request: that it is in `leases`, or its refusal.
    entries: Vec<Result<(), Cancelled>>,
}

impl CheckedCancel {
    /// Checks a request. `call`: the span of the call. `None`: the call is not recorded.
    ///
    /// # Errors
    /// [`Error::InvalidField`] and [`Error::LimitExceeded`] for the delay.
    pub(super) fn new(
        request: CancelRequest,
        parse_key: impl Fn(&str) -> Result<Key, String>,
        call: Option<Span>,
    ) -> Result<Self, Error> {
        let delay = request.delay.unwrap_or_default();
        check_cancel_delay("delay", delay, request.dead_letter)?;
        let mut seen = HashSet::new();
        let mut leases = Vec::new();
        let mut entries = Vec::with_capacity(request.leases.len());
        for (text, fence) in request.leases {
            let refused = |problem: String| Cancelled::Refused(Refusal::of_field("key", problem));
            let entry = match parse_key(&text) {
                Err(problem) => Err(refused(problem)),
                // Several texts can be one key, such as `7` and `07`.
                Ok(key) if !seen.insert(key.to_string()) => Err(Cancelled::repeated_key()),
                Ok(key) => {
                    leases.push(CancelledLease { key, fence });
                    Ok(())
                }
            };
            entries.push(entry);
        }
        Ok(Self {
            leases: leases.into(),
            cancellation: Cancellation {
                delay,
                dead_letter: request.dead_letter,
                reason: cancel_reason(&request.reason),
                call,
            },
            entries,
        })
    }

    /// Returns one result per lease of the request. `cancelled`: the results of the store.
    pub(super) fn results(self, cancelled: Vec<Cancelled>) -> Vec<Cancelled> {
        let mut cancelled = cancelled.into_iter();
        let results = self.entries.into_iter().map(|entry| match entry {
            Ok(()) => cancelled.next().unwrap_or(Cancelled::NoRow),
            Err(refused) => refused,
        });
        results.collect()
    }
}

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
        let parse_key = |text: &str| self.store.reads().parse_key(queue.index, text);
        let checked = CheckedCancel::new(request, parse_key, context.span())?;
        let delay = checked.cancellation.delay;
        let CancelResults {
            results: cancelled,
            released,
            ..
        } = if checked.leases.is_empty() {
            CancelResults::default()
        } else {
            context.begin()?;
            let (leases, cancellation) = (checked.leases.clone(), checked.cancellation.clone());
            let cancelled = self.leases.cancel(queue.index, leases, cancellation);
            cancelled.await?
        };
        let has_entered = |state| {
            let mut results = cancelled.iter();
            results.any(
                |result| matches!(result, Cancelled::Ended { state: new, .. } if *new == state),
            )
        };
        if has_entered(State::Ready) || !released.is_empty() {
            queue.wakeups.notify_item_ready_in(Duration::ZERO);
        }
        if queue.spec.takes_turns() && has_entered(State::Dead) {
            // The end of a lease can free other items.
            queue.wakeups.notify_item_ready_in(Duration::ZERO);
        }
        if has_entered(State::Delayed) {
            queue.wakeups.notify_item_ready_in(delay);
        }
        Ok(checked.results(cancelled))
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
