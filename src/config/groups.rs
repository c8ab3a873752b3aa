//! The settings `group`, `max_leases` and `rate` of a queue: as they are written, and their checks.

use std::fmt;
use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::queue::{OnComplete, Order, QueueSpec};
use lease_broker_model::rate::Rate;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::duration;
use super::error::InvalidSetting;
use super::queue_columns::check_name;
use super::range::{check_between, check_duration};

/// The setting `group`: the column, or the column with the rules of the groups.
pub(super) enum GroupConfig {
    Column(String),
    Rules(GroupRules),
}

impl<'de> Deserialize<'de> for GroupConfig {
    /// Deserializes each form by itself. The error of serde's `untagged` would not name the part of the rules that is wrong.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(GroupVisitor)
    }
}

struct GroupVisitor;

impl<'de> Visitor<'de> for GroupVisitor {
    type Value = GroupConfig;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(
            "a column such as \"Customer_ID\", or { column = \"Customer_ID\", order = \"none\", max_leases = 5 }; the settings of a \
             group are column, order, max_leases, burst, rate, on_dead and run",
        )
    }

    fn visit_str<E: serde::de::Error>(self, column: &str) -> Result<GroupConfig, E> {
        Ok(GroupConfig::Column(column.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, rules: A) -> Result<GroupConfig, A::Error> {
        GroupRules::deserialize(MapAccessDeserializer::new(rules)).map(GroupConfig::Rules)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupRules {
    column: String,
    #[serde(default)]
    order: GroupOrderConfig,
    max_leases: Option<u32>,
    burst: Option<bool>,
    on_dead: Option<OnDeadConfig>,
    run: Option<u32>,
    rate: Option<RateConfig>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GroupOrderConfig {
    #[default]
    Strict,
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnDeadConfig {
    Continue,
    Halt,
}

/// The setting `rate`.
#[derive(Clone, Copy, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "{ items = 100, per = \"1s\" }, and burst if it is not items"
)]
pub(super) struct RateConfig {
    items: u32,
    #[serde(with = "duration")]
    per: Duration,
    burst: Option<u32>,
}

/// Returns the groups that the settings describe.
pub(super) fn groups(
    config: Option<GroupConfig>,
    key_path: &dyn Fn(&str) -> String,
) -> Result<Option<Groups>, InvalidSetting> {
    let Some(config) = config else {
        return Ok(None);
    };
    let rules = match config {
        GroupConfig::Rules(rules) => rules,
        GroupConfig::Column(column) => GroupRules {
            column,
            order: GroupOrderConfig::Strict,
            max_leases: None,
            burst: None,
            on_dead: None,
            run: None,
            rate: None,
        },
    };
    check_name(key_path("group.column"), &rules.column)?;
    let invalid = |key: &str, reason: &str| Err(InvalidSetting::new(key_path(key), reason));
    let max = rules.max_leases.map(|max| max as usize);
    let order = match (rules.order, rules.on_dead) {
        (GroupOrderConfig::Strict, _) if max.is_some_and(|max| max != 1) => {
            return invalid(
                "group.max_leases",
                "a group with order = \"strict\" has one lease at a time; set 1, or order = \"none\"",
            );
        }
        (GroupOrderConfig::Strict, _) if rules.burst == Some(true) => {
            return invalid(
                "group.burst",
                "needs order = \"none\": a group with order = \"strict\" has one lease at a time",
            );
        }
        (GroupOrderConfig::Strict, on_dead) => {
            let run = rules.run.unwrap_or(1);
            let most = Groups::MAX_RUN as usize;
            check_between(key_path("group.run"), run as usize, 1, most)?;
            GroupOrder::Strict {
                halts: on_dead == Some(OnDeadConfig::Halt),
                run,
            }
        }
        (GroupOrderConfig::None, _) if rules.run.is_some_and(|run| run != 1) => {
            return invalid(
                "group.run",
                "needs order = \"strict\": without an order, a claim gets several items of a group anyway",
            );
        }
        (GroupOrderConfig::None, Some(_)) => {
            return invalid(
                "group.on_dead",
                "needs order = \"strict\": without an order, no item waits for another",
            );
        }
        (GroupOrderConfig::None, None) => {
            let most = Groups::MAX_LEASES as usize;
            check_between(
                key_path("group.max_leases"),
                max.unwrap_or_default(),
                0,
                most,
            )?;
            GroupOrder::Parallel {
                max_leases: rules.max_leases.filter(|max| *max > 0),
                bursts: rules.burst == Some(true),
            }
        }
    };
    let rate = rules
        .rate
        .map(|rate| checked_rate(rate, "group.rate", key_path));
    Ok(Some(Groups {
        column: rules.column,
        order,
        rate: rate.transpose()?,
    }))
}

/// Returns the rate that a setting describes.
fn checked_rate(
    rate: RateConfig,
    setting: &str,
    key_path: &dyn Fn(&str) -> String,
) -> Result<Rate, InvalidSetting> {
    let path = |key: &str| key_path(&format!("{setting}.{key}"));
    let burst = rate.burst.unwrap_or(rate.items);
    for (key, count) in [("items", rate.items), ("burst", burst)] {
        check_between(path(key), count as usize, 1, Rate::MAX_ITEMS as usize)?;
    }
    let [shortest, longest] = Rate::PER;
    check_duration(path("per"), rate.per, shortest, longest)?;
    Ok(Rate {
        items: rate.items,
        per: rate.per,
        burst,
    })
}

/// Returns the limits of the queue that the settings `max_leases` and `rate` describe.
pub(super) fn limits(
    max_leases: u32,
    rate: Option<RateConfig>,
    key_path: &dyn Fn(&str) -> String,
) -> Result<QueueLimits, InvalidSetting> {
    let most = QueueLimits::MAX_LEASES as usize;
    check_between(key_path("max_leases"), max_leases as usize, 0, most)?;
    let rate = rate.map(|rate| checked_rate(rate, "rate", key_path));
    Ok(QueueLimits {
        max_leases: (max_leases > 0).then_some(max_leases),
        rate: rate.transpose()?,
    })
}

/// Checks that the column of the groups can be one: its value must not change while an item is leased, and the queue needs an order
/// in which a group can go.
pub(super) fn check_groups(
    queue: &QueueSpec,
    key_path: &dyn Fn(&str) -> String,
) -> Result<(), InvalidSetting> {
    let Some(groups) = &queue.groups else {
        return Ok(());
    };
    let name = &groups.column;
    let is_column = |other: &str| other.eq_ignore_ascii_case(name);
    let mut mirrors = queue.mirror.iter();
    let reason = if queue.soft_lock.contains(name) {
        "is a soft-lock column"
    } else if mirrors.any(|mirror| is_column(&mirror.column)) {
        "is a mirror column"
    } else if queue.writable.iter().any(|column| is_column(column)) {
        "is a writable column"
    } else {
        let strict = |reason: &str| Err(InvalidSetting::new(key_path("group.order"), reason));
        return match (groups.is_strict(), &queue.order, &queue.on_complete) {
            (true, Order::None, _) => {
                strict("\"strict\" needs an order; remove order = \"none\" of the queue")
            }
            (true, _, OnComplete::Recur(_)) => strict(
                "\"strict\" cannot be combined with on_complete = { recur = … }: the next run would hold its group back",
            ),
            _ => Ok(()),
        };
    };
    Err(InvalidSetting::new(
        key_path("group.column"),
        format!("{name:?} {reason}: the value would change while items are leased"),
    ))
}
