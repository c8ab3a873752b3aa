//! Limits of queues.

use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::rate::Rate;
use lease_broker_store::{LimitChange, QueueLimitValues};

use super::Operator;
use crate::broker::error::Error;

/// The fields of a rate: items, time and burst.
const RATE_FIELDS: [&str; 3] = ["limits.rate.items", "limits.rate.per", "limits.rate.burst"];
const GROUP_RATE_FIELDS: [&str; 3] = [
    "limits.group_rate.items",
    "limits.group_rate.per",
    "limits.group_rate.burst",
];

impl Operator {
    /// Changes limits of a queue, wakes its claims that wait at this broker, and returns the limits. A change without limits only
    /// returns them.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], an invalid field, an exceeded limit, and those of the store.
    pub async fn set_limits(
        &self,
        queue: &str,
        change: LimitChange,
    ) -> Result<QueueLimitValues, Error> {
        let (index, spec) = self.queue(queue)?;
        if !spec.takes_turns() && change == LimitChange::default() {
            return Ok(QueueLimitValues::default());
        }
        if !spec.takes_turns() {
            let problem = "the queue has neither groups nor limits in its configuration, so its claims obey none: set group, \
                           max_leases or rate there";
            return Err(Error::invalid("limits", problem));
        }
        let order = spec.groups.as_ref().map(|groups| groups.order);
        let has_parallel_groups = matches!(order, Some(GroupOrder::Parallel { .. }));
        if change.group_max_leases.is_some() && !has_parallel_groups {
            let problem = "needs groups with order = \"none\" in the configuration of the queue";
            return Err(Error::invalid("limits.group_max_leases", problem));
        }
        let mut counts = vec![
            (
                "limits.max_leases",
                change.max_leases,
                QueueLimits::MAX_LEASES,
            ),
            (
                "limits.group_max_leases",
                change.group_max_leases,
                Groups::MAX_LEASES,
            ),
        ];
        if change.group_rate.is_some() && order.is_none() {
            let problem = "needs groups in the configuration of the queue";
            return Err(Error::invalid("limits.group_rate", problem));
        }
        let rates = [
            (RATE_FIELDS, change.rate),
            (GROUP_RATE_FIELDS, change.group_rate),
        ];
        for ([items_field, per_field, burst_field], rate) in rates {
            if let Some((items, per, burst)) = rate {
                counts.push((items_field, Some(items), Rate::MAX_ITEMS));
                counts.push((burst_field, Some(burst), Rate::MAX_ITEMS));
                check_per(per_field, items, per)?;
            }
        }
        for (field, count, max) in counts {
            if let Some(count) = count.filter(|count| *count > max) {
                let problem = format!("{count} is more than the maximum of {max}");
                return Err(Error::limit(field, problem, &count, &max));
            }
        }
        let limits = self.store()?.set_limits(index, change).await?;
        self.wake(index, Duration::ZERO);
        Ok(limits)
    }
}

/// Checks the time of a rate.
fn check_per(field: &str, items: u32, per: Duration) -> Result<(), Error> {
    let [shortest, longest] = Rate::PER;
    if items == 0 || (shortest..=longest).contains(&per) {
        return Ok(());
    }
    let [shortest, longest] = Rate::PER.map(humantime::format_duration);
    let problem = format!("must be {shortest} to {longest}");
    Err(Error::invalid(field, problem))
}
