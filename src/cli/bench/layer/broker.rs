//! The load on the broker in this process: what gRPC costs is missing.

use std::sync::Arc;
use std::time::Duration;

use super::store::{item_key, new_item};
use super::{Ending, Layer, Place, Terms};
use crate::broker::{self, Broker, ClaimRequest, LeaseCompletion, UndeliveredLeases};
use crate::cli::CommandError;
use crate::cli::bench::keys::ItemKey;
use crate::cli::bench::ledger::Settled;
use crate::item_state::State;
use crate::store::NewItem;

/// One worker's calls.
pub(in crate::cli::bench) struct OnBroker {
    broker: Arc<Broker>,
    queue: String,
    claim: ClaimRequest,
    item: NewItem,
}

impl OnBroker {
    pub(in crate::cli::bench) fn new(
        broker: Arc<Broker>,
        place: Place,
        queue: &str,
        terms: &Terms,
    ) -> Self {
        Self {
            broker,
            queue: queue.to_owned(),
            claim: ClaimRequest {
                queue: queue.to_owned(),
                worker_id: place.worker_id(),
                max_items: 0,
                lease_duration: terms.lease,
                wait_timeout: terms.wait,
                time_to_deadline: None,
                request_id: None,
            },
            item: new_item(terms),
        }
    }
}

impl Layer for OnBroker {
    /// A lease's id, and the key of its item.
    type Lease = (String, ItemKey);

    fn key(lease: &Self::Lease) -> ItemKey {
        lease.1
    }

    async fn claim(&mut self, max_items: usize) -> Result<Vec<Self::Lease>, CommandError> {
        let claim = ClaimRequest {
            max_items,
            ..self.claim.clone()
        };
        let grant = self.broker.claim(claim).await.map_err(refused)?;
        Ok(deliver(grant))
    }

    async fn heartbeat(&mut self, leases: &[Self::Lease]) -> Result<u64, CommandError> {
        let ids = ids(leases);
        let held = self
            .broker
            .heartbeat(&self.queue, &ids, self.claim.lease_duration);
        let held = held.await.map_err(refused)?;
        Ok(held.iter().filter(|held| held.is_none()).count() as u64)
    }

    async fn settle(
        &mut self,
        ending: Ending,
        leases: &[Self::Lease],
    ) -> Result<Vec<Settled>, CommandError> {
        let ids = ids(leases);
        let states = match ending {
            Ending::Complete => self.broker.complete(&self.queue, completions(ids)).await,
            Ending::Fail => {
                let failure = |lease_id| broker::LeaseFailure {
                    lease_id,
                    error: String::new(),
                    retry_delay: Some(Duration::ZERO),
                    dead_letter: false,
                };
                let failures = ids.into_iter().map(failure).collect();
                self.broker.fail(&self.queue, failures).await
            }
            Ending::Release => self.broker.release(&self.queue, &ids, None).await,
        };
        let states = states.map_err(refused)?.into_iter();
        Ok(states.map(|state| settled(ending, state)).collect())
    }

    async fn complete_and_claim(
        &mut self,
        leases: &[Self::Lease],
        max_items: usize,
    ) -> Result<(Vec<Settled>, Vec<Self::Lease>), CommandError> {
        let next = ClaimRequest {
            max_items,
            wait_timeout: None,
            ..self.claim.clone()
        };
        let both = self
            .broker
            .complete_and_claim(completions(ids(leases)), next);
        let (states, grant) = both.await.map_err(refused)?;
        let states = states.into_iter();
        let settled = states.map(|state| settled(Ending::Complete, state));
        Ok((settled.collect(), deliver(grant)))
    }

    async fn enqueue(&mut self, items: usize) -> Result<Vec<ItemKey>, CommandError> {
        let items = vec![self.item.clone(); items];
        let keys = self.broker.enqueue(&self.queue, items).await;
        Ok(keys.map_err(refused)?.iter().map(item_key).collect())
    }
}

/// Returns what became of a lease whose item is now in `state`.
pub(super) fn settled(ending: Ending, state: Option<State>) -> Settled {
    match (ending, state) {
        (_, None) => Settled::Lost,
        (Ending::Complete, _) => Settled::Completed,
        (Ending::Fail, Some(State::Dead)) => Settled::Dead,
        (Ending::Fail, _) => Settled::Failed,
        (Ending::Release, _) => Settled::Released,
    }
}

fn completions(ids: Vec<String>) -> Vec<LeaseCompletion> {
    let completion = |lease_id| LeaseCompletion {
        lease_id,
        follow_ups: Vec::new(),
    };
    ids.into_iter().map(completion).collect()
}

fn deliver(undelivered: UndeliveredLeases) -> Vec<(String, ItemKey)> {
    let leases = undelivered.deliver(usize::MAX);
    leases
        .map(|lease| (lease.id, item_key(&lease.item.lease.key)))
        .collect()
}

fn ids(leases: &[(String, ItemKey)]) -> Vec<String> {
    leases.iter().map(|(id, _)| id.clone()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "maps an error")]
fn refused(error: broker::Error) -> CommandError {
    CommandError::failed(format!("bench: FAILED {error}"))
}
