//! The calls of a load over gRPC, with the client that is generated from the `.proto`.

use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Response, Status};

use super::args::LoadArgs;
use super::key_set::ItemKey;
use super::result::Result;
use crate::cli::CommandError;
use crate::cli::client_args::proto_duration;
use crate::grpc::proto::lease_broker_service_client::LeaseBrokerServiceClient;
use crate::grpc::proto::{self, ItemState, Outcome, SettleResult, value::Kind};

/// The way in which a worker settles leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    /// Fail the items, to be tried again immediately.
    Fail,
    Release,
}

/// The result of settling one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Applied,
    /// Applied, and the item has no attempt left.
    Dead,
    /// The lease was lost, so the call changed nothing.
    Lost,
}

/// Lease ids with the keys of their items.
pub(super) type Leases = Vec<(String, ItemKey)>;

/// A worker or a producer, and its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerId {
    /// Number of the worker. Producers are numbered after the workers.
    pub(super) worker: usize,
    /// Index of the queue in the list of queues under load.
    pub(super) queue: usize,
}

/// One worker's calls, on a connection that it shares with other workers.
pub(super) struct GrpcClient {
    rpc: LeaseBrokerServiceClient<Channel>,
    queue: String,
    worker_id: String,
    lease_duration: Option<prost_types::Duration>,
    item: proto::NewItem,
}

impl GrpcClient {
    /// Creates the client of one worker. New items set `column`.
    pub(super) fn new(
        channel: Channel,
        id: WorkerId,
        queue: &str,
        column: &str,
        load: &LoadArgs,
    ) -> Self {
        let kind = Some(Kind::StringValue("x".repeat(load.payload)));
        Self {
            rpc: LeaseBrokerServiceClient::new(channel).max_decoding_message_size(usize::MAX),
            queue: queue.to_owned(),
            worker_id: format!("bench-{}", id.worker + 1),
            lease_duration: load.lease.map(proto_duration),
            item: proto::NewItem {
                columns: [(column.to_owned(), proto::Value { kind })].into(),
                delay: None,
            },
        }
    }

    fn next_claim(&self, max_items: usize) -> proto::NextClaim {
        proto::NextClaim {
            worker_id: self.worker_id.clone(),
            max_items: i32::try_from(max_items).unwrap_or(i32::MAX),
            lease_duration: self.lease_duration,
            request_id: String::new(),
        }
    }

    /// Claims up to `max_items` items. `wait`: how long the claim may wait for an item.
    pub(super) async fn claim(
        &mut self,
        max_items: usize,
        wait: Option<Duration>,
    ) -> Result<Leases> {
        let request = proto::ClaimBatchRequest {
            queue: self.queue.clone(),
            worker_id: self.worker_id.clone(),
            max_items: i32::try_from(max_items).unwrap_or(i32::MAX),
            lease_duration: self.lease_duration,
            wait_timeout: wait.map(proto_duration),
            request_id: String::new(),
        };
        let response = message("ClaimBatch", self.rpc.claim_batch(request).await)?;
        Ok(leases(response.leases))
    }

    /// Extends leases. Returns how many of them were lost.
    pub(super) async fn heartbeat(&mut self, leases: &Leases) -> Result<u64> {
        let request = proto::HeartbeatRequest {
            queue: self.queue.clone(),
            lease_ids: leases.iter().map(|(id, _)| id.clone()).collect(),
            lease_duration: self.lease_duration,
        };
        let response = message("Heartbeat", self.rpc.heartbeat(request).await)?;
        check_len(response.results.len(), leases.len())?;
        let results = response.results.iter();
        let lost = results.filter(|result| result.outcome() != Outcome::Applied);
        Ok(lost.count() as u64)
    }

    /// Settles leases, and returns the results in the same order. With `Ending::Complete`, `next` also claims up to
    /// this number of items in the same call.
    pub(super) async fn settle(
        &mut self,
        ending: Ending,
        lease_ids: Vec<String>,
        next: Option<usize>,
    ) -> Result<(Vec<Settled>, Leases)> {
        let queue = self.queue.clone();
        let count = lease_ids.len();
        let ids = lease_ids.into_iter();
        let (results, next_leases) = match ending {
            Ending::Complete => {
                let completion = |lease_id| proto::Completion {
                    lease_id,
                    follow_ups: Vec::new(),
                };
                let request = proto::CompleteRequest {
                    queue,
                    completions: ids.map(completion).collect(),
                    next: next.map(|max_items| self.next_claim(max_items)),
                };
                let response = message("Complete", self.rpc.complete(request).await)?;
                (response.results, response.next_leases)
            }
            Ending::Fail => {
                let failure = |lease_id| proto::Failure {
                    lease_id,
                    retry_delay: Some(proto_duration(Duration::ZERO)),
                    ..proto::Failure::default()
                };
                let failures = ids.map(failure).collect();
                let request = proto::FailRequest { queue, failures };
                let response = message("Fail", self.rpc.fail(request).await)?;
                (response.results, Vec::new())
            }
            Ending::Release => {
                let request = proto::ReleaseRequest {
                    queue,
                    lease_ids: ids.collect(),
                    delay: None,
                };
                let response = message("Release", self.rpc.release(request).await)?;
                (response.results, Vec::new())
            }
        };
        check_len(results.len(), count)?;
        let settled = |result: &SettleResult| match (result.outcome(), result.state()) {
            (Outcome::Applied, ItemState::Dead) => Settled::Dead,
            (Outcome::Applied, _) => Settled::Applied,
            _ => Settled::Lost,
        };
        Ok((results.iter().map(settled).collect(), leases(next_leases)))
    }

    /// Enqueues this number of equal items, and returns their keys.
    pub(super) async fn enqueue(&mut self, items: usize) -> Result<Vec<ItemKey>> {
        let request = proto::EnqueueRequest {
            queue: self.queue.clone(),
            items: vec![self.item.clone(); items],
        };
        let response = message("Enqueue", self.rpc.enqueue(request).await)?;
        check_len(response.keys.len(), items)?;
        let keys = response.keys.iter();
        Ok(keys.map(|key| ItemKey::parse(key)).collect())
    }
}

/// Returns the message of a response, or an error that names the rpc.
fn message<M>(rpc: &str, response: std::result::Result<Response<M>, Status>) -> Result<M> {
    response
        .map(Response::into_inner)
        .map_err(|status| CommandError::from(status).with_context(rpc))
}

fn leases(leases: Vec<proto::Lease>) -> Leases {
    let lease = |lease: proto::Lease| {
        let key = ItemKey::parse(&lease.item.unwrap_or_default().key);
        (lease.lease_id, key)
    };
    leases.into_iter().map(lease).collect()
}

fn check_len(results: usize, expected: usize) -> Result<()> {
    if results == expected {
        return Ok(());
    }
    Err(CommandError::failed(format!(
        "bench: FAILED the broker returned {results} results for {expected} items"
    )))
}
