//! The limits of a queue in requests and responses.

use std::time::Duration;

use lease_broker_model::rate::Rate;
use lease_broker_proto as proto;
use lease_broker_store::{LimitChange, QueueLimitValues};

use crate::broker::Error;
use crate::grpc::messages::duration_from_proto;
use crate::grpc::protobuf_time::duration_to_proto;

/// Converts the limits of a request. The broker checks their ranges.
pub(super) fn limits_from_proto(limits: proto::QueueLimits) -> Result<LimitChange, Error> {
    let count = |field: &str, value: i32| {
        u32::try_from(value).map_err(|_| Error::invalid(field, "must not be negative"))
    };
    let optional = |field: &str, value: Option<i32>| {
        let value = value.map(|value| count(field, value));
        value.transpose()
    };
    let rate = |field: &str, rate: Option<proto::QueueRate>| {
        let rate = rate.map(|rate| {
            let path = |name: &str| format!("limits.{field}.{name}");
            let items = count(&path("items"), rate.items)?;
            let burst = count(&path("burst"), rate.burst)?;
            let per = match rate.per {
                Some(per) => duration_from_proto(path("per"), Some(per))?.unwrap_or_default(),
                None if items == 0 => Duration::ZERO,
                None => return Err(Error::invalid(path("per"), "is required")),
            };
            Ok::<_, Error>((items, per, if burst == 0 { items } else { burst }))
        });
        rate.transpose()
    };
    Ok(LimitChange {
        max_leases: optional("limits.max_leases", limits.max_leases)?,
        rate: rate("rate", limits.rate)?,
        group_max_leases: optional("limits.group_max_leases", limits.group_max_leases)?,
        group_rate: rate("group_rate", limits.group_rate)?,
    })
}

/// Converts the limits of a queue.
pub(super) fn limits_to_proto(limits: QueueLimitValues) -> proto::QueueLimits {
    let count = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let rate = |rate: Rate| proto::QueueRate {
        items: count(rate.items),
        per: Some(duration_to_proto(rate.per)),
        burst: count(rate.burst),
    };
    proto::QueueLimits {
        max_leases: Some(count(limits.max_leases.unwrap_or(0))),
        rate: limits.rate.map(rate),
        group_max_leases: Some(count(limits.group_max_leases.unwrap_or(0))),
        group_rate: limits.group_rate.map(rate),
    }
}
