//! The calls of a load, with the client that is generated from the `.proto`. Each call records its latency and its
//! results in the state of the run.

use std::sync::Arc;
use std::time::Duration;

use lease_broker::cli::{AuthorizedChannel, CommandError};
use lease_broker_proto as proto;
use lease_broker_proto::column_value::Kind;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::{ItemState, Outcome, SettleResult};
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tonic_types::StatusExt as _;

use crate::item_ledger::{Ending, Settled};
use crate::key_set::ItemKey;
use crate::latency::Rpc;
use crate::result::Result;
use crate::run_state::{OpenCall, RunState};
use crate::unprocessed::is_unprocessed;

/// Lease ids with the keys of their items.
pub(crate) type Leases = Vec<(String, ItemKey)>;

/// The calls of one worker or producer to one queue, on a connection that it shares with others.
pub(crate) struct Client {
    pub(crate) state: Arc<RunState>,
    rpc: LeaseServiceClient<AuthorizedChannel>,
    /// The number of the worker, which chooses the connection.
    worker: usize,
    /// Index of the queue in the list of queues under load.
    queue_index: usize,
    queue: String,
    worker_id: String,
    lease_duration: Option<prost_types::Duration>,
    item: proto::NewItem,
    /// The time limit of a call. `None`: a call may take any time.
    timeout: Option<Duration>,
}

/// Sends a call until it is answered with something else than OVERLOADED, each time after the delay that the broker asks
/// for. A call that the broker has not processed is sent again at once. `$over` runs if a call was refused and the run is over.
macro_rules! send {
    ($client:ident, $rpc:expr, $method:ident, $start:expr, $request:expr, $over:expr) => {{
        let (request, mut start) = ($request, $start);
        loop {
            let request = $client.with_timeout(request.clone());
            let open = OpenCall::begin(&$client.state);
            let response = $client.rpc.$method(request).await;
            drop(open);
            if response.as_ref().err().is_some_and(is_unprocessed) {
                continue;
            }
            let Some(delay) = $client.count_error($rpc, &response) else {
                break $client.record($rpc, start, response);
            };
            tokio::time::sleep(delay).await;
            if $client.state.is_over() {
                $over;
            }
            start = Instant::now();
        }
    }};
}

impl Client {
    /// Creates the client of one worker. Producers are numbered after the workers.
    pub(crate) fn new(state: &Arc<RunState>, worker: usize, queue_index: usize) -> Self {
        let channel = state.channels[worker % state.channels.len()].clone();
        let kind = Some(Kind::StringValue("x".repeat(state.load.payload_bytes)));
        Self {
            rpc: LeaseServiceClient::new(channel).max_decoding_message_size(usize::MAX),
            worker,
            queue_index,
            queue: state.queues[queue_index].clone(),
            worker_id: format!("bench-{}", worker + 1),
            lease_duration: state.load.lease.map(proto_duration),
            item: proto::NewItem {
                columns: [(state.column.clone(), proto::ColumnValue { kind })].into(),
                ..proto::NewItem::default()
            },
            timeout: None,
            state: state.clone(),
        }
    }

    /// Gives each call this time limit.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the number of the worker. A client with the same number uses the same connection.
    pub(crate) fn connection(&self) -> usize {
        self.worker
    }

    fn with_timeout<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        request
    }

    /// Counts an error. Returns the delay after which the call is sent again if the broker is overloaded.
    fn count_error<M>(
        &self,
        rpc: Rpc,
        response: &std::result::Result<Response<M>, Status>,
    ) -> Option<Duration> {
        let status = response.as_ref().err()?;
        let info = status.get_details_error_info();
        let reason = info.map_or_else(|| format!("{:?}", status.code()), |info| info.reason);
        let is_overloaded = reason == "OVERLOADED";
        self.state.errors.add(rpc, reason);
        let retry = status.get_details_retry_info().filter(|_| is_overloaded)?;
        retry.retry_delay
    }

    /// Claims up to `max_items` items. The latency counts from `start`. `wait`: how long the claim may wait for an item.
    pub(crate) async fn claim(
        &mut self,
        max_items: usize,
        wait: Option<Duration>,
        start: Instant,
    ) -> Result<Leases> {
        let request = proto::ClaimBatchRequest {
            queue: self.queue.clone(),
            worker_id: self.worker_id.clone(),
            max_items: i32::try_from(max_items).unwrap_or(i32::MAX),
            lease_duration: self.lease_duration,
            wait_timeout: wait.map(proto_duration),
            ..proto::ClaimBatchRequest::default()
        };
        let response = send!(
            self,
            Rpc::ClaimBatch,
            claim_batch,
            start,
            request,
            return Ok(Vec::new())
        );
        let leases = leases(response?.leases);
        if leases.is_empty() {
            self.state.ledger.count(|counts| counts.empty_claims += 1);
        }
        Ok(leases)
    }

    /// Extends leases.
    pub(crate) async fn heartbeat(&mut self, leases: &Leases) -> Result<()> {
        let renewals = leases.iter().map(|(id, _)| proto::Renewal {
            lease_id: id.clone(),
            checkpoint: None,
        });
        let request = proto::HeartbeatRequest {
            queue: self.queue.clone(),
            renewals: renewals.collect(),
            lease_duration: self.lease_duration,
        };
        let start = Instant::now();
        let response = send!(self, Rpc::Heartbeat, heartbeat, start, request, {});
        let results = response?.results;
        check_len(results.len(), leases.len())?;
        let is_lost = |result: &&proto::HeartbeatResult| result.outcome() != Outcome::Applied;
        let lost = results.iter().filter(is_lost).count() as u64;
        self.state.ledger.count(|counts| {
            counts.leases_extended += leases.len() as u64 - lost;
            counts.leases_lost += lost;
        });
        Ok(())
    }

    /// Settles leases, if there are any. With `Ending::Complete`, `next` also claims up to this number of items in the
    /// same call; their leases are returned.
    pub(crate) async fn settle(
        &mut self,
        ending: Ending,
        leases: Leases,
        next: Option<usize>,
    ) -> Result<Leases> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let queue = self.queue.clone();
        let (lease_ids, keys): (Vec<_>, Vec<_>) = leases.into_iter().unzip();
        let start = Instant::now();
        let (results, next) = match ending {
            Ending::Complete => {
                let completion = |lease_id| proto::Completion {
                    columns: [].into(),
                    lease_id,
                    follow_ups: Vec::new(),
                };
                let request = proto::CompleteRequest {
                    queue,
                    completions: lease_ids.into_iter().map(completion).collect(),
                    next: next.map(|max_items| self.next_claim(max_items)),
                };
                let response = send!(self, Rpc::Complete, complete, start, request, {})?;
                // The worker then claims by a call of its own, which waits or ends the run.
                if let Some(error) = response.next_error {
                    self.state.errors.add(Rpc::ClaimBatch, error.reason);
                }
                (response.results, response.next)
            }
            Ending::Fail => {
                let failure = |lease_id| proto::Failure {
                    lease_id,
                    retry_delay: Some(proto_duration(Duration::ZERO)),
                    ..proto::Failure::default()
                };
                let failures = lease_ids.into_iter().map(failure).collect();
                let request = proto::FailRequest {
                    queue,
                    failures,
                    next: None,
                };
                let response = send!(self, Rpc::Fail, fail, start, request, {})?;
                (response.results, None)
            }
            Ending::Release => {
                let release = |lease_id| proto::Release {
                    lease_id,
                    delay: None,
                    checkpoint: None,
                };
                let releases = lease_ids.into_iter().map(release).collect();
                let request = proto::ReleaseRequest { queue, releases };
                let response = send!(self, Rpc::Release, release, start, request, {})?;
                (response.results, None)
            }
        };
        check_len(results.len(), keys.len())?;
        let settled = |result: &SettleResult| match (result.outcome(), result.state()) {
            (Outcome::Applied, ItemState::Dead) => Settled::Dead,
            (Outcome::Applied, _) => Settled::Applied,
            _ => Settled::Lost,
        };
        let results = keys.into_iter().zip(results.iter().map(settled));
        let ledger = &self.state.ledger;
        ledger.record_settled(self.queue_index, ending, results);
        Ok(self::leases(next.unwrap_or_default().leases))
    }

    fn next_claim(&self, max_items: usize) -> proto::NextClaim {
        proto::NextClaim {
            worker_id: self.worker_id.clone(),
            max_items: i32::try_from(max_items).unwrap_or(i32::MAX),
            lease_duration: self.lease_duration,
            ..proto::NextClaim::default()
        }
    }

    /// Enqueues this number of equal items.
    pub(crate) async fn enqueue(&mut self, items: u64) -> Result<()> {
        let items = usize::try_from(items).unwrap_or(0);
        let request = proto::EnqueueRequest {
            queue: self.queue.clone(),
            items: vec![self.item.clone(); items],
            request_id: String::new(),
        };
        let start = Instant::now();
        let response = send!(self, Rpc::Enqueue, enqueue, start, request, return Ok(()));
        let results = response?.results;
        check_len(results.len(), items)?;
        let keys = results.iter().map(|result| ItemKey::parse(&result.key));
        self.state.ledger.record_enqueued(self.queue_index, keys);
        Ok(())
    }

    /// Returns how many items of the queue this run has enqueued and not finished.
    pub(crate) fn backlog(&self) -> u64 {
        self.state.ledger.backlog(self.queue_index)
    }

    /// Records the latency of an accepted call, and returns the message of its response, or an error that names the rpc.
    fn record<M>(
        &self,
        rpc: Rpc,
        start: Instant,
        response: std::result::Result<Response<M>, Status>,
    ) -> Result<M> {
        let response = response
            .map_err(|status| CommandError::from(status).with_context(format!("{rpc:?}")))?;
        self.state.latencies.record(rpc, start.elapsed());
        Ok(response.into_inner())
    }
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
        "FAILED the broker returned {results} results for {expected} items"
    )))
}

/// Converts a duration. One that the API cannot express is zero.
fn proto_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or_default()
}
