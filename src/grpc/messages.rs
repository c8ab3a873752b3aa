//! Turns messages into the broker's requests and its answers into messages. What a message can't say rightly is refused
//! with the field's path.

use std::collections::BTreeMap;
use std::time::Duration;

use super::proto;
use crate::broker::Error;
use crate::item_state::State;
use crate::store::{ClaimedItem, Held, NewItem};
use crate::value::Value;

type Result<T> = std::result::Result<T, Error>;

/// Reads a duration, which must not be negative.
pub(super) fn duration(
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

/// Reads a new item, which takes the call's trace context.
pub(super) fn new_item(
    field: &dyn Fn() -> String,
    item: proto::NewItem,
    trace_parent: Option<&str>,
) -> Result<NewItem> {
    let mut columns = item
        .columns
        .into_iter()
        .map(|(name, value)| match value_of(value) {
            Ok(value) => Ok((name, value)),
            Err(problem) => Err(Error::invalid(
                format!("{}.columns[{name:?}]", field()),
                problem,
            )),
        })
        .collect::<Result<Vec<_>>>()?;
    // A map has no order; the store keeps a statement for each list of columns.
    columns.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(NewItem {
        columns,
        delay: match item.delay {
            None => Duration::ZERO,
            delay => duration(format!("{}.delay", field()), delay)?.unwrap_or_default(),
        },
        trace_parent: trace_parent.map(str::to_owned),
    })
}

fn value_of(value: proto::Value) -> std::result::Result<Value, String> {
    use proto::value::Kind;

    Ok(match value.kind {
        None => Value::Null,
        Some(Kind::BoolValue(bool)) => Value::Bool(bool),
        Some(Kind::Int64Value(int)) => Value::Int(int),
        Some(Kind::DoubleValue(double)) => Value::Double(double),
        Some(Kind::StringValue(text)) => Value::Text(text),
        Some(Kind::BytesValue(bytes)) => Value::Bytes(bytes),
        Some(Kind::DecimalValue(digits)) => Value::Decimal(digits),
        Some(Kind::TimestampValue(timestamp)) => {
            if !(0..1_000_000_000).contains(&timestamp.nanos) {
                return Err("timestamp_value's nanos must be 0 to 999,999,999".to_owned());
            }
            Value::Timestamp {
                seconds: timestamp.seconds,
                nanos: timestamp.nanos,
            }
        }
    })
}

/// Writes a lease.
pub(super) fn lease(
    queue: &str,
    lease_id: String,
    names: &[String],
    item: ClaimedItem,
) -> proto::Lease {
    let trace_parent = item.lease.trace_parent(queue, item.trace_parent.as_deref());
    let columns: BTreeMap<String, proto::Value> = names
        .iter()
        .cloned()
        .zip(item.columns.into_iter().map(message_of))
        .collect();
    proto::Lease {
        lease_id,
        attempt: i32::try_from(item.lease.attempt).unwrap_or(i32::MAX),
        fencing_token: item.lease.fence,
        expire_time: Some(timestamp(item.held.expire_time)),
        time_left: Some(time_left(item.held)),
        trace_parent,
        item: Some(proto::Item {
            key: item.lease.key.to_string(),
            columns,
        }),
    }
}

fn message_of(value: Value) -> proto::Value {
    use proto::value::Kind;

    let kind = match value {
        Value::Null => None,
        Value::Bool(bool) => Some(Kind::BoolValue(bool)),
        Value::Int(int) => Some(Kind::Int64Value(int)),
        Value::Double(double) => Some(Kind::DoubleValue(double)),
        Value::Text(text) => Some(Kind::StringValue(text)),
        Value::Bytes(bytes) => Some(Kind::BytesValue(bytes)),
        Value::Timestamp { seconds, nanos } => Some(Kind::TimestampValue(prost_types::Timestamp {
            seconds,
            nanos,
        })),
        Value::Decimal(digits) => Some(Kind::DecimalValue(digits)),
    };
    proto::Value { kind }
}

/// Writes what became of an extension.
pub(super) fn heartbeat_result(lease_id: String, held: Option<Held>) -> proto::HeartbeatResult {
    proto::HeartbeatResult {
        lease_id,
        outcome: outcome(held.is_some()),
        expire_time: held.map(|held| timestamp(held.expire_time)),
        time_left: held.map(time_left),
    }
}

/// Writes what became of a settlement.
pub(super) fn settle_result(lease_id: String, state: Option<State>) -> proto::SettleResult {
    let item_state = match state {
        None => proto::ItemState::Unspecified,
        Some(State::Ready) => proto::ItemState::Ready,
        Some(State::Leased) => proto::ItemState::Leased,
        Some(State::Delayed) => proto::ItemState::Delayed,
        Some(State::Completed) => proto::ItemState::Completed,
        Some(State::Dead) => proto::ItemState::Dead,
    };
    proto::SettleResult {
        lease_id,
        outcome: outcome(state.is_some()),
        state: item_state.into(),
    }
}

fn outcome(applied: bool) -> i32 {
    if applied {
        proto::Outcome::Applied.into()
    } else {
        proto::Outcome::LeaseLost.into()
    }
}

fn timestamp(millis: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: millis.div_euclid(1_000),
        nanos: i32::try_from(millis.rem_euclid(1_000) * 1_000_000).unwrap_or(0),
    }
}

fn time_left(held: Held) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(held.time_left.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(held.time_left.subsec_nanos()).unwrap_or(0),
    }
}
