//! Conversions between the protobuf messages and the types of the broker.
//!
//! A request message with a value that cannot be converted is refused. The error names the path of the field, such as
//! `items[2].delay`.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::text::Quoted;
use lease_broker_model::trace_context::TraceContext;
use lease_broker_proto as proto;
use lease_broker_store::{
    Cancelled, NewItem, Problem, ProblemKind, Refusal, Renewed, Settled, TooLargeItem,
};
use lease_broker_value::Value;
use uuid::Uuid;

use super::protobuf_time::{check_timestamp, duration_to_proto, timestamp};
use super::status::{MAX_FIELD_BYTES, MAX_TEXT_BYTES, truncate};
use super::words::Words;
use crate::broker::{
    CancelRequest, ClaimRequest, DeliveredLease, Error, HeldBack, LeaseCompletion, LeaseFailure,
    LeaseRelease, LeaseRenewal, ReleaseClaimsRequest,
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
    max_response_bytes: usize,
) -> Result<ClaimRequest> {
    Ok(ClaimRequest {
        max_bytes: max_bytes_from_proto(request.max_bytes)?.min(max_response_bytes),
        wait_timeout: duration_from_proto("wait_timeout", request.wait_timeout)?,
        max_items: usize::try_from(request.max_items)
            .map_err(|_| Error::invalid("max_items", "must be at least 1"))?,
        max_run: usize::try_from(request.max_run)
            .map_err(|_| Error::invalid("max_run", "must not be negative"))?,
        lease_duration: duration_from_proto("lease_duration", request.lease_duration)?,
        request_id: request_id_from_proto("request_id", &request.request_id)?,
        queue: request.queue,
        worker_id: request.worker_id,
        groups: request.groups,
    })
}

/// Returns the maximum size of the leases in a response, in bytes. 0 stands for the default.
fn max_bytes_from_proto(max_bytes: i32) -> Result<usize> {
    const MIN: i32 = 64 << 10;
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
        size_bytes: i32::try_from(item.size_bytes).unwrap_or(i32::MAX),
    };
    items.into_iter().map(convert).collect()
}

/// Converts the id of a request. `None`: the field is empty.
pub(super) fn request_id_from_proto(field: &str, id: &str) -> Result<Option<Uuid>> {
    match id {
        "" => Ok(None),
        id => uuid_from_proto(|| field.to_owned(), id).map(Some),
    }
}

/// Converts a UUID. `field` returns the field's path.
pub(super) fn uuid_from_proto(field: impl FnOnce() -> String, text: &str) -> Result<Uuid> {
    const LENGTH: usize = uuid::fmt::Hyphenated::LENGTH;

    match Uuid::try_parse(text) {
        Ok(id) if text.len() == LENGTH && !id.is_nil() => Ok(id),
        _ => Err(Error::invalid(
            field(),
            format!("must be a UUID of {LENGTH} characters that is not nil"),
        )),
    }
}

/// Converts the reason why a claim has no leases.
pub(super) fn held_back_to_proto(held_back: HeldBack) -> proto::HeldBack {
    match held_back {
        HeldBack::NothingReady => proto::HeldBack::NothingReady,
        HeldBack::TooLarge => proto::HeldBack::TooLarge,
        HeldBack::Paused => proto::HeldBack::Paused,
        HeldBack::Stopping => proto::HeldBack::Stopping,
        HeldBack::Released => proto::HeldBack::Released,
        HeldBack::GroupsBusy => proto::HeldBack::GroupsBusy,
        HeldBack::MaxLeases => proto::HeldBack::MaxLeases,
        HeldBack::Rate => proto::HeldBack::Rate,
        HeldBack::Suspects => proto::HeldBack::Suspects,
    }
}

/// Converts the claim in a `Complete` or `Fail` call. It does not wait for items.
pub(super) fn next_claim_from_proto(
    queue: &str,
    next: proto::NextClaim,
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
        groups: next.groups,
        max_run: next.max_run,
    };
    claim_from_proto(request, max_response_bytes).map_err(|error| error.in_message("next"))
}

/// Converts completions. A completion is refused if it has a follow-up for one of the queues `denied`.
pub(super) fn completions_from_proto(
    completions: Vec<proto::Completion>,
    denied: &HashSet<String>,
) -> Vec<LeaseCompletion> {
    let convert = |completion: proto::Completion| {
        let follow_ups = completion.follow_ups.into_iter().enumerate();
        let follow_ups = follow_ups.map(|(index, follow_up)| {
            if denied.contains(&follow_up.queue) {
                return Err(follow_up_denied(index, &follow_up.queue));
            }
            let item = follow_up_from_proto(index, follow_up.item).map_err(Error::into_refusal)?;
            Ok((follow_up.queue, item))
        });
        LeaseCompletion {
            lease_id: completion.lease_id,
            columns: columns_from_proto(completion.columns).map_err(Error::into_refusal),
            follow_ups: follow_ups.collect(),
        }
    };
    completions.into_iter().map(convert).collect()
}

/// Returns the refusal of a follow-up for a queue to which the caller may not add items. It is the same whether the queue exists or
/// not.
fn follow_up_denied(index: usize, queue: &str) -> Refusal {
    let text = format!(
        "there is no queue {} to which the caller may add items",
        Quoted(queue)
    );
    Refusal {
        field: Some(format!("follow_ups[{index}].queue")),
        problem: Problem::new(ProblemKind::QueueNotFound, text),
    }
}

fn follow_up_from_proto(index: usize, item: Option<proto::NewItem>) -> Result<NewItem> {
    let field = || format!("follow_ups[{index}].item");
    let item = item.ok_or_else(|| Error::invalid(field(), "is required"))?;
    new_item_from_proto(&field, item, None)
}

/// Converts failures.
pub(super) fn failures_from_proto(failures: Vec<proto::Failure>) -> Vec<LeaseFailure> {
    let convert = |failure: proto::Failure| LeaseFailure {
        lease_id: failure.lease_id,
        error: failure.error_message,
        retry_delay: duration_from_proto("retry_delay", failure.retry_delay)
            .map_err(Error::into_refusal),
        dead_letter: failure.dead_letter,
        columns: columns_from_proto(failure.columns).map_err(Error::into_refusal),
        checkpoint: failure.checkpoint,
    };
    failures.into_iter().map(convert).collect()
}

/// Converts releases.
pub(super) fn releases_from_proto(releases: Vec<proto::Release>) -> Vec<LeaseRelease> {
    let convert = |release: proto::Release| LeaseRelease {
        lease_id: release.lease_id,
        delay: duration_from_proto("delay", release.delay).map_err(Error::into_refusal),
        checkpoint: release.checkpoint,
    };
    releases.into_iter().map(convert).collect()
}

/// Converts a release of claims.
pub(super) fn release_claims_from_proto(
    request: proto::ReleaseClaimsRequest,
) -> Result<ReleaseClaimsRequest> {
    let ids = request.request_ids.iter().enumerate();
    let ids = ids.map(|(index, id)| uuid_from_proto(|| format!("request_ids[{index}]"), id));
    Ok(ReleaseClaimsRequest {
        request_ids: ids.collect::<Result<_>>()?,
        queue: request.queue,
        worker_id: request.worker_id,
    })
}

/// Converts new items. Those without a trace context take that of the call.
pub(super) fn new_items_from_proto(
    items: Vec<proto::NewItem>,
    call_context: Option<TraceContext>,
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
    call_context: Option<TraceContext>,
) -> Result<NewItem> {
    let columns = columns_from_proto(item.columns).map_err(|error| error.in_message(&field()))?;
    Ok(NewItem {
        columns,
        delay: match item.delay {
            None => Duration::ZERO,
            delay => duration_from_proto(format!("{}.delay", field()), delay)?.unwrap_or_default(),
        },
        trace_parent: match &*item.trace_parent {
            "" => call_context.map(|context| context.to_string()),
            own => {
                let context = TraceContext::parse(own).ok_or_else(|| {
                    let problem = "must be a W3C traceparent, such as those of 55 characters";
                    Error::invalid(format!("{}.trace_parent", field()), problem)
                });
                Some(context?.to_string())
            }
        },
    })
}

/// Converts the values of columns. The list is sorted by name, as the map is. Equal sets of columns therefore give equal
/// lists, for which the store keeps one prepared statement.
pub(super) fn columns_from_proto(
    columns: BTreeMap<String, proto::ColumnValue>,
) -> Result<Vec<(String, Value)>> {
    let convert = |(name, value): (String, proto::ColumnValue)| match value_from_proto(value) {
        Ok(value) => Ok((name, value)),
        Err(problem) => Err(Error::invalid(
            format!("columns[{}]", Quoted(&name)),
            problem,
        )),
    };
    columns.into_iter().map(convert).collect()
}

/// Converts a value. Refuses one without a kind, and a timestamp that is outside of its range.
fn value_from_proto(value: proto::ColumnValue) -> std::result::Result<Value, String> {
    let value = Value::try_from(value).map_err(|error| error.to_string())?;
    if let Value::Timestamp { seconds, nanos } = value {
        check_timestamp(seconds, nanos).map_err(|problem| format!("timestamp_value {problem}"))?;
    }
    Ok(value)
}

/// Converts a leased item. `column_names` are the names of its columns, in the same order.
pub(super) fn lease_to_proto(column_names: &[String], lease: DeliveredLease) -> proto::Lease {
    let item = lease.item;
    let columns: BTreeMap<String, proto::ColumnValue> = column_names
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
        trace_parent: lease
            .trace_context
            .map_or_else(String::new, |context| context.to_string()),
        ready_time: item.ready_time.map(timestamp),
        max_attempts: i32::try_from(lease.max_attempts.unwrap_or(0)).unwrap_or(i32::MAX),
        checkpoint: item.checkpoint,
        run: i32::try_from(item.run).unwrap_or(i32::MAX),
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
pub(super) fn heartbeat_results(results: Vec<Renewed>) -> Vec<proto::HeartbeatResult> {
    let convert = |renewed| match renewed {
        Renewed::Extended(expiry) => proto::HeartbeatResult {
            outcome: proto::Outcome::Applied.into(),
            expire_time: Some(timestamp(expiry.expire_time)),
            time_left: Some(duration_to_proto(expiry.time_left)),
            state: proto::ItemState::Leased.into(),
            ..proto::HeartbeatResult::default()
        },
        Renewed::Lost {
            state,
            cancel_reason,
        } => proto::HeartbeatResult {
            outcome: proto::Outcome::LeaseLost.into(),
            state: item_state(state).into(),
            cancel_reason: cancel_reason.unwrap_or_default(),
            ..proto::HeartbeatResult::default()
        },
        Renewed::Refused(refusal) => proto::HeartbeatResult {
            outcome: proto::Outcome::Refused.into(),
            refusal: Some(refusal_to_proto(refusal)),
            ..proto::HeartbeatResult::default()
        },
    };
    results.into_iter().map(convert).collect()
}

/// Converts a cancellation.
pub(super) fn cancel_from_proto(request: proto::CancelLeasesRequest) -> Result<CancelRequest> {
    let leases = request.cancellations.into_iter();
    let leases = leases.map(|lease| {
        let fence = Some(lease.fencing_token).filter(|fence| *fence != 0);
        (lease.key, fence)
    });
    Ok(CancelRequest {
        delay: duration_from_proto("delay", request.delay)?,
        queue: request.queue,
        leases: leases.collect(),
        dead_letter: request.dead_letter,
        reason: request.reason,
    })
}

/// Converts the results of a cancellation.
pub(super) fn cancel_results(results: Vec<Cancelled>) -> Vec<proto::CancelResult> {
    use proto::Outcome;

    let convert = |result: Cancelled| {
        let mut converted = proto::CancelResult {
            state: item_state(result.state()).into(),
            ..proto::CancelResult::default()
        };
        let outcome = match result {
            Cancelled::Ended { fence, .. } => {
                converted.fencing_token = fence;
                Outcome::Applied
            }
            Cancelled::Repeated { fence, .. } => {
                converted.fencing_token = fence;
                converted.already_applied = true;
                Outcome::Applied
            }
            Cancelled::NotHeld(_) => Outcome::LeaseLost,
            Cancelled::NoRow => Outcome::Gone,
            Cancelled::Refused(refusal) => {
                converted.refusal = Some(refusal_to_proto(refusal));
                Outcome::Refused
            }
        };
        converted.outcome = outcome.into();
        converted
    };
    results.into_iter().map(convert).collect()
}

/// Converts the results of settlements.
pub(super) fn settle_results(results: Vec<Settled>) -> Vec<proto::SettleResult> {
    use proto::Outcome;

    let convert = |result: Settled| {
        let mut converted = proto::SettleResult {
            state: item_state(result.state()).into(),
            ..proto::SettleResult::default()
        };
        let outcome = match result {
            Settled::Ended(_) => Outcome::Applied,
            Settled::Repeated(_) => {
                converted.already_applied = true;
                Outcome::Applied
            }
            Settled::Lost => Outcome::LeaseLost,
            Settled::Gone => Outcome::Gone,
            Settled::Refused(refusal) => {
                converted.refusal = Some(refusal_to_proto(refusal));
                Outcome::Refused
            }
        };
        converted.outcome = outcome.into();
        converted
    };
    results.into_iter().map(convert).collect()
}

fn refusal_to_proto(refusal: Refusal) -> proto::Refusal {
    use proto::RefusalReason as Reason;

    let Problem {
        kind,
        constraint,
        text,
    } = refusal.problem;
    let reason = match kind {
        ProblemKind::Other => Reason::Unspecified,
        ProblemKind::InvalidField => Reason::InvalidField,
        ProblemKind::QueueNotFound => Reason::QueueNotFound,
        ProblemKind::ColumnNotWritable => Reason::ColumnNotWritable,
        ProblemKind::ValueUnfit => Reason::ValueUnfit,
        ProblemKind::AlreadyExists => Reason::AlreadyExists,
        ProblemKind::Check => Reason::Check,
        ProblemKind::ForeignKey => Reason::ForeignKey,
        ProblemKind::Trigger => Reason::Trigger,
        ProblemKind::OutOfOrder => Reason::OutOfOrder,
        ProblemKind::Locked => Reason::Locked,
    };
    proto::Refusal {
        reason: reason.into(),
        field: truncate(refusal.field.unwrap_or_default(), MAX_FIELD_BYTES),
        constraint: truncate(constraint.unwrap_or_default(), MAX_FIELD_BYTES),
        message: truncate(text, MAX_TEXT_BYTES),
    }
}

/// Converts the state of an item. `None`: it is unknown.
pub(super) fn item_state(state: Option<State>) -> proto::ItemState {
    state.map_or(proto::ItemState::Unspecified, Words::of)
}
