//! Baseline `broker`: the same load on a broker in this process, without the cost of gRPC.

use std::sync::Arc;
use std::time::Duration;

use super::args::{LoadArgs, TargetArgs};
use super::key_set::ItemKey;
use super::process_stats::Watch;
use super::result::Result;
use super::run;
use super::samples::Measured;
use super::target_api::{
    Ending, Leases, Settled, TargetApi, WorkerId, from_states, item_key, new_item,
};
use super::temporary_queues::TemporaryQueues;
use crate::broker::{self, Broker, ClaimRequest, LeaseCompletion, UndeliveredLeases};
use crate::cli::CommandError;
use crate::store::NewItem;

/// Runs the load on a broker with a new store.
pub(super) async fn measure(load: &LoadArgs, args: &TargetArgs) -> Result<Measured> {
    let queues = TemporaryQueues::create(args)?;
    let config = queues.read_config()?;
    let settings = broker::BrokerConfig::from(&config);
    let store = queues.open_store(&config)?;
    let broker = Arc::new(Broker::start(store, &config.queues, settings));
    let open = |id: WorkerId| InProcessBroker {
        broker: broker.clone(),
        claim: ClaimRequest {
            queue: config.queues[id.queue].name.clone(),
            worker_id: id.name(),
            max_items: 0,
            lease_duration: load.lease,
            wait_timeout: None,
            time_to_deadline: None,
            request_id: None,
        },
        item: new_item(&args.column, load.payload),
    };
    let measured = run::run("broker", load, args.queues, &Watch::default(), open).await;
    broker.stop().await;
    measured
}

/// One worker's calls of the broker.
struct InProcessBroker {
    broker: Arc<Broker>,
    /// The worker's claim without its size and its timeout.
    claim: ClaimRequest,
    item: NewItem,
}

impl TargetApi for InProcessBroker {
    type LeaseId = String;

    async fn claim(&mut self, max_items: usize, wait: Option<Duration>) -> Result<Leases<String>> {
        let claim = ClaimRequest {
            max_items,
            wait_timeout: wait,
            ..self.claim.clone()
        };
        let undelivered = self.broker.claim(claim).await.map_err(failed)?;
        Ok(deliver(undelivered))
    }

    async fn heartbeat(&mut self, leases: &Leases<String>) -> Result<u64> {
        let ids: Vec<String> = leases.iter().map(|(id, _)| id.clone()).collect();
        let claim = &self.claim;
        let extended = self
            .broker
            .heartbeat(&claim.queue, &ids, claim.lease_duration);
        let extended = extended.await;
        let extended = extended.map_err(failed)?;
        Ok(extended.iter().filter(|lease| lease.is_none()).count() as u64)
    }

    async fn settle(
        &mut self,
        ending: Ending,
        ids: Vec<String>,
        next: Option<usize>,
    ) -> Result<(Vec<Settled>, Leases<String>)> {
        let queue = &self.claim.queue;
        let completion = |lease_id| LeaseCompletion {
            lease_id,
            follow_ups: Vec::new(),
        };
        let failure = |lease_id| broker::LeaseFailure {
            lease_id,
            error: String::new(),
            retry_delay: Some(Duration::ZERO),
            dead_letter: false,
        };
        let states = match (ending, next) {
            (Ending::Complete, Some(max_items)) => {
                let claim = ClaimRequest {
                    max_items,
                    ..self.claim.clone()
                };
                let completions = ids.into_iter().map(completion).collect();
                let call = self.broker.complete_and_claim(completions, claim);
                let (states, undelivered) = call.await.map_err(failed)?;
                return Ok((from_states(states), deliver(undelivered)));
            }
            (Ending::Complete, None) => {
                let completions = ids.into_iter().map(completion).collect();
                self.broker.complete(queue, completions).await
            }
            (Ending::Fail, _) => {
                let failures = ids.into_iter().map(failure).collect();
                self.broker.fail(queue, failures).await
            }
            (Ending::Release, _) => self.broker.release(queue, &ids, None).await,
        };
        Ok((from_states(states.map_err(failed)?), Vec::new()))
    }

    async fn enqueue(&mut self, items: usize) -> Result<Vec<ItemKey>> {
        let items = vec![self.item.clone(); items];
        let keys = self.broker.enqueue(&self.claim.queue, items).await;
        Ok(keys.map_err(failed)?.iter().map(item_key).collect())
    }
}

fn deliver(undelivered: UndeliveredLeases) -> Leases<String> {
    let leases = undelivered.deliver(usize::MAX);
    leases
        .map(|lease| (lease.id, item_key(&lease.item.lease.key)))
        .collect()
}

#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
fn failed(error: broker::Error) -> CommandError {
    CommandError::failed(format!("bench: FAILED {error}"))
}
