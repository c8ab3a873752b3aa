//! The calls of the API, one method for each: claim, heartbeat, complete, fail, release, release claims, enqueue, wake.
//!
//! Each method checks the request, decides what depends on the configuration (lease duration, backoff), and hands the
//! result to the queue's claim dispatcher or group commit. An entry that is malformed, or whose lease is not held, fails
//! alone: its result says so. A request that is malformed itself is refused as a whole and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::AfterFailure;
use lease_broker_model::lease_id::LeaseId;
use lease_broker_model::lease_trace::LeaseTrace;
use lease_broker_store::{
    Applied, ClaimCall, Ending, EnqueueOnce, EnqueuedOnce, NewItem, Refusal, Rejection, Renewal,
    Renewed, Settled, Settlement, StoreError,
};
use lease_broker_value::Value;
use rand::RngExt as _;
use uuid::Uuid;

use super::call_context::CallContext;
use super::error::Error;
use super::group_commit::CallFailure;
use super::held_back::HeldBack;
use super::limits::{self, check_checkpoint, check_delay};
use super::operation_metrics::Operation;
use super::requests::{
    ClaimRequest, Enqueued, LeaseCompletion, LeaseFailure, LeaseRelease, LeaseRenewal,
    ReleaseClaimsRequest,
};
use super::settle::submit_valid;
use super::undelivered::UndeliveredLeases;
use super::{Broker, Queue};

/// The results of settlements, and of the claim beside them. `None`: there was no claim.
pub type SettledAndClaimed = (Vec<Settled>, Option<Result<UndeliveredLeases, Error>>);

impl Broker {
    /// Leases items. Returns no leases if no item is ready within the wait.
    ///
    /// `time_to_deadline`: the time that is left until the caller's deadline. A claim that waits stops waiting then. `None`: the caller
    /// set no deadline.
    ///
    /// # Errors
    /// [`Error::Draining`] after [`Broker::drain`], [`Error::QueueNotFound`], an invalid field, an exceeded limit, or
    /// the store's error.
    pub async fn claim(
        &self,
        context: &CallContext,
        claim: ClaimRequest,
        time_to_deadline: Option<Duration>,
    ) -> Result<UndeliveredLeases, Error> {
        let queue = self.queue(&claim.queue)?;
        self.metrics.add_call(queue.index, Operation::Claim);
        let longest = time_to_deadline.unwrap_or(Duration::MAX);
        let wait = claim.wait_timeout.map(|wait| wait.min(longest));
        let call = self.claim_call(context, queue, claim)?;
        if self.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        let place = self.budgets.claim(context, wait.is_some())?;
        let counters = self.metrics.queue(queue.index);
        let _waiting = wait.map(|_| counters.waiting.hold());
        let leases = queue.claims.claim(context, call, wait, place).await;
        self.count_held_back(queue, leases)
    }

    /// Checks a claim, and returns the store's form of it.
    fn claim_call(
        &self,
        context: &CallContext,
        queue: &Queue,
        claim: ClaimRequest,
    ) -> Result<ClaimCall, Error> {
        claim.into_claim_call(
            &context.owner,
            &queue.spec,
            &self.limits,
            self.store.secret(),
            |group| {
                let reads = self.store.reads();
                let group = reads.parse_group(queue.index, group)?;
                reads.check_group_type(queue.index, &group)?;
                Ok(group)
            },
        )
    }

    /// Counts a claim that got no lease, by its reason.
    fn count_held_back(
        &self,
        queue: &Queue,
        claimed: Result<UndeliveredLeases, Error>,
    ) -> Result<UndeliveredLeases, Error> {
        if let Some(reason) = claimed.as_ref().ok().and_then(UndeliveredLeases::held_back) {
            self.metrics.queue(queue.index).held_back[reason as usize].add(1);
        }
        claimed
    }

    /// Extends leases, and stores the checkpoints of those that are held. Returns one result per renewal, in request order.
    ///
    /// The leases last `lease_duration` from now. `None`: each lasts as long as it was claimed for.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], an invalid field, an exceeded limit, or the store's error. Nothing was changed, unless
    /// the store became unavailable during the call.
    pub async fn heartbeat(
        &self,
        context: &CallContext,
        queue: &str,
        renewals: Vec<LeaseRenewal>,
        lease_duration: Option<Duration>,
    ) -> Result<Vec<Renewed>, Error> {
        let queue = self.queue(queue)?;
        self.metrics.add_call(queue.index, Operation::Heartbeat);
        let _place = self.budgets.settlement(context)?;
        self.limits.check_length("renewals", renewals.len())?;
        if let Some(duration) = lease_duration {
            limits::check_lease_duration(&queue.spec, "lease_duration", duration)?;
        }
        let mut shortest = Duration::MAX;
        let mut checked = Vec::with_capacity(renewals.len());
        let ids = renewals.iter().map(|renewal| &*renewal.lease_id);
        let ids = self.decode_lease_ids(queue, &context.owner, ids)?;
        for (id, renewal) in ids.into_iter().zip(renewals) {
            let checkpoint = renewal.checkpoint;
            let checkpoint =
                check_checkpoint(&queue.spec, checkpoint.as_deref()).map(|()| checkpoint);
            let renewal = match (id, checkpoint) {
                (None, _) => Err(Renewed::UNKNOWN),
                (_, Err(refusal)) => Err(Renewed::Refused(refusal)),
                (Some(id), Ok(checkpoint)) => Ok(Renewal {
                    duration: lease_duration.unwrap_or(id.origin.duration),
                    lease: id.lease,
                    checkpoint,
                    trace: Some(Box::new(LeaseTrace::new(id.origin))),
                }),
            };
            let durations = renewal.iter().map(|renewal| renewal.duration);
            shortest = durations.fold(shortest, Duration::min);
            checked.push(renewal);
        }
        let renewed = submit_valid(context, checked, &queue.heartbeats).await?;
        if renewed.iter().any(|renewed| renewed.expiry().is_some()) {
            queue.wakeups.reaper_timer.advance_to(shortest);
        }
        Ok(renewed)
    }

    /// Ends leases whose work is done, and adds their follow-up items in the same transaction. Returns one result per
    /// completion, in request order.
    ///
    /// With `next`, it leases the next items of the same queue at the same time. The claim does not wait for an item. If the
    /// completions fail, the call fails. The new leases are then released, except those of a claim with a request id: they
    /// stay, and the caller gets them when it sends the claim again. If only the claim fails, the call succeeds with the
    /// error of the claim.
    ///
    /// # Errors
    /// As [`Self::heartbeat`]. The path of a field of `next` starts with `next.`.
    pub async fn complete(
        &self,
        context: &CallContext,
        queue: &str,
        completions: Vec<LeaseCompletion>,
        next: Option<ClaimRequest>,
    ) -> Result<SettledAndClaimed, Error> {
        let queue = self.queue(queue)?;
        let settlements = self.settlements_of(context, queue, completions)?;
        self.settle_and_claim(context, queue, settlements, next)
            .await
    }

    /// Checks completions and decodes their lease ids.
    fn settlements_of(
        &self,
        context: &CallContext,
        queue: &Queue,
        completions: Vec<LeaseCompletion>,
    ) -> Result<Vec<Result<Settlement, Settled>>, Error> {
        self.limits.check_length("completions", completions.len())?;
        let follow_ups = completions.iter().map(|completion| {
            let follow_ups = completion.follow_ups.as_ref();
            follow_ups.map_or(0, Vec::len)
        });
        self.limits
            .check_length("completions.follow_ups", follow_ups.sum())?;
        let ids = completions.iter().map(|completion| &*completion.lease_id);
        let ids = self.decode_lease_ids(queue, &context.owner, ids)?;
        let completions = ids.into_iter().zip(completions);
        Ok(completions
            .map(|(id, completion)| self.completion(queue, id.ok_or(Settled::Lost)?, completion))
            .collect())
    }

    async fn settle_and_claim(
        &self,
        context: &CallContext,
        queue: &Queue,
        settlements: Vec<Result<Settlement, Settled>>,
        next: Option<ClaimRequest>,
    ) -> Result<SettledAndClaimed, Error> {
        let Some(next) = next else {
            let results = self.settle(context, queue, settlements, None).await?;
            return Ok((results, None));
        };
        self.metrics.add_call(queue.index, Operation::Claim);
        let call = self.claim_call(context, queue, next);
        let call = call.map_err(|error| error.in_message("next"))?;
        let claim = async |call| {
            let place = self.budgets.claim(context, false)?;
            queue.claims.claim(context, call, None, place).await
        };
        let (results, mut leases) = tokio::join!(
            self.settle(context, queue, settlements, Some(&call.worker)),
            claim(call.clone())
        );
        let held_back = leases.as_ref().ok().and_then(UndeliveredLeases::held_back);
        // The leases that the call has ended meanwhile may have held the claim back.
        if results.is_ok() && held_back.is_some_and(HeldBack::ends_with_a_lease) {
            leases = claim(call).await;
        }
        let leases = self.count_held_back(queue, leases);
        match results {
            Ok(results) => Ok((results, Some(leases))),
            Err(error) => {
                let is_unclaimed = match &leases {
                    Ok(leases) => leases.is_empty(),
                    Err(error) => error.applied() == Applied::No,
                };
                Err(if is_unclaimed {
                    error
                } else {
                    Error::Partly(Box::new(error))
                })
            }
        }
    }

    /// Ends leases whose work failed. The item is tried again after a delay, or becomes a dead letter if its attempts
    /// are used up or the failure says so. Returns one result per failure, in request order. `next` is as in
    /// [`Self::complete`].
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub async fn fail(
        &self,
        context: &CallContext,
        queue: &str,
        failures: Vec<LeaseFailure>,
        next: Option<ClaimRequest>,
    ) -> Result<SettledAndClaimed, Error> {
        let queue = self.queue(queue)?;
        let settlements = self.settlements_of_failures(context, queue, failures)?;
        self.settle_and_claim(context, queue, settlements, next)
            .await
    }

    /// Checks failures, decodes their lease ids, and decides what becomes of their items.
    fn settlements_of_failures(
        &self,
        context: &CallContext,
        queue: &Queue,
        failures: Vec<LeaseFailure>,
    ) -> Result<Vec<Result<Settlement, Settled>>, Error> {
        self.limits.check_length("failures", failures.len())?;
        let mut settlements = Vec::with_capacity(failures.len());
        let ids = failures.iter().map(|failure| &*failure.lease_id);
        let ids = self.decode_lease_ids(queue, &context.owner, ids)?;
        for (id, failure) in ids.into_iter().zip(failures) {
            let attempt = id.as_ref().map_or(1, |id| id.lease.attempt);
            let policy = &queue.spec.retry;
            let delay = if failure.dead_letter || policy.is_exhausted(attempt) {
                Ok(None)
            } else {
                checked_delay("retry_delay", failure.retry_delay)
            };
            let ending = delay.map(|delay| Ending::Fail {
                retry: match policy.after_failure(attempt, delay, rand::rng().random()) {
                    AfterFailure::Retry(delay) if !failure.dead_letter => Some(delay),
                    _ => None,
                },
                error: limits::stored_text(&failure.error),
            });
            let columns = failure.columns;
            settlements.push(settlement(queue, id, ending, columns, failure.checkpoint));
        }
        Ok(settlements)
    }

    /// Ends leases whose work was not done and gives their attempts back. Returns one result per release, in request order.
    ///
    /// # Errors
    /// As [`Self::heartbeat`].
    pub async fn release(
        &self,
        context: &CallContext,
        queue: &str,
        releases: Vec<LeaseRelease>,
    ) -> Result<Vec<Settled>, Error> {
        let queue = self.queue(queue)?;
        self.limits.check_length("releases", releases.len())?;
        let mut settlements = Vec::with_capacity(releases.len());
        let ids = releases.iter().map(|release| &*release.lease_id);
        let ids = self.decode_lease_ids(queue, &context.owner, ids)?;
        for (id, release) in ids.into_iter().zip(releases) {
            let ending = checked_delay("delay", release.delay).map(|delay| Ending::Release {
                delay: delay.unwrap_or_default(),
            });
            let columns = Ok(Vec::new());
            settlements.push(settlement(queue, id, ending, columns, release.checkpoint));
        }
        self.settle(context, queue, settlements, None).await
    }

    /// Releases every lease of claims, and ends the claims with these request ids that wait at this broker, without leases.
    /// Returns the number of leases that were released.
    ///
    /// # Errors
    /// As [`Self::heartbeat`].
    pub async fn release_claims(
        &self,
        context: &CallContext,
        request: ReleaseClaimsRequest,
    ) -> Result<usize, Error> {
        let queue = self.queue(&request.queue)?;
        self.metrics.add_call(queue.index, Operation::Settle);
        let ReleaseClaimsRequest {
            worker_id,
            request_ids,
            ..
        } = request;
        self.limits.check_length("request_ids", request_ids.len())?;
        self.limits.check_worker_id("worker_id", &worker_id)?;
        let _place = self.budgets.settlement(context)?;
        let secret = self.store.secret();
        let name = &queue.spec.name;
        let tokens = request_ids
            .into_iter()
            .map(|id| secret.token_of_request(name, &context.owner, &worker_id, id));
        let tokens: Vec<Uuid> = tokens.collect();
        // A claim of these that still waits could otherwise get leases after they were released.
        queue.claims.withdraw(tokens.clone()).await;
        let counts = queue.claim_releases.submit(context, tokens).await?;
        let released = counts.iter().flatten().sum();
        match counts.into_iter().find_map(Result::err) {
            None => Ok(released),
            Some(error) if released == 0 => Err(error.not_applied().into()),
            Some(error) => Err(error.into()),
        }
    }

    /// Adds items. Returns their keys in request order.
    ///
    /// If an earlier call with the same `request_id` has added the items, it returns their keys and adds nothing.
    ///
    /// # Errors
    /// As [`Self::heartbeat`]. An item that the store rejects is an invalid field, or [`Error::AlreadyExists`]. A request id
    /// that an earlier call has used for other items is an invalid field.
    pub async fn enqueue(
        &self,
        context: &CallContext,
        queue: &str,
        items: Vec<NewItem>,
        request_id: Option<Uuid>,
    ) -> Result<Enqueued, Error> {
        let queue = self.queue(queue)?;
        self.metrics.add_call(queue.index, Operation::Enqueue);
        let _place = self.budgets.working_call(context)?;
        self.limits.check_length("items", items.len())?;
        for (index, item) in items.iter().enumerate() {
            check_delay(|| format!("items[{index}].delay"), item.delay)?;
        }
        let added = |keys| Enqueued {
            keys,
            already_added: false,
        };
        let failed = |error| match error {
            CallFailure::Store(StoreError::Rejected(Rejection {
                item: Some(item),
                column,
                problem,
                ..
            })) => Error::rejected(&format!("items[{item}]"), column.as_deref(), problem),
            CallFailure::Store(StoreError::Paused(reason)) => Error::QueuePaused {
                queue: queue.spec.name.clone(),
                reason,
            },
            other => other.into(),
        };
        let enqueued = match request_id {
            Some(request_id) if !items.is_empty() => {
                let secret = self.store.secret();
                let name = &queue.spec.name;
                let request_id = secret.enqueue_request(name, &context.owner, request_id);
                let request = EnqueueOnce { request_id, items };
                let requests = vec![Arc::new(request)];
                let outcomes = queue.enqueues_once.submit(context, requests).await;
                match outcomes.map_err(failed)?.into_iter().next() {
                    Some(Ok(EnqueuedOnce::Added(keys))) => Ok(added(keys)),
                    Some(Ok(EnqueuedOnce::Repeated(keys))) => Ok(Enqueued {
                        keys,
                        already_added: true,
                    }),
                    Some(Ok(EnqueuedOnce::OtherItems)) => {
                        let problem = "an earlier call with this id had other items; use a new id for each list";
                        return Err(Error::invalid("request_id", problem));
                    }
                    Some(Err(error)) => Err(CallFailure::Store(error)),
                    None => {
                        let problem = "a request has no result".to_owned();
                        Err(CallFailure::Store(StoreError::Bug(problem)))
                    }
                }
            }
            _ => queue.enqueues.submit(context, items).await.map(added),
        };
        enqueued.map_err(failed)
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

/// Checks a delay of an entry.
fn checked_delay(
    field: &str,
    delay: Result<Option<Duration>, Refusal>,
) -> Result<Option<Duration>, Refusal> {
    let delay = delay?;
    if let Some(delay) = delay {
        check_delay(|| field.to_owned(), delay).map_err(Error::into_refusal)?;
    }
    Ok(delay)
}

/// Returns the settlement of a lease, or the result of a settlement that does not reach the store: its lease id cannot be
/// decoded, or one of its fields cannot be used.
fn settlement(
    queue: &Queue,
    id: Option<LeaseId>,
    ending: Result<Ending, Refusal>,
    columns: Result<Vec<(String, Value)>, Refusal>,
    checkpoint: Option<Vec<u8>>,
) -> Result<Settlement, Settled> {
    let LeaseId { lease, origin } = id.ok_or(Settled::Lost)?;
    check_checkpoint(&queue.spec, checkpoint.as_deref()).map_err(Settled::Refused)?;
    Ok(Settlement {
        lease,
        ending: ending.map_err(Settled::Refused)?,
        columns: columns.map_err(Settled::Refused)?,
        checkpoint,
        trace: Some(Box::new(LeaseTrace::new(origin))),
    })
}
