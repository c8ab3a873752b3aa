//! Conversions between the protobuf messages and the types of the broker.
//!
//! A request message with a value that cannot be converted is refused. The error names the path of the field, such as
//! `items[2].delay`.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::text::Quoted;
use lease_broker_model::trace_context::TraceContext;
use lease_broker_proto as proto;
use lease_broker_store::{Cancelled, NewItem, Renewed, Settled, TooLargeItem};
use lease_broker_value::Value;
use uuid::Uuid;

use super::status::{MAX_TEXT_BYTES, truncate};
use crate::broker::{
    CancelRequest, ClaimRequest, DeliveredLease, Error, LeaseCompletion, LeaseFailure,
    LeaseRelease, LeaseRenewal,
};

type Result<T> = std::result::Result<T, Error>;

/// Converts a duration and refuses a negative one. `None`: the field is absent.
pub(super) fn duration_from_proto(
    field: impl Into<String>,
    duration: Option<prost_types::Duration>,
) -> Result<Option<Duration>> {
    let Some(duration) = duration else {
        return Ok(None);
    };
    match (
        u64::try_from(duration.seconds),
        u32::try_from(duration.nanos),
    ) {
        (Ok(seconds), Ok(nanos @ 0..1_000_000_000)) => Ok(Some(Duration::new(seconds, nanos))),
        (Ok(_), Ok(_)) => Err(Error::invalid(field, "nanos must be below 1,000,000,000")),
        _ => Err(Error::invalid(field, "must not be negative")),
    }
}

/// Converts a claim.
pub(super) fn claim_from_proto(
    request: proto::ClaimBatchRequest,
    time_to_deadline: Option<Duration>,
    max_response_bytes: usize,
) -> Result<ClaimRequest> {
    Ok(ClaimRequest {
        max_bytes: max_bytes_from_proto(request.max_bytes)?.min(max_response_bytes),
        wait_timeout: duration_from_proto("wait_timeout", request.wait_timeout)?,
        max_items: usize::try_from(request.max_items)
            .map_err(|_| Error::invalid("max_items", "must be at least 1"))?,
        lease_duration: duration_from_proto("lease_duration", request.lease_duration)?,
        request_id: request_id_from_proto(&request.request_id)?,
        queue: request.queue,
        worker_id: request.worker_id,
        time_to_deadline,
    })
}

/// Returns the maximum size of the leases in a response, in bytes. 0 stands for the default.
fn max_bytes_from_proto(max_bytes: i64) -> Result<usize> {
    const MIN: i64 = 64 << 10;
    const DEFAULT: usize = 4 << 20;

    match max_bytes {
        0 => Ok(DEFAULT),
        MIN.. => Ok(usize::try_from(max_bytes).unwrap_or(usize::MAX)),
        _ => Err(Error::invalid(
            "max_bytes",
            format!("{max_bytes} is less than the minimum of {MIN} bytes"),
        )),
    }
}

/// Converts the items that are too large for a claim.
pub(super) fn too_large_to_proto(items: Vec<TooLargeItem>) -> Vec<proto::TooLargeItem> {
    let convert = |item: TooLargeItem| proto::TooLargeItem {
        key: item.key.to_string(),
        size_bytes: i64::try_from(item.size_bytes).unwrap_or(i64::MAX),
    };
    items.into_iter().map(convert).collect()
}

/// Converts the id of a request. `None`: the field is empty.
pub(super) fn request_id_from_proto(id: &str) -> Result<Option<Uuid>> {
    if id.is_empty() {
        return Ok(None);
    }
    let id = id.parse();
    id.map(Some)
        .map_err(|_| Error::invalid("request_id", "must be a UUID"))
}

/// Converts the claim in a `Complete` or `Fail` call. It does not wait for items.
pub(super) fn next_claim_from_proto(
    queue: &str,
    next: proto::NextClaim,
    time_to_deadline: Option<Duration>,
    max_response_bytes: usize,
) -> Result<ClaimRequest> {
    let request = proto::ClaimBatchRequest {
        queue: queue.to_owned(),
        worker_id: next.worker_id,
        max_items: next.max_items,
        lease_duration: next.lease_duration,
        wait_timeout: None,
        request_id: next.request_id,
        max_bytes: next.max_bytes,
    };
    claim_from_proto(request, time_to_deadline, max_response_bytes)
        .map_err(|error| error.in_message("next"))
}

/// Converts completions.
pub(super) fn completions_from_proto(completions: Vec<proto::Completion>) -> Vec<LeaseCompletion> {
    let convert = |completion: proto::Completion| {
        let follow_ups = completion.follow_ups.into_iter().enumerate();
        let follow_ups = follow_ups.map(|(index, follow_up)| {
            let field = || format!("follow_ups[{index}].item");
            let item = follow_up.item.unwrap_or_default();
            let item = new_item_from_proto(&field, item, None)?;
            Ok((follow_up.queue, item))
        });
        let follow_ups: Result<_> = follow_ups.collect();
        LeaseCompletion {
            lease_id: completion.lease_id,
            columns: columns_from_proto(completion.columns).map_err(Error::into_refusal),
            follow_ups: follow_ups.map_err(Error::into_refusal),
        }
    };
    completions.into_iter().map(convert).collect()
}

/// Converts failures.
pub(super) fn failures_from_proto(failures: Vec<proto::Failure>) -> Result<Vec<LeaseFailure>> {
    let convert = |(index, failure): (usize, proto::Failure)| {
        let field = format!("failures[{index}].retry_delay");
        Ok(LeaseFailure {
            lease_id: failure.lease_id,
            error: failure.error_message,
            retry_delay: duration_from_proto(field, failure.retry_delay)?,
            dead_letter: failure.dead_letter,
            columns: columns_from_proto(failure.columns).map_err(Error::into_refusal),
            checkpoint: failure.checkpoint,
        })
    };
    failures.into_iter().enumerate().map(convert).collect()
}

/// Converts releases.
pub(super) fn releases_from_proto(releases: Vec<proto::Release>) -> Result<Vec<LeaseRelease>> {
    let convert = |(index, release): (usize, proto::Release)| {
        Ok(LeaseRelease {
            lease_id: release.lease_id,
            delay: match release.delay {
                None => None,
                delay => duration_from_proto(format!("releases[{index}].delay"), delay)?,
            },
            checkpoint: release.checkpoint,
        })
    };
    releases.into_iter().enumerate().map(convert).collect()
}

/// Converts the request ids of a release.
pub(super) fn request_ids_from_proto(request_ids: &[String]) -> Result<Vec<Uuid>> {
    let convert = |(index, id): (usize, &String)| {
        id.parse()
            .map_err(|_| Error::invalid(format!("request_ids[{index}]"), "must be a UUID"))
    };
    request_ids.iter().enumerate().map(convert).collect()
}

/// Converts new items. Those without a trace context take that of the call.
pub(super) fn new_items_from_proto(
    items: Vec<proto::NewItem>,
    call_context: Option<&str>,
) -> Result<Vec<NewItem>> {
    let convert = |(index, item)| {
        let field = || format!("items[{index}]");
        new_item_from_proto(&field, item, call_context)
    };
    items.into_iter().enumerate().map(convert).collect()
}

/// Converts a new item. `field` returns the item's path. It is a function because only an error needs the path.
/// `call_context` is the trace context of an item that has none.
fn new_item_from_proto(
    field: &dyn Fn() -> String,
    item: proto::NewItem,
    call_context: Option<&str>,
) -> Result<NewItem> {
    let columns = columns_from_proto(item.columns).map_err(|error| error.in_message(&field()))?;
    Ok(NewItem {
        columns,
        delay: match item.delay {
            None => Duration::ZERO,
            delay => duration_from_proto(format!("{}.delay", field()), delay)?.unwrap_or_default(),
        },
        trace_parent: match &*item.trace_parent {
            "" => call_context.map(str::to_owned),
            own if TraceContext::parse(own).is_some() => Some(item.trace_parent),
            _ => {
                let problem = "must be a W3C traceparent of 55 characters";
                return Err(Error::invalid(format!("{}.trace_parent", field()), problem));
            }
        },
    })
}

/// Converts the values of columns. The list is sorted by name, as the map is. Equal sets of columns therefore give equal
/// lists, for which the store keeps one prepared statement.
fn columns_from_proto(columns: BTreeMap<String, proto::Value>) -> Result<Vec<(String, Value)>> {
    let convert = |(name, value): (String, proto::Value)| match value_from_proto(value) {
        Ok(value) => Ok((name, value)),
        Err(problem) => Err(Error::invalid(
            format!("columns[{}]", Quoted(&name)),
            problem,
        )),
    };
    columns.into_iter().map(convert).collect()
}

/// Converts a value. Refuses a timestamp whose nanoseconds are not within a second.
fn value_from_proto(value: proto::Value) -> std::result::Result<Value, String> {
    match Value::from(value) {
        Value::Timestamp { nanos, .. } if !(0..1_000_000_000).contains(&nanos) => {
            Err("timestamp_value's nanos must be 0 to 999,999,999".to_owned())
        }
        value => Ok(value),
    }
}

/// Converts a leased item. `column_names` are the names of its columns, in the same order.
pub(super) fn lease_to_proto(column_names: &[String], lease: DeliveredLease) -> proto::Lease {
    let item = lease.item;
    let columns: BTreeMap<String, proto::Value> = column_names
        .iter()
        .cloned()
        .zip(item.columns.into_iter().map(Into::into))
        .collect();
    proto::Lease {
        lease_id: lease.id,
        attempt: i32::try_from(item.lease.attempt).unwrap_or(i32::MAX),
        fencing_token: item.lease.fence,
        expire_time: Some(timestamp(item.expiry.expire_time)),
        time_left: Some(duration_to_proto(item.expiry.time_left)),
        trace_parent: lease.trace_context.to_string(),
        ready_time: item.ready_time.map(timestamp),
        max_attempts: i32::try_from(lease.max_attempts.unwrap_or(0)).unwrap_or(i32::MAX),
        checkpoint: item.checkpoint,
        item: Some(proto::Item {
            key: item.lease.key.to_string(),
            columns,
        }),
    }
}

/// Converts renewals.
pub(super) fn renewals_from_proto(renewals: Vec<proto::Renewal>) -> Vec<LeaseRenewal> {
    let convert = |renewal: proto::Renewal| LeaseRenewal {
        lease_id: renewal.lease_id,
        checkpoint: renewal.checkpoint,
    };
    renewals.into_iter().map(convert).collect()
}

/// Converts the results of a heartbeat.
pub(super) fn heartbeat_results(
    renewals: Vec<LeaseRenewal>,
    results: Vec<Renewed>,
) -> Vec<proto::HeartbeatResult> {
    let lease_ids = renewals.into_iter().map(|renewal| renewal.lease_id);
    let results = lease_ids.zip(results);
    results
        .map(|(lease_id, renewed)| match renewed {
            Renewed::Extended(expiry) => proto::HeartbeatResult {
                lease_id,
                outcome: proto::Outcome::Applied.into(),
                expire_time: Some(timestamp(expiry.expire_time)),
                time_left: Some(duration_to_proto(expiry.time_left)),
                state: proto::ItemState::Leased.into(),
                cancel_reason: String::new(),
            },
            Renewed::Lost {
                state,
                cancel_reason,
            } => proto::HeartbeatResult {
                lease_id,
                outcome: proto::Outcome::LeaseLost.into(),
                expire_time: None,
                time_left: None,
                state: state
                    .map_or(proto::ItemState::Unspecified, item_state)
                    .into(),
                cancel_reason: cancel_reason.unwrap_or_default(),
            },
        })
        .collect()
}

/// Converts a cancellation.
pub(super) fn cancel_from_proto(request: proto::CancelLeasesRequest) -> Result<CancelRequest> {
    Ok(CancelRequest {
        delay: duration_from_proto("delay", request.delay)?,
        queue: request.queue,
        keys: request.keys,
        dead_letter: request.dead_letter,
        reason: request.reason,
    })
}

/// Converts the results of a cancellation.
pub(super) fn cancel_results(
    keys: Vec<String>,
    results: Vec<Cancelled>,
) -> Vec<proto::CancelResult> {
    let results = keys.into_iter().zip(results);
    results
        .map(|(key, result)| proto::CancelResult {
            key,
            cancelled: result.cancelled,
            state: result
                .state
                .map_or(proto::ItemState::Unspecified, item_state)
                .into(),
        })
        .collect()
}

/// Converts the results of settlements.
pub(super) fn settle_results(
    lease_ids: Vec<String>,
    results: Vec<Settled>,
) -> Vec<proto::SettleResult> {
    use proto::{ItemState, Outcome};

    let results = lease_ids.into_iter().zip(results);
    results
        .map(|(lease_id, result)| {
            let mut problem = String::new();
            let mut state = ItemState::Unspecified;
            let outcome = match result {
                Settled::Ended(ended_in) | Settled::Repeated(ended_in) => {
                    state = item_state(ended_in);
                    Outcome::Applied
                }
                Settled::Lost => Outcome::LeaseLost,
                Settled::Gone => Outcome::Gone,
                Settled::Refused(refusal) => {
                    problem = truncate(refusal.to_string(), MAX_TEXT_BYTES);
                    Outcome::Refused
                }
            };
            proto::SettleResult {
                lease_id,
                outcome: outcome.into(),
                state: state.into(),
                problem,
            }
        })
        .collect()
}

fn item_state(state: State) -> proto::ItemState {
    match state {
        State::Ready => proto::ItemState::Ready,
        State::Leased => proto::ItemState::Leased,
        State::Delayed => proto::ItemState::Delayed,
        State::Completed => proto::ItemState::Completed,
        State::Dead => proto::ItemState::Dead,
    }
}

/// Converts milliseconds since 1970-01-01T00:00:00Z.
fn timestamp(millis: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: millis.div_euclid(1_000),
        nanos: i32::try_from(millis.rem_euclid(1_000) * 1_000_000).unwrap_or(0),
    }
}

fn duration_to_proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}
