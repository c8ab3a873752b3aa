//! The handlers of the API, one per rpc. Each converts its request, calls the broker, and converts the result.

use std::sync::Arc;

use lease_broker_model::lease_id::LeaseOwner;
use lease_broker_model::trace_context::TraceContext;
use lease_broker_proto as proto;
use lease_broker_proto::admin_service_server::AdminService;
use lease_broker_proto::lease_service_server::LeaseService;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::admin::{AdminApi, AdminCaller, audited, cancelled_keys};
use super::call_metrics::RefusedClaim;
use super::caller::{Checks, waiting_place};
use super::deadline::Deadline;
use super::messages::{
    cancel_from_proto, cancel_results, claim_from_proto, completions_from_proto,
    duration_from_proto, failures_from_proto, heartbeat_results, held_back_to_proto,
    lease_to_proto, new_items_from_proto, next_claim_from_proto, release_claims_from_proto,
    releases_from_proto, renewals_from_proto, request_id_from_proto, settle_results,
    too_large_to_proto,
};
use super::protobuf_time::duration_to_proto;
use super::response_body::Unsent;
use super::rpc_spans::NoLeases;
use super::status;
use crate::broker::{Broker, ClaimRequest, Error, HeldBack, SettledAndClaimed, UndeliveredLeases};
use crate::security::{Rpc, rpcs};

/// The API as tonic calls it.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) broker: Arc<Broker>,
    /// The checks of callers.
    pub(super) checks: Checks,
    /// The approximate maximum size of a response, in bytes.
    pub(super) max_message_bytes: usize,
}

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl LeaseService for Service {
    async fn claim_batch(
        &self,
        request: Request<proto::ClaimBatchRequest>,
    ) -> RpcResult<proto::ClaimBatchResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::ClaimBatch, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let identity = self.checks.caller(&request)?;
        let identity = identity.map(|caller| caller.identity.clone());
        let request = request.into_inner();
        let call = async {
            let room = self.max_message_bytes;
            let mut claim = claim_from_proto(request, room)?;
            let (_place, pause) = waiting_place(identity.as_deref(), &mut claim.wait_timeout);
            let max_bytes = claim.max_bytes;
            let claimed = self
                .broker
                .claim(&context, claim, deadline.time_for_claim());
            let leases = claimed.await?;
            let (mut claimed, unsent) = deliver(leases, context.owner.clone(), max_bytes);
            let is_empty = claimed.leases.is_empty();
            if is_empty && claimed.retry_after.is_none() {
                claimed.retry_after = pause.map(duration_to_proto);
            }
            let mut response = Response::new(claimed);
            if is_empty {
                response.extensions_mut().insert(NoLeases);
            }
            Ok(unsent.in_response(response))
        };
        deadline.run(&context, call).await
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
                .heartbeat(&context, &request.queue, renewals, duration);
            Ok(Response::new(proto::HeartbeatResponse {
                results: heartbeat_results(heartbeat.await?),
            }))
        };
        deadline.run(&context, call).await
    }

    async fn complete(
        &self,
        request: Request<proto::CompleteRequest>,
    ) -> RpcResult<proto::CompleteResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::Complete, &request.get_ref().queue)?;
        let denied = self.checks.denied_follow_ups(&request)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let queue = request.queue;
            let settlements = request.completions.len();
            let (next, max_bytes) = self.next_claim(&queue, request.next, settlements)?;
            let completions = completions_from_proto(request.completions, &denied);
            let settled = self.broker.complete(&context, &queue, completions, next);
            let answer = Self::answer(settled.await?, context.owner.clone(), max_bytes);
            let refused = answer.next_error.clone();
            let response = Response::new(proto::CompleteResponse {
                results: answer.results,
                next: answer.next,
                next_error: answer.next_error,
            });
            Ok(counted(answer.unsent.in_response(response), refused))
        };
        deadline.run(&context, call).await
    }

    async fn fail(&self, request: Request<proto::FailRequest>) -> RpcResult<proto::FailResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::Fail, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let queue = request.queue;
            let settlements = request.failures.len();
            let (next, max_bytes) = self.next_claim(&queue, request.next, settlements)?;
            let failures = failures_from_proto(request.failures);
            let settled = self.broker.fail(&context, &queue, failures, next);
            let answer = Self::answer(settled.await?, context.owner.clone(), max_bytes);
            let refused = answer.next_error.clone();
            let response = Response::new(proto::FailResponse {
                results: answer.results,
                next: answer.next,
                next_error: answer.next_error,
            });
            Ok(counted(answer.unsent.in_response(response), refused))
        };
        deadline.run(&context, call).await
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
            let releases = releases_from_proto(request.releases);
            let settled = self.broker.release(&context, &request.queue, releases);
            Ok(Response::new(proto::ReleaseResponse {
                results: settle_results(settled.await?),
            }))
        };
        deadline.run(&context, call).await
    }

    async fn release_claims(
        &self,
        request: Request<proto::ReleaseClaimsRequest>,
    ) -> RpcResult<proto::ReleaseClaimsResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::ReleaseClaims, &request.get_ref().queue)?;
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let request = release_claims_from_proto(request)?;
            let released = self.broker.release_claims(&context, request).await?;
            Ok(Response::new(proto::ReleaseClaimsResponse {
                released: i32::try_from(released).unwrap_or(i32::MAX),
            }))
        };
        deadline.run(&context, call).await
    }

    async fn wake(&self, request: Request<proto::WakeRequest>) -> RpcResult<proto::WakeResponse> {
        self.checks
            .permit(&request, Rpc::Wake, &request.get_ref().queue)?;
        self.broker.wake(&request.get_ref().queue)?;
        Ok(Response::new(proto::WakeResponse {}))
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
        let can_be_repeated = !request.request_id.is_empty();
        let call = async {
            let items = new_items_from_proto(request.items, trace_parent)?;
            let request_id = request_id_from_proto("request_id", &request.request_id)?;
            let enqueued = self
                .broker
                .enqueue(&context, &request.queue, items, request_id)
                .await?;
            let already_added = enqueued.already_added;
            let keys = enqueued.keys.iter().map(ToString::to_string);
            let result = |key| proto::EnqueueResult { key, already_added };
            Ok(Response::new(proto::EnqueueResponse {
                results: keys.map(result).collect(),
            }))
        };
        let outcome = deadline.run(&context, call).await;
        outcome.map_err(|error| status::unless_repeatable(error, can_be_repeated))
    }
}

/// Writes the handlers of `AdminService`. Each runs the method of [`AdminApi`] that has its name, except the first one.
macro_rules! admin_service {
    (Leases { $($leases:tt)* } Admin {
        #[$cancel:meta] CancelLeases cancel_leases(CancelLeasesRequest) -> CancelLeasesResponse $needed:tt;
        $($(#[$doc:meta])* $rpc:ident $method:ident($request:ident) -> $response:ident $roles:tt;)*
    }) => {
        #[tonic::async_trait]
        impl AdminService for Service {
            async fn cancel_leases(
                &self,
                request: Request<proto::CancelLeasesRequest>,
            ) -> RpcResult<proto::CancelLeasesResponse> {
                self.cancel(request).await
            }

            $(async fn $method(
                &self,
                request: Request<proto::$request>,
            ) -> RpcResult<proto::$response> {
                self.operate(request, async |admin, caller, request| {
                    admin.$method(caller, request).await
                })
                .await
            })*
        }
    };
}

rpcs!(admin_service);

/// The largest encoded result of a settlement that is not refused, in bytes.
const RESULT_BYTES: usize = 16;

/// The parts of the response to a settlement with a claim beside it.
struct Answer {
    results: Vec<proto::SettleResult>,
    next: Option<proto::ClaimBatchResponse>,
    next_error: Option<proto::CallError>,
    unsent: Unsent,
}

impl Service {
    /// Serves a call that cancels leases. It names one queue, so it is checked in the way of the calls of workers.
    async fn cancel(
        &self,
        request: Request<proto::CancelLeasesRequest>,
    ) -> RpcResult<proto::CancelLeasesResponse> {
        let context = self
            .checks
            .permit(&request, Rpc::CancelLeases, &request.get_ref().queue)?;
        let caller = AdminCaller::new(self.checks.caller(&request)?);
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let (queue, reason) = (request.queue.clone(), request.reason.clone());
        let detail = cancelled_keys(&request);
        let mut cancellations = request.cancellations.iter();
        let can_be_repeated = cancellations.all(|cancellation| cancellation.fencing_token != 0);
        let call = async {
            let cancellation = cancel_from_proto(request)?;
            let cancelled = self.broker.cancel_leases(&context, cancellation);
            let rpc = Rpc::CancelLeases;
            let cancelled = audited(&caller, rpc, &queue, &detail, &reason, cancelled).await?;
            Ok(Response::new(proto::CancelLeasesResponse {
                results: cancel_results(cancelled),
            }))
        };
        let outcome = deadline.run(&context, call).await;
        outcome.map_err(|error| status::unless_repeatable(error, can_be_repeated))
    }

    /// Serves a call of an operator, which takes a place as other calls do.
    async fn operate<Req, Res>(
        &self,
        request: Request<Req>,
        serve: impl AsyncFnOnce(&AdminApi, &AdminCaller, Req) -> Result<Res, Status>,
    ) -> RpcResult<Res> {
        let caller = AdminCaller::new(self.checks.caller(&request)?);
        let context = Checks::context(&request);
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let _place = self.broker.operator_call(&context)?;
            let admin = AdminApi::new(self.broker.operator().clone());
            Ok(Response::new(serve(&admin, &caller, request).await?))
        };
        deadline.run(&context, call).await
    }

    /// Converts the claim in a call with this number of settlements. Also returns the maximum size of the response.
    fn next_claim(
        &self,
        queue: &str,
        next: Option<proto::NextClaim>,
        settlements: usize,
    ) -> Result<(Option<ClaimRequest>, usize), Error> {
        let room = self.max_message_bytes;
        let next = next.map(|next| next_claim_from_proto(queue, next, room));
        let mut next = next.transpose()?;
        let max_bytes = next.as_ref().map_or(room, |next| next.max_bytes);
        if let Some(next) = &mut next {
            next.max_bytes = max_bytes.saturating_sub(settlements * RESULT_BYTES);
        }
        Ok((next, max_bytes))
    }

    /// Converts the results of settlements and of the claim beside them. The response may have `max_bytes`.
    fn answer(
        (results, claimed): SettledAndClaimed,
        owner: LeaseOwner,
        max_bytes: usize,
    ) -> Answer {
        let mut answer = Answer {
            results: settle_results(results),
            next: None,
            next_error: None,
            unsent: Unsent::default(),
        };
        match claimed {
            None => {}
            Some(Err(error)) => answer.next_error = Some(status::call_error(error)),
            Some(Ok(leases)) => {
                // Refusals are larger than other results.
                let size = |result: &proto::SettleResult| {
                    let len = result.encoded_len();
                    1 + prost::length_delimiter_len(len) + len
                };
                let results = answer.results.iter().map(size).sum();
                let (next, unsent) = deliver(leases, owner, max_bytes.saturating_sub(results));
                answer.next = Some(next);
                answer.unsent = unsent;
            }
        }
        answer
    }
}

/// Returns a response from which the metrics learn that the claim in its call was refused. `None`: it was not.
fn counted<T>(mut response: Response<T>, refused: Option<proto::CallError>) -> Response<T> {
    if let Some(refused) = refused {
        response.extensions_mut().insert(RefusedClaim(refused));
    }
    response
}

/// Converts the leases of `owner` that fit into `max_bytes`, and what they need until they have been sent. The other leases are
/// released.
fn deliver(
    mut leases: UndeliveredLeases,
    owner: LeaseOwner,
    max_bytes: usize,
) -> (proto::ClaimBatchResponse, Unsent) {
    let column_names = leases.columns();
    let counted = leases.take_counted_bytes();
    let too_large = too_large_to_proto(leases.take_too_large());
    let (held_back, retry_after) = (leases.held_back(), leases.retry_after());
    let (leases, delivery) = leases.deliver(owner, max_bytes);
    let mut converted = Vec::with_capacity(leases.size_hint().1.unwrap_or_default());
    converted.extend(leases.map(|lease| lease_to_proto(&column_names, lease)));
    let held_back = match &*converted {
        [] => held_back_to_proto(held_back.unwrap_or(HeldBack::NothingReady)),
        _ => proto::HeldBack::Unspecified,
    };
    let response = proto::ClaimBatchResponse {
        leases: converted,
        too_large,
        held_back: held_back.into(),
        retry_after: retry_after.map(duration_to_proto),
    };
    (response, Unsent::new(counted, delivery))
}

/// Returns the W3C trace context in the call's `traceparent` header, if it is valid.
fn trace_parent(metadata: &MetadataMap) -> Option<TraceContext> {
    TraceContext::parse(metadata.get("traceparent")?.to_str().ok()?)
}
