//! The handlers of the API, one per rpc. Each converts its request, calls the broker, and converts the result.

use std::sync::Arc;

use lease_broker_model::lease_id::LeaseOwner;
use lease_broker_model::trace_context::TraceContext;
use lease_broker_proto as proto;
use lease_broker_proto::lease_broker_service_server::LeaseBrokerService;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::caller::{Checks, WaitingLimit};
use super::deadline::Deadline;
use super::messages::{
    cancel_from_proto, cancel_results, claim_from_proto, completions_from_proto,
    duration_from_proto, failures_from_proto, heartbeat_results, lease_to_proto,
    new_items_from_proto, next_claim_from_proto, releases_from_proto, renewals_from_proto,
    request_id_from_proto, request_ids_from_proto, settle_results, too_large_to_proto,
};
use super::rpc_spans::NoLeases;
use super::unsent_body::Unsent;
use crate::broker::{Broker, ReleaseRequest, UndeliveredLeases};
use crate::security::Rpc;

/// The API as tonic calls it.
pub(super) struct Service {
    pub(super) broker: Arc<Broker>,
    /// The checks of callers.
    pub(super) checks: Checks,
    /// The approximate maximum size of a response, in bytes.
    pub(super) max_message_bytes: usize,
}

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl LeaseBrokerService for Service {
    async fn claim_batch(
        &self,
        request: Request<proto::ClaimBatchRequest>,
    ) -> RpcResult<proto::ClaimBatchResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::ClaimBatch, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let waiting = WaitingLimit::of(&request);
        let request = request.into_inner();
        let call = async {
            let room = self.max_message_bytes;
            let time = deadline.time_for_claim();
            let mut claim = claim_from_proto(request, time, room)?;
            let _place = waiting.take_place(&mut claim.wait_timeout);
            let max_bytes = claim.max_bytes;
            let mut leases = self.broker.claim(&context, claim).await?;
            let too_large = too_large_to_proto(leases.take_too_large());
            let (leases, unsent) = deliver(leases, context.owner, max_bytes);
            let mut response = Response::new(proto::ClaimBatchResponse { too_large, leases });
            if response.get_ref().leases.is_empty() {
                response.extensions_mut().insert(NoLeases);
            }
            Ok(unsent.in_response(response))
        };
        deadline.run(call).await
    }

    async fn heartbeat(
        &self,
        request: Request<proto::HeartbeatRequest>,
    ) -> RpcResult<proto::HeartbeatResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::Heartbeat, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let duration = duration_from_proto("lease_duration", request.lease_duration)?;
            let renewals = renewals_from_proto(request.renewals);
            let heartbeat = self
                .broker
                .heartbeat(&context, &request.queue, &renewals, duration);
            let results = heartbeat.await?;
            Ok(Response::new(proto::HeartbeatResponse {
                results: heartbeat_results(renewals, results),
            }))
        };
        deadline.run(call).await
    }

    async fn complete(
        &self,
        request: Request<proto::CompleteRequest>,
    ) -> RpcResult<proto::CompleteResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::Complete, &request.get_ref().queue)?;
        self.checks.permit_follow_ups(&request)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let queue = request.queue;
            let lease_ids = lease_ids(&request.completions, |completion| &completion.lease_id);
            let completions = completions_from_proto(request.completions);
            let Some(next) = request.next else {
                let results = self.broker.complete(&context, &queue, completions).await?;
                return Ok(Response::new(proto::CompleteResponse {
                    results: settle_results(lease_ids, results),
                    ..proto::CompleteResponse::default()
                }));
            };
            let room = self.room_beside(&lease_ids);
            let time = deadline.time_for_claim();
            let next = next_claim_from_proto(&queue, next, time, room)?;
            let max_bytes = next.max_bytes;
            let both = self.broker.complete_and_claim(&context, completions, next);
            let (results, mut leases) = both.await?;
            let results = settle_results(lease_ids, results);
            let max_bytes = max_bytes.min(self.room_after(&results));
            let next_too_large = too_large_to_proto(leases.take_too_large());
            let (next_leases, unsent) = deliver(leases, context.owner, max_bytes);
            let response = Response::new(proto::CompleteResponse {
                results,
                next_too_large,
                next_leases,
            });
            Ok(unsent.in_response(response))
        };
        deadline.run(call).await
    }

    async fn fail(&self, request: Request<proto::FailRequest>) -> RpcResult<proto::FailResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::Fail, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let lease_ids = lease_ids(&request.failures, |failure| &failure.lease_id);
            let failures = failures_from_proto(request.failures)?;
            let queue = request.queue;
            let Some(next) = request.next else {
                let results = self.broker.fail(&context, &queue, failures).await?;
                return Ok(Response::new(proto::FailResponse {
                    results: settle_results(lease_ids, results),
                    ..proto::FailResponse::default()
                }));
            };
            let room = self.room_beside(&lease_ids);
            let time = deadline.time_for_claim();
            let next = next_claim_from_proto(&queue, next, time, room)?;
            let max_bytes = next.max_bytes;
            let both = self.broker.fail_and_claim(&context, failures, next);
            let (results, mut leases) = both.await?;
            let results = settle_results(lease_ids, results);
            let max_bytes = max_bytes.min(self.room_after(&results));
            let next_too_large = too_large_to_proto(leases.take_too_large());
            let (next_leases, unsent) = deliver(leases, context.owner, max_bytes);
            let response = Response::new(proto::FailResponse {
                results,
                next_too_large,
                next_leases,
            });
            Ok(unsent.in_response(response))
        };
        deadline.run(call).await
    }

    async fn release(
        &self,
        request: Request<proto::ReleaseRequest>,
    ) -> RpcResult<proto::ReleaseResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::Release, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let lease_ids = lease_ids(&request.releases, |release| &release.lease_id);
            let release = ReleaseRequest {
                queue: request.queue,
                releases: releases_from_proto(request.releases)?,
                worker_id: request.worker_id,
                request_ids: request_ids_from_proto(&request.request_ids)?,
            };
            let released = self.broker.release(&context, release).await?;
            Ok(Response::new(proto::ReleaseResponse {
                results: settle_results(lease_ids, released.results),
                released_by_request_id: i32::try_from(released.by_request_id).unwrap_or(i32::MAX),
            }))
        };
        deadline.run(call).await
    }

    async fn cancel_leases(
        &self,
        request: Request<proto::CancelLeasesRequest>,
    ) -> RpcResult<proto::CancelLeasesResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::CancelLeases, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let keys = request.keys.clone();
            let cancellation = cancel_from_proto(request)?;
            let cancelled = self.broker.cancel_leases(&context, cancellation);
            Ok(Response::new(proto::CancelLeasesResponse {
                results: cancel_results(keys, cancelled.await?),
            }))
        };
        deadline.run(call).await
    }

    async fn wake(&self, request: Request<proto::WakeRequest>) -> RpcResult<proto::WakeResponse> {
        self.checks
            .permit(&request, Rpc::Wake, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            self.broker.wake(&request.queue)?;
            Ok(Response::new(proto::WakeResponse {}))
        };
        deadline.run(call).await
    }

    async fn enqueue(
        &self,
        request: Request<proto::EnqueueRequest>,
    ) -> RpcResult<proto::EnqueueResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::Enqueue, &request.get_ref().queue)?;
        self.checks.count_items(&request)?;
        let deadline = Deadline::of(request.metadata());
        let trace_parent = trace_parent(request.metadata());
        let request = request.into_inner();
        let call = async {
            let items = new_items_from_proto(request.items, trace_parent.as_deref())?;
            let request_id = request_id_from_proto(&request.request_id)?;
            let keys = self
                .broker
                .enqueue(&context, &request.queue, items, request_id)
                .await?;
            Ok(Response::new(proto::EnqueueResponse {
                keys: keys.iter().map(ToString::to_string).collect(),
            }))
        };
        deadline.run(call).await
    }
}

/// The bytes of a settlement's result besides the lease id, unless it is refused.
const RESULT_BYTES: usize = 24;

impl Service {
    /// Returns the bytes of a response that the results of settlements with these lease ids leave.
    fn room_beside(&self, lease_ids: &[String]) -> usize {
        let results = lease_ids.iter().map(|id| id.len() + RESULT_BYTES).sum();
        self.max_message_bytes.saturating_sub(results)
    }

    /// Returns the bytes of a response that these results leave. Refused settlements have the text of a problem.
    fn room_after(&self, results: &[proto::SettleResult]) -> usize {
        let results = results.iter().map(Message::encoded_len).sum();
        self.max_message_bytes.saturating_sub(results)
    }
}

/// Converts the leases of `owner` that fit into `max_bytes`. The others are released.
fn deliver(
    mut leases: UndeliveredLeases,
    owner: LeaseOwner,
    max_bytes: usize,
) -> (Vec<proto::Lease>, Unsent) {
    let column_names = leases.columns();
    let counted = leases.take_counted_bytes();
    let (leases, delivery) = leases.deliver(owner, max_bytes);
    let mut converted = Vec::with_capacity(leases.size_hint().1.unwrap_or_default());
    converted.extend(leases.map(|lease| lease_to_proto(&column_names, lease)));
    (converted, Unsent::new(counted, delivery))
}

/// Copies the lease ids of a request's entries. The response repeats them.
fn lease_ids<T>(entries: &[T], lease_id: impl Fn(&T) -> &String) -> Vec<String> {
    entries
        .iter()
        .map(|entry| lease_id(entry).clone())
        .collect()
}

/// Returns the W3C trace context in the call's `traceparent` header, if it is valid.
fn trace_parent(metadata: &MetadataMap) -> Option<String> {
    let text = metadata.get("traceparent")?.to_str().ok()?;
    TraceContext::parse(text).map(|_| text.to_owned())
}
