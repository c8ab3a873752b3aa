//! The handlers of the API, one per rpc. Each converts its request, calls the broker, and converts the result.

use std::sync::Arc;

use lease_broker_model::lease_id::LeaseOwner;
use lease_broker_model::trace_context::TraceContext;
use lease_broker_proto as proto;
use lease_broker_proto::admin_service_server::AdminService;
use lease_broker_proto::lease_service_server::LeaseService;
use lease_broker_store::Beginning;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::admin::AdminApi;
use super::call_metrics::RefusedClaim;
use super::caller::Caller;
use super::deadline::Deadline;
use super::messages::{
    claim_from_proto, completions_from_proto, duration_from_proto, failures_from_proto,
    heartbeat_results, held_back_to_proto, lease_to_proto, new_items_from_proto,
    next_claim_from_proto, release_claims_from_proto, releases_from_proto, renewals_from_proto,
    request_id_from_proto, settle_results, too_large_to_proto,
};
use super::protobuf_time::duration_to_proto;
use super::response_body::Unsent;
use super::rpc_spans::NoLeases;
use super::status;
use crate::broker::{
    Broker, CallContext, ClaimRequest, Error, HeldBack, SettledAndClaimed, UndeliveredLeases,
};
use crate::security::{Identity, Rpc, rpcs};

/// The API as tonic calls it.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) broker: Arc<Broker>,
    /// The approximate maximum size of a response, in bytes.
    pub(super) max_message_bytes: usize,
}

type RpcResult<T> = Result<Response<T>, Status>;

/// A call with its caller, apart from its message.
struct Call {
    caller: Caller,
    context: CallContext,
    deadline: Deadline,
}

impl Call {
    /// Splits a request into its call and its message.
    fn of<T>(request: Request<T>) -> Result<(Self, T), Status> {
        let deadline = Deadline::of(request.metadata());
        let (_, mut extensions, message) = request.into_parts();
        let Some(caller) = extensions.remove::<Caller>() else {
            // A call that has come past the intake must not pass here.
            tracing::error!("bug found: a call has no caller");
            return Err(Error::Internal.into());
        };
        let context = CallContext {
            owner: caller.lease_owner(),
            source: extensions.remove(),
            recorded: extensions.remove(),
            beginning: Beginning::default(),
        };
        let call = Self {
            caller,
            context,
            deadline,
        };
        Ok((call, message))
    }
}

/// A request that names one queue.
trait OnQueue {
    const RPC: Rpc;

    fn queue(&self) -> &str;
}

macro_rules! on_queue {
    (Leases {
        $($(#[$doc:meta])* $rpc:ident $method:ident($request:ident) -> $response:ident $roles:tt;)*
    } Admin { $($admin:tt)* }) => {$(
        impl OnQueue for proto::$request {
            const RPC: Rpc = Rpc::$rpc;

            fn queue(&self) -> &str {
                &self.queue
            }
        }
    )*};
}

rpcs!(on_queue);

/// Serves a call of a worker or producer, if the caller has a role for it on the queue of the call.
async fn serve<Req: OnQueue, Res>(
    request: Request<Req>,
    serve: impl AsyncFnOnce(&Call, Req) -> RpcResult<Res>,
) -> RpcResult<Res> {
    let (call, request) = Call::of(request)?;
    call.caller.check(Req::RPC, request.queue())?;
    let answer = serve(&call, request);
    call.deadline.run(&call.context, answer).await
}

#[tonic::async_trait]
impl LeaseService for Service {
    async fn claim_batch(
        &self,
        request: Request<proto::ClaimBatchRequest>,
    ) -> RpcResult<proto::ClaimBatchResponse> {
        serve(request, async |call, request| {
            let mut claim = claim_from_proto(request, self.max_message_bytes)?;
            let (_place, pause) = call.caller.waiting_place(&mut claim.wait_timeout);
            let max_bytes = claim.max_bytes;
            let deadline = call.deadline.time_for_claim();
            let leases = self.broker.claim(&call.context, claim, deadline).await?;
            let (mut claimed, unsent) = deliver(leases, call.context.owner.clone(), max_bytes);
            let is_empty = claimed.leases.is_empty();
            if is_empty && claimed.retry_after.is_none() {
                claimed.retry_after = pause.map(duration_to_proto);
            }
            let mut response = Response::new(claimed);
            if is_empty {
                response.extensions_mut().insert(NoLeases);
            }
            Ok(unsent.in_response(response))
        })
        .await
    }

    async fn heartbeat(
        &self,
        request: Request<proto::HeartbeatRequest>,
    ) -> RpcResult<proto::HeartbeatResponse> {
        serve(request, async |call, request| {
            let duration = duration_from_proto("lease_duration", request.lease_duration)?;
            let renewals = renewals_from_proto(request.renewals);
            let heartbeat =
                self.broker
                    .heartbeat(&call.context, &request.queue, renewals, duration);
            Ok(Response::new(proto::HeartbeatResponse {
                results: heartbeat_results(heartbeat.await?),
            }))
        })
        .await
    }

    async fn complete(
        &self,
        request: Request<proto::CompleteRequest>,
    ) -> RpcResult<proto::CompleteResponse> {
        serve(request, async |call, request| {
            let denied = call.caller.denied_follow_ups(&request.completions)?;
            let (context, queue) = (&call.context, request.queue);
            let settlements = request.completions.len();
            let (next, max_bytes) = self.next_claim(&queue, request.next, settlements)?;
            let completions = completions_from_proto(request.completions, &denied);
            let settled = self.broker.complete(context, &queue, completions, next);
            Ok(answer(settled.await?, context.owner.clone(), max_bytes))
        })
        .await
    }

    async fn fail(&self, request: Request<proto::FailRequest>) -> RpcResult<proto::FailResponse> {
        serve(request, async |call, request| {
            let (context, queue) = (&call.context, request.queue);
            let settlements = request.failures.len();
            let (next, max_bytes) = self.next_claim(&queue, request.next, settlements)?;
            let failures = failures_from_proto(request.failures);
            let settled = self.broker.fail(context, &queue, failures, next);
            let answer = answer(settled.await?, context.owner.clone(), max_bytes);
            Ok(answer.map(|answer| proto::FailResponse {
                results: answer.results,
                next: answer.next,
                next_error: answer.next_error,
            }))
        })
        .await
    }

    async fn release(
        &self,
        request: Request<proto::ReleaseRequest>,
    ) -> RpcResult<proto::ReleaseResponse> {
        serve(request, async |call, request| {
            let releases = releases_from_proto(request.releases);
            let settled = self.broker.release(&call.context, &request.queue, releases);
            Ok(Response::new(proto::ReleaseResponse {
                results: settle_results(settled.await?),
            }))
        })
        .await
    }

    async fn release_claims(
        &self,
        request: Request<proto::ReleaseClaimsRequest>,
    ) -> RpcResult<proto::ReleaseClaimsResponse> {
        serve(request, async |call, request| {
            let request = release_claims_from_proto(request)?;
            let released = self.broker.release_claims(&call.context, request).await?;
            Ok(Response::new(proto::ReleaseClaimsResponse {
                released: i32::try_from(released).unwrap_or(i32::MAX),
            }))
        })
        .await
    }

    async fn wake(&self, request: Request<proto::WakeRequest>) -> RpcResult<proto::WakeResponse> {
        serve(request, async |_, request| {
            self.broker.wake(&request.queue)?;
            Ok(Response::new(proto::WakeResponse {}))
        })
        .await
    }

    async fn enqueue(
        &self,
        request: Request<proto::EnqueueRequest>,
    ) -> RpcResult<proto::EnqueueResponse> {
        let trace_parent = trace_parent(request.metadata());
        let can_be_repeated = !request.get_ref().request_id.is_empty();
        let outcome = serve(request, async |call, request| {
            let count = request.items.len();
            let counted = |identity: &Identity| identity.count_items(count);
            call.caller.count(Rpc::Enqueue, counted)?;
            let items = new_items_from_proto(request.items, trace_parent)?;
            let request_id = request_id_from_proto("request_id", &request.request_id)?;
            let enqueued = self
                .broker
                .enqueue(&call.context, &request.queue, items, request_id)
                .await?;
            let already_added = enqueued.already_added;
            let keys = enqueued.keys.iter().map(ToString::to_string);
            let result = |key| proto::EnqueueResult { key, already_added };
            Ok(Response::new(proto::EnqueueResponse {
                results: keys.map(result).collect(),
            }))
        });
        let outcome = outcome.await;
        outcome.map_err(|error| status::unless_repeatable(error, can_be_repeated))
    }
}

/// Writes the handlers of `AdminService`. Each runs the method of [`AdminApi`] that has its name. The errors of the first one also say
/// whether the call can be sent again.
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
                let mut leases = request.get_ref().cancellations.iter();
                let can_be_repeated = leases.all(|lease| lease.fencing_token != 0);
                let answer = self.operate(request, async |admin, caller, request| {
                    admin.cancel_leases(caller, request).await
                });
                let answer = answer.await;
                answer.map_err(|error| status::unless_repeatable(error, can_be_repeated))
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

impl Service {
    /// Serves a call of an operator, which takes a place as other calls do.
    async fn operate<Req, Res>(
        &self,
        request: Request<Req>,
        serve: impl AsyncFnOnce(&AdminApi, &Caller, Req) -> Result<Res, Status>,
    ) -> RpcResult<Res> {
        let (call, request) = Call::of(request)?;
        let answer = async {
            let _place = self.broker.operator_call(&call.context)?;
            let admin = AdminApi::new(self.broker.operator().clone(), call.context.span());
            Ok(Response::new(serve(&admin, &call.caller, request).await?))
        };
        call.deadline.run(&call.context, answer).await
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
}

/// Returns the response to settlements with a claim beside them, which may have `max_bytes`. That to `Fail` has the same fields.
fn answer(
    (results, claimed): SettledAndClaimed,
    owner: LeaseOwner,
    max_bytes: usize,
) -> Response<proto::CompleteResponse> {
    let mut answer = proto::CompleteResponse {
        results: settle_results(results),
        ..proto::CompleteResponse::default()
    };
    let mut unsent = Unsent::default();
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
            let (next, of_leases) = deliver(leases, owner, max_bytes.saturating_sub(results));
            answer.next = Some(next);
            unsent = of_leases;
        }
    }
    // The metrics learn from it that the claim was refused.
    let refused = answer.next_error.clone().map(RefusedClaim);
    let mut response = unsent.in_response(Response::new(answer));
    if let Some(refused) = refused {
        response.extensions_mut().insert(refused);
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
