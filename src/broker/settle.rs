//! Settlement: ends leases on behalf of the complete, fail and release calls.
//!
//! A lease id that cannot be decoded is held by no worker. Its result is that of a lost lease.

use super::error::Error;
use super::group_commit::GroupCommit;
use super::limits::check_delay;
use super::operation_metrics::Operation;
use super::{Broker, Queue};
use crate::lease_id::LeaseRef;
use crate::store::{Ending, FollowUp, NewItem, Settled, Settlement, StoreError};

impl Broker {
    /// Ends leases. A settlement's lease is `None` if its lease id cannot be decoded.
    ///
    /// Returns one result per settlement, in request order.
    pub(super) async fn settle(
        &self,
        queue: &Queue,
        settlements: Vec<(Option<LeaseRef>, Ending)>,
    ) -> Result<Vec<Settled>, Error> {
        self.metrics.add_call(queue.index, Operation::Settle);
        let settlements = settlements.into_iter().map(|(lease, ending)| {
            let lease = match &ending {
                // The store sees every completion, because an invalid follow-up is refused whether the lease is held or
                // not.
                Ending::Complete { .. } => lease.unwrap_or_else(LeaseRef::invalid),
                Ending::Fail { .. } | Ending::Release { .. } => lease.ok_or(Settled::Lost)?,
            };
            Ok(Settlement { lease, ending })
        });
        let results = submit_valid(settlements, &queue.settlements).await;
        results.map_err(|error| match error {
            StoreError::Rejected(rejection) => match rejection.follow_up {
                // Only completions have follow-ups, and the store sees all of them, so the store's index is the
                // request's.
                Some(follow_up) => {
                    let completion = rejection.item;
                    let item = format!("completions[{completion}].follow_ups[{follow_up}].item");
                    Error::rejected(item, rejection)
                }
                None => StoreError::Rejected(rejection).into(),
            },
            other => other.into(),
        })
    }

    /// Checks the follow-ups of the completion at index `completion` and resolves the names of their queues.
    pub(super) fn check_follow_ups(
        &self,
        completion: usize,
        follow_ups: Vec<(String, NewItem)>,
    ) -> Result<Vec<FollowUp>, Error> {
        let path = |index| format!("completions[{completion}].follow_ups[{index}]");
        follow_ups
            .into_iter()
            .enumerate()
            .map(|(index, (queue, item))| {
                check_delay(|| format!("{}.item.delay", path(index)), item.delay)?;
                let queue = *self.index_by_name.get(&queue).ok_or_else(|| {
                    let problem = format!("queue {queue:?} is not configured");
                    Error::invalid(format!("{}.queue", path(index)), problem)
                })?;
                Ok(FollowUp { queue, item })
            })
            .collect()
    }
}

/// Submits the requests that are `Ok` and returns one result per request, in order. The result of an `Err` is its value.
pub(super) async fn submit_valid<I, R>(
    requests: impl IntoIterator<Item = Result<I, R>>,
    group_commit: &GroupCommit<I, R>,
) -> Result<Vec<R>, StoreError>
where
    I: Clone + Send + Sync + 'static,
    R: Send + 'static,
{
    let mut valid_requests = Vec::new();
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
    let mut results = group_commit.submit(valid_requests).await?.into_iter();
    // The store returns one result per valid request.
    let results = known_results
        .into_iter()
        .filter_map(|known| known.or_else(|| results.next()));
    Ok(results.collect())
}
