//! Settlement: ends leases on behalf of the complete, fail and release calls.
//!
//! A lease id that cannot be decoded is held by no worker. Its result is that of a lost lease. A settlement with a
//! malformed follow-up is refused. Neither reaches the store, and neither affects the other settlements of the call.

use lease_broker_model::lease_id::LeaseId;
use lease_broker_model::lease_trace::LeaseTrace;
use lease_broker_model::text::Quoted;
use lease_broker_store::{
    Ending, FollowUp, NewItem, Problem, ProblemKind, Refusal, Settled, Settlement,
};

use super::call_context::CallContext;
use super::error::Error;
use super::group_commit::{CallFailure, GroupCommit};
use super::limits::check_delay;
use super::operation_metrics::Operation;
use super::requests::LeaseCompletion;
use super::{Broker, Queue};

impl Broker {
    /// Ends leases. A settlement is an `Err` if its result is already known. `worker`: the id of the worker, if the call names
    /// it.
    ///
    /// Returns one result per settlement, in request order.
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub(super) async fn settle(
        &self,
        context: &CallContext,
        queue: &Queue,
        mut settlements: Vec<Result<Settlement, Settled>>,
        worker: Option<&str>,
    ) -> Result<Vec<Settled>, Error> {
        self.metrics.add_call(queue.index, Operation::Settle);
        let _place = self.budgets.settlement(context)?;
        if self.leases.tracer.is_wanted() {
            let call = context.span();
            for settlement in settlements.iter_mut().flatten() {
                if let Some(trace) = &mut settlement.trace {
                    trace.call = call;
                    trace.worker = worker.map(str::to_owned);
                }
                self.leases.tracer.prepare(settlement);
            }
        }
        Ok(submit_valid(context, settlements, &queue.settlements).await?)
    }

    /// Checks a completion. Returns its settlement, or the result of a completion that does not reach the store.
    pub(super) fn completion(
        &self,
        queue: &Queue,
        id: LeaseId,
        completion: LeaseCompletion,
    ) -> Result<Settlement, Settled> {
        let follow_ups = completion.follow_ups;
        let follow_ups = follow_ups.and_then(|follow_ups| self.check_follow_ups(follow_ups));
        let follow_ups = follow_ups.map(|mut follow_ups| {
            self.trace_follow_ups(queue, &id, &mut follow_ups);
            follow_ups
        });
        let checked = completion
            .columns
            .and_then(|columns| Ok((columns, follow_ups?)));
        let (columns, follow_ups) = checked.map_err(Settled::Refused)?;
        Ok(Settlement {
            lease: id.lease,
            ending: Ending::Complete { follow_ups },
            columns,
            checkpoint: None,
            trace: Some(Box::new(LeaseTrace::new(id.origin))),
        })
    }

    /// Gives each follow-up without a trace context that of the lease, so that the follow-up's lease continues its trace.
    fn trace_follow_ups(&self, queue: &Queue, id: &LeaseId, follow_ups: &mut [FollowUp]) {
        let tracer = &self.leases.tracer;
        if follow_ups.is_empty() || !tracer.shows_trace(&id.origin) {
            return;
        }
        let context = tracer.context(queue.index, &id.lease.key, id.lease.fence, &id.origin);
        for follow_up in follow_ups {
            let own = &mut follow_up.item.trace_parent;
            own.get_or_insert_with(|| context.to_string());
        }
    }

    /// Checks the follow-ups of a completion and resolves the names of their queues.
    fn check_follow_ups(
        &self,
        follow_ups: Vec<(String, NewItem)>,
    ) -> Result<Vec<FollowUp>, Refusal> {
        let follow_ups = follow_ups.into_iter().enumerate();
        follow_ups
            .map(|(index, (queue, item))| {
                check_delay(|| format!("follow_ups[{index}].item.delay"), item.delay)
                    .map_err(Error::into_refusal)?;
                let (queue, _) = self.operator.queue(&queue).map_err(|_| {
                    let text = format!("queue {} is not configured", Quoted(&queue));
                    Refusal {
                        field: Some(format!("follow_ups[{index}].queue")),
                        problem: Problem::new(ProblemKind::QueueNotFound, text),
                    }
                })?;
                Ok(FollowUp { queue, item })
            })
            .collect()
    }
}

/// Submits the requests that are `Ok` and returns one result per request, in order. The result of an `Err` is its value.
pub(super) async fn submit_valid<I, R>(
    context: &CallContext,
    requests: Vec<Result<I, R>>,
    group_commit: &GroupCommit<I, R>,
) -> Result<Vec<R>, CallFailure>
where
    I: Clone + Send + Sync + 'static,
    R: Send + 'static,
{
    let mut valid_requests = Vec::with_capacity(requests.len());
    let known_results: Vec<Option<R>> = requests
        .into_iter()
        .map(|request| match request {
            Ok(request) => {
                valid_requests.push(request);
                None
            }
            Err(result) => Some(result),
        })
        .collect();
    let mut results = group_commit
        .submit(context, valid_requests)
        .await?
        .into_iter();
    // The store returns one result per valid request.
    let results = known_results
        .into_iter()
        .filter_map(|known| known.or_else(|| results.next()));
    Ok(results.collect())
}
