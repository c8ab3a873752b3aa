//! A queue's section of the configuration, as it is written.
//!
//! `deploy/config.default.toml` documents the settings. [`QueueConfig::into_spec`] checks them.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_model::queue::{ClaimStrategy, OnComplete, Order, OrderColumn};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::duration;
use super::groups::{GroupConfig, RateConfig};

/// The settings of one queue, or of the section `queue_defaults`.
///
/// A setting without a serde default is required. `queue_defaults` in the default configuration supplies it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueConfig {
    pub(super) table: Option<String>,
    #[serde(default)]
    pub(super) key: Names,
    pub(super) columns: Option<Vec<String>>,
    #[serde(default)]
    pub(super) writable: Vec<String>,
    #[serde(default)]
    pub(super) filterable: Vec<String>,
    #[serde(default)]
    pub(super) checkpoint: CheckpointConfig,
    pub(super) order: Option<OrderConfig>,
    pub(super) group: Option<GroupConfig>,
    #[serde(default)]
    pub(super) max_leases: u32,
    pub(super) rate: Option<RateConfig>,
    #[serde(with = "duration")]
    pub(super) lease_duration: Duration,
    #[serde(with = "duration")]
    pub(super) min_lease_duration: Duration,
    #[serde(with = "duration")]
    pub(super) max_lease_duration: Duration,
    pub(super) max_attempts: u32,
    #[serde(with = "duration")]
    pub(super) max_lease_age: Duration,
    pub(super) backoff: BackoffConfig,
    pub(super) on_complete: OnCompleteConfig,
    pub(super) filtered_indexes: bool,
    pub(super) completed_index: bool,
    pub(super) claim_strategy: ClaimStrategy,
    #[serde(with = "duration")]
    pub(super) enqueue_memory: Duration,
    pub(super) keep_for: KeepForConfig,
    pub(super) purge: Option<bool>,
    pub(super) managed_columns: Option<toml::Table>,
    #[serde(default)]
    pub(super) soft_lock: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) mirror: BTreeMap<String, BTreeMap<String, toml::Value>>,
}

/// The setting `keep_for`.
#[derive(Clone, Copy, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "ages such as { completed = \"30d\", dead = \"never\", archive = \"never\" }"
)]
pub(super) struct KeepForConfig {
    #[serde(deserialize_with = "age")]
    pub(super) completed: Option<Duration>,
    #[serde(deserialize_with = "age")]
    pub(super) dead: Option<Duration>,
    #[serde(deserialize_with = "age")]
    pub(super) archive: Option<Duration>,
}

/// Deserializes an age such as "30d". "never" is `None`.
fn age<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(input)?;
    if text.eq_ignore_ascii_case("never") {
        return Ok(None);
    }
    humantime::parse_duration(&text).map(Some).map_err(|error| {
        D::Error::custom(format!(
            "{text:?} is neither \"never\" nor an age such as \"30d\" or \"12h\": {error}"
        ))
    })
}

/// One name or a list of names.
#[derive(Default, Deserialize)]
#[serde(untagged, expecting = "expected a column's name or a list of names")]
pub(super) enum Names {
    #[default]
    None,
    One(String),
    Several(Vec<String>),
}

impl Names {
    pub(super) fn into_list(self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::One(name) => vec![name],
            Self::Several(names) => names,
        }
    }
}

/// The setting `checkpoint`: a switch, or the maximum size.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected true, false or { max_bytes = 4096 }")]
pub(super) enum CheckpointConfig {
    Switch(bool),
    Limit(CheckpointLimit),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointLimit {
    pub(super) max_bytes: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self::Switch(false)
    }
}

/// The setting `order`: `"none"`, one column, or a list of columns.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"none\", a column such as \"Priority desc\", or a list of columns"
)]
pub(super) enum OrderConfig {
    One(String),
    Several(Vec<OrderPart>),
}

impl From<OrderConfig> for Order {
    fn from(order: OrderConfig) -> Self {
        match order {
            OrderConfig::One(text) if text.eq_ignore_ascii_case("none") => Self::None,
            OrderConfig::One(text) => Self::By(vec![OrderPart::Text(text).into()]),
            OrderConfig::Several(parts) => {
                Self::By(parts.into_iter().map(OrderColumn::from).collect())
            }
        }
    }
}

/// One column of the order. The form with braces serves a column whose name ends in " desc" or " asc".
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"Column\", \"Column desc\" or { column = \"…\", descending = true }"
)]
pub(super) enum OrderPart {
    Text(String),
    Table {
        column: String,
        #[serde(default)]
        descending: bool,
    },
}

impl From<OrderPart> for OrderColumn {
    fn from(part: OrderPart) -> Self {
        match part {
            OrderPart::Table { column, descending } => Self { column, descending },
            OrderPart::Text(text) => {
                let (column, descending) = match text.rsplit_once(' ') {
                    Some((column, word)) if word.eq_ignore_ascii_case("desc") => (column, true),
                    Some((column, word)) if word.eq_ignore_ascii_case("asc") => (column, false),
                    _ => (text.as_str(), false),
                };
                Self {
                    column: column.to_owned(),
                    descending,
                }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "{ initial = \"1s\", factor = 2.0, max = \"10m\", jitter = 0.2 } or some of these"
)]
pub(super) struct BackoffConfig {
    #[serde(with = "duration")]
    pub(super) initial: Duration,
    pub(super) factor: f64,
    #[serde(with = "duration")]
    pub(super) max: Duration,
    pub(super) jitter: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnCompleteConfig {
    Keep,
    Delete,
    Archive(String),
    Recur(#[serde(with = "duration")] Duration),
}

impl From<OnCompleteConfig> for OnComplete {
    fn from(on_complete: OnCompleteConfig) -> Self {
        match on_complete {
            OnCompleteConfig::Keep => Self::Keep,
            OnCompleteConfig::Delete => Self::Delete,
            OnCompleteConfig::Archive(table) => Self::Archive(table),
            OnCompleteConfig::Recur(interval) => Self::Recur(interval),
        }
    }
}
