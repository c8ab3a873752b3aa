//! One handler for each rpc.

use std::sync::Arc;

use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::deadline::Deadline;
use super::messages::{duration, heartbeat_result, lease, new_item, settle_result};
use super::proto::{self, lease_broker_service_server::LeaseBrokerService};
use crate::broker::{Broker, Claim, Completion, Error, Failure, Grant};
use crate::item_state::State;
use crate::lease_id::is_trace_parent;
use crate::store::ClaimedItem;
use crate::value::{Key, Value};

/// What a lease takes on the wire besides its columns: its id, times, trace context and key.
const LEASE_BYTES: usize = 320;

/// The service.
pub(super) struct Service {
    pub(super) broker: Arc<Broker>,
    /// About the largest response, in bytes.
    pub(super) max_message_bytes: usize,
}

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl LeaseBrokerService for Service {
    async fn claim_batch(
        &self,
        request: Request<proto::ClaimBatchRequest>,
    ) -> RpcResult<proto::ClaimBatchResponse> {
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let queue = request.queue.clone();
        let call = async {
            let claim = claim_of(request, deadline)?;
            let names = self.broker.columns(&queue)?;
            let grant = self.broker.claim(claim).await?;
            Ok(Response::new(proto::ClaimBatchResponse {
                leases: self.leases(&queue, &names, grant, 0),
            }))
        };
        deadline.run(call).await
    }

    async fn heartbeat(
        &self,
        request: Request<proto::HeartbeatRequest>,
    ) -> RpcResult<proto::HeartbeatResponse> {
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let lease = duration("lease_duration", request.lease_duration)?;
            let ids = request.lease_ids;
            let held = self.broker.heartbeat(&request.queue, &ids, lease).await?;
            let results = ids.into_iter().zip(held);
            Ok(Response::new(proto::HeartbeatResponse {
                results: results
                    .map(|(id, held)| heartbeat_result(id, held))
                    .collect(),
            }))
        };
        deadline.run(call).await
    }

    async fn complete(
        &self,
        request: Request<proto::CompleteRequest>,
    ) -> RpcResult<proto::CompleteResponse> {
        let deadline = Deadline::of(request.metadata());
        let trace_parent = trace_parent(request.metadata());
        let request = request.into_inner();
        let call = async {
            let ids = ids(&request.completions, |completion| &completion.lease_id);
            let completions = request.completions.into_iter().enumerate();
            let completions = completions
                .map(|(at, completion)| completion_of(at, completion, trace_parent.as_deref()))
                .collect::<Result<_, _>>()?;
            let queue = request.queue;
            let Some(next) = request.next else {
                let states = self.broker.complete(&queue, completions).await?;
                return Ok(Response::new(proto::CompleteResponse {
                    results: results(ids, states),
                    next_leases: Vec::new(),
                }));
            };
            let next = proto::ClaimBatchRequest {
                queue: queue.clone(),
                worker_id: next.worker_id,
                max_items: next.max_items,
                lease_duration: next.lease_duration,
                wait_timeout: None,
                request_id: next.request_id,
            };
            let next = claim_of(next, deadline).map_err(|error| error.within("next"))?;
            let names = self.broker.columns(&queue)?;
            let both = self.broker.complete_and_claim(completions, next);
            let (states, grant) = both.await?;
            let results = results(ids, states);
            let size = results.iter().map(Message::encoded_len).sum();
            Ok(Response::new(proto::CompleteResponse {
                results,
                next_leases: self.leases(&queue, &names, grant, size),
            }))
        };
        deadline.run(call).await
    }

    async fn fail(&self, request: Request<proto::FailRequest>) -> RpcResult<proto::FailResponse> {
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let ids = ids(&request.failures, |failure| &failure.lease_id);
            let failures = request.failures.into_iter().enumerate();
            let failures = failures
                .map(|(at, failure)| {
                    let field = format!("failures[{at}].retry_delay");
                    Ok(Failure {
                        lease_id: failure.lease_id,
                        error: failure.error_message,
                        retry_delay: duration(field, failure.retry_delay)?,
                        dead_letter: failure.dead_letter,
                    })
                })
                .collect::<Result<_, Error>>()?;
            let states = self.broker.fail(&request.queue, failures).await?;
            Ok(Response::new(proto::FailResponse {
                results: results(ids, states),
            }))
        };
        deadline.run(call).await
    }

    async fn release(
        &self,
        request: Request<proto::ReleaseRequest>,
    ) -> RpcResult<proto::ReleaseResponse> {
        let deadline = Deadline::of(request.metadata());
        let request = request.into_inner();
        let call = async {
            let delay = duration("delay", request.delay)?;
            let ids = request.lease_ids;
            let states = self.broker.release(&request.queue, &ids, delay).await?;
            Ok(Response::new(proto::ReleaseResponse {
                results: results(ids, states),
            }))
        };
        deadline.run(call).await
    }

    async fn enqueue(
        &self,
        request: Request<proto::EnqueueRequest>,
    ) -> RpcResult<proto::EnqueueResponse> {
        let deadline = Deadline::of(request.metadata());
        let trace_parent = trace_parent(request.metadata());
        let request = request.into_inner();
        let call = async {
            let items = request.items.into_iter().enumerate();
            let items = items
                .map(|(at, item)| {
                    new_item(&|| format!("items[{at}]"), item, trace_parent.as_deref())
                })
                .collect::<Result<_, _>>()?;
            let keys = self.broker.enqueue(&request.queue, items).await?;
            Ok(Response::new(proto::EnqueueResponse {
                keys: keys.iter().map(ToString::to_string).collect(),
            }))
        };
        deadline.run(call).await
    }
}

impl Service {
    /// Takes over as many leases as fit into a response that has `size` bytes already; at least one.
    fn leases(
        &self,
        queue: &str,
        names: &[String],
        grant: Grant,
        size: usize,
    ) -> Vec<proto::Lease> {
        let fitting = self.fitting(names, grant.items(), size);
        let leases = grant.accept(fitting).into_iter().map(|item| {
            let lease_id = self.broker.lease_id(queue, &item.lease);
            lease(queue, lease_id, names, item)
        });
        leases.collect()
    }

    /// Returns how many of the items, from the first, fit into a response that has `size` bytes already; at least one.
    fn fitting(&self, names: &[String], items: &[ClaimedItem], mut size: usize) -> usize {
        let names: usize = names.iter().map(|name| name.len() + 8).sum();
        let fitting = items.iter().take_while(|item| {
            let values: usize = item.columns.iter().map(Value::wire_size).sum();
            size += LEASE_BYTES + names + values + key_bytes(&item.lease.key);
            size <= self.max_message_bytes
        });
        fitting.count().max(1)
    }
}

/// Returns what a key takes besides its column: once in the lease id, in base64, and once as text. Numbers are small
/// enough to be in [`LEASE_BYTES`].
fn key_bytes(key: &Key) -> usize {
    let is_long =
        |value: &&Value| matches!(value, Value::Text(_) | Value::Bytes(_) | Value::Decimal(_));
    let long: usize = key.0.iter().filter(is_long).map(Value::wire_size).sum();
    if long == 0 {
        0
    } else {
        long * 4 / 3 + key.to_string().len()
    }
}

fn claim_of(request: proto::ClaimBatchRequest, deadline: Deadline) -> Result<Claim, Error> {
    let invalid = |field: &str, problem: &str| Error::InvalidField {
        field: field.to_owned(),
        problem: problem.to_owned(),
    };
    Ok(Claim {
        wait: duration("wait_timeout", request.wait_timeout)?,
        max_items: usize::try_from(request.max_items)
            .map_err(|_| invalid("max_items", "must be at least 1"))?,
        lease: duration("lease_duration", request.lease_duration)?,
        request_id: match request.request_id.as_str() {
            "" => None,
            id => Some(
                id.parse()
                    .map_err(|_| invalid("request_id", "must be a UUID"))?,
            ),
        },
        queue: request.queue,
        worker: request.worker_id,
        patience: deadline.patience(),
    })
}

fn completion_of(
    at: usize,
    completion: proto::Completion,
    trace_parent: Option<&str>,
) -> Result<Completion, Error> {
    let follow_ups = completion.follow_ups.into_iter().enumerate();
    let follow_ups = follow_ups.map(|(place, follow_up)| {
        let field = || format!("completions[{at}].follow_ups[{place}].item");
        let item = follow_up.item.unwrap_or_default();
        Ok((follow_up.queue, new_item(&field, item, trace_parent)?))
    });
    Ok(Completion {
        lease_id: completion.lease_id,
        follow_ups: follow_ups.collect::<Result<_, Error>>()?,
    })
}

fn ids<T>(items: &[T], id: impl Fn(&T) -> &String) -> Vec<String> {
    items.iter().map(|item| id(item).clone()).collect()
}

fn results(ids: Vec<String>, states: Vec<Option<State>>) -> Vec<proto::SettleResult> {
    let results = ids.into_iter().zip(states);
    results
        .map(|(id, state)| settle_result(id, state))
        .collect()
}

/// Returns the caller's W3C trace context, if it sent a valid one.
fn trace_parent(metadata: &MetadataMap) -> Option<String> {
    let text = metadata.get("traceparent")?.to_str().ok()?;
    is_trace_parent(text).then(|| text.to_owned())
}
