//! The row of a queue with groups or limits: whose turn it is, and how many items a claim may lease. Both stores share this part.

use std::time::Duration;

use lease_broker_model::group::GroupOrder;
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::rate::Rate;

use super::contract::{LimitChange, Limited, QueueLimitValues};
use super::error::StoreError;

/// Compares the policy of the row with that of the queue.
///
/// # Errors
/// [`StoreError::Misconfigured`] if they differ: brokers with different rules must not serve a queue together.
pub(super) fn check_policy(queue: &QueueSpec, stored: Option<&str>) -> Result<(), StoreError> {
    match policy_problem(queue, stored.unwrap_or("not set")) {
        None => Ok(()),
        Some(problem) => Err(StoreError::Misconfigured(format!(
            "{problem}: give all brokers the same setting, and run `lease-broker schema apply` with it"
        ))),
    }
}

/// Returns the difference between the policy of the queue and the stored one. `None`: they are equal, or claims of the queue take no turns,
/// so that none counts.
pub(super) fn policy_problem(queue: &QueueSpec, stored: &str) -> Option<String> {
    let own = queue.group_policy();
    (queue.takes_turns() && stored != own).then(|| {
        format!(
            "the groups of queue {:?} are {own:?} in this broker's configuration and {stored:?} in the database",
            queue.name
        )
    })
}

/// The limits that the configuration of a queue sets, as the row stores them. `None`: the configuration does not set the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredLimits {
    /// The maximum number of leases of the queue. 0: any number.
    pub(super) max_leases: Option<i64>,
    /// The rate of the queue.
    pub(super) rate: StoredRate,
    /// The maximum number of leases of a group. 0: any number.
    pub(super) group_max_leases: Option<i64>,
    /// The rate of each group.
    pub(super) group_rate: StoredRate,
}

/// A rate as the row stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredRate {
    /// The items. 0: there is no rate. `None`: it is not set.
    pub(super) items: Option<i64>,
    /// The time, in microseconds.
    pub(super) micros: Option<i64>,
    /// The burst.
    pub(super) burst: Option<i64>,
}

impl StoredLimits {
    /// Returns the limits of the configuration.
    pub(super) fn of(queue: &QueueSpec) -> Self {
        let groups = queue.groups.as_ref();
        let group_max_leases = match groups.map(|groups| groups.order) {
            Some(GroupOrder::Parallel { max_leases, .. }) => max_leases.map(i64::from),
            _ => None,
        };
        Self {
            max_leases: queue.limits.max_leases.map(i64::from),
            rate: StoredRate::of(queue.limits.rate),
            group_max_leases,
            group_rate: StoredRate::of(groups.and_then(|groups| groups.rate)),
        }
    }

    /// Returns the limits that a change sets.
    pub(super) fn of_change(change: &LimitChange) -> Self {
        let rate = |rate: Option<(u32, Duration, u32)>| {
            StoredRate::of(rate.map(|(items, per, burst)| Rate { items, per, burst }))
        };
        Self {
            max_leases: change.max_leases.map(i64::from),
            rate: rate(change.rate),
            group_max_leases: change.group_max_leases.map(i64::from),
            group_rate: rate(change.group_rate),
        }
    }

    /// Returns the limits as operators see them.
    pub(super) fn values(&self) -> QueueLimitValues {
        let count = |limit: Option<i64>| {
            let limit = limit.and_then(|limit| u32::try_from(limit).ok());
            limit.filter(|limit| *limit > 0)
        };
        QueueLimitValues {
            max_leases: count(self.max_leases),
            rate: self.rate.get(),
            group_max_leases: count(self.group_max_leases),
            group_rate: self.group_rate.get(),
        }
    }

    /// Returns the limit of leases of the queue.
    pub(super) fn max_leases(&self) -> Option<usize> {
        let max = usize::try_from(self.max_leases?).ok();
        max.filter(|max| *max > 0)
    }

    /// Logs that this row of a queue without groups and limits in the configuration has limits. The claims of its broker do not read
    /// the row.
    pub(super) fn warn_if_unused(&self, queue: &QueueSpec) {
        if self.values() != QueueLimitValues::default() {
            tracing::warn!(
                queue = queue.name,
                "limits in the database do not count at this broker: its configuration of the queue has neither groups nor limits"
            );
        }
    }

    /// Returns the names of the limits that `self`, the configuration, sets to other values than `row`, the database.
    pub(super) fn differences(&self, row: &Self) -> Vec<&'static str> {
        let differs = |own: Option<i64>, row: Option<i64>| own.is_some() && own != row;
        let rate_differs = |own: StoredRate, row: StoredRate| own.items.is_some() && own != row;
        let all = [
            ("max_leases", differs(self.max_leases, row.max_leases)),
            ("rate", rate_differs(self.rate, row.rate)),
            (
                "group.max_leases",
                differs(self.group_max_leases, row.group_max_leases),
            ),
            ("group.rate", rate_differs(self.group_rate, row.group_rate)),
        ];
        let names = all.into_iter().filter(|(_, differs)| *differs);
        names.map(|(name, _)| name).collect()
    }
}

impl StoredRate {
    fn of(rate: Option<Rate>) -> Self {
        Self {
            items: rate.map(|rate| i64::from(rate.items)),
            micros: rate.map(|rate| rate.per_micros()),
            burst: rate.map(|rate| i64::from(rate.burst)),
        }
    }

    /// Returns the rate. A number that no broker writes counts as none.
    pub(super) fn get(self) -> Option<Rate> {
        let number = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
        let micros = self.micros.and_then(|micros| u64::try_from(micros).ok());
        Some(Rate {
            items: number(self.items).filter(|items| *items > 0)?,
            per: Duration::from_micros(micros.filter(|micros| *micros > 0)?),
            burst: number(self.burst).filter(|burst| *burst > 0)?,
        })
    }
}

/// The number of items that a claim may lease, and the reason why it may not lease more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    /// `None`: any number.
    pub(super) left: Option<usize>,
    /// The limit that `left` comes from.
    pub(super) limit: Option<Limited>,
}

impl Allowance {
    /// Returns the allowance of a claim. `leased`: the leases of the queue, counted up to its limit. Times are in microseconds.
    pub(super) fn new(
        limits: &StoredLimits,
        leased: usize,
        arrival: Option<i64>,
        now: i64,
    ) -> Self {
        let cap = limits.max_leases();
        let cap = cap.map(|cap| (cap.saturating_sub(leased), Limited::MaxLeases));
        let rate = limits.rate.get().map(|rate| {
            let tokens = usize::try_from(rate.tokens(arrival, now)).unwrap_or(usize::MAX);
            // The wait for the token after those that are there.
            let spent = rate.after(arrival, now, tokens);
            let wait = rate.wait(Some(spent), now);
            (tokens, Limited::Rate { wait })
        });
        let least = cap.into_iter().chain(rate).min_by_key(|(left, _)| *left);
        Self {
            left: least.map(|(left, _)| left),
            limit: least.map(|(_, limit)| limit),
        }
    }

    /// Returns how many of `wanted` items may be leased.
    pub(super) fn bound(&self, wanted: usize) -> usize {
        self.left.map_or(wanted, |left| left.min(wanted))
    }

    /// Counts items that were leased.
    pub(super) fn take(&mut self, count: usize) {
        self.left = self.left.map(|left| left.saturating_sub(count));
    }

    /// Returns the limit if nothing is left.
    pub(super) fn exhausted(&self) -> Option<Limited> {
        self.limit.filter(|_| self.left == Some(0))
    }
}

/// The number of groups that a claim looks at before it lets other operations run.
pub(super) fn max_visits(wanted: usize) -> usize {
    /// The maximum, so that a claim does not hold the queue's row long.
    const MAX_VISITS: usize = 1_000;
    wanted.saturating_mul(4).saturating_add(64).min(MAX_VISITS)
}

/// Distributes `wanted` items over groups, evenly. `sizes` are the numbers of items that each group can give. Returns for each item
/// its group and its place in the group.
///
/// Every group gives its first item before any gives a second one, so groups take turns inside a claim too.
pub(super) fn distribute(sizes: &[usize], wanted: usize) -> Vec<(usize, usize)> {
    let mut items = Vec::new();
    let mut place = 0;
    while items.len() < wanted {
        let before = items.len();
        for (group, _) in sizes.iter().enumerate().filter(|(_, size)| **size > place) {
            items.push((group, place));
        }
        if items.len() == before {
            break;
        }
        place += 1;
    }
    items.truncate(wanted);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_turns_inside_a_claim() {
        let items = distribute(&[3, 0, 1, 2], 5);
        assert_eq!(items, [(0, 0), (2, 0), (3, 0), (0, 1), (3, 1)]);
        assert_eq!(distribute(&[1, 1], 9), [(0, 0), (1, 0)]);
        assert_eq!(distribute(&[], 9), []);
    }

    #[test]
    fn the_stricter_limit_decides() {
        let limits = StoredLimits {
            max_leases: Some(5),
            rate: StoredRate {
                items: Some(10),
                micros: Some(1_000_000),
                burst: Some(4),
            },
            ..StoredLimits::default()
        };
        let allowance = |leased| Allowance::new(&limits, leased, None, 0);
        let wait = Duration::from_millis(100);
        assert_eq!(allowance(0).left, Some(4));
        assert_eq!(allowance(0).limit, Some(Limited::Rate { wait }));
        assert_eq!(allowance(3).left, Some(2));
        assert_eq!(allowance(7).exhausted(), Some(Limited::MaxLeases));
        let mut first = allowance(0);
        first.take(4);
        assert_eq!(first.exhausted(), Some(Limited::Rate { wait }));
    }

    #[test]
    fn zero_is_no_limit() {
        let limits = StoredLimits {
            max_leases: Some(0),
            rate: StoredRate {
                items: Some(0),
                ..StoredRate::default()
            },
            ..StoredLimits::default()
        };
        let allowance = Allowance::new(&limits, 99, None, 0);
        assert_eq!((allowance.left, allowance.limit), (None, None));
        let config = StoredLimits {
            max_leases: Some(3),
            ..StoredLimits::default()
        };
        assert_eq!(config.differences(&limits), ["max_leases"]);
        assert!(StoredLimits::default().differences(&limits).is_empty());
    }
}
