//! A queue's section of the configuration, and what it means.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Problem, duration};
use crate::item_state::{Backoff, RetryPolicy, State};
use crate::queue::{
    ClaimStrategy, LeaseBounds, Mirror, MirrorValue, OnComplete, Order, OrderColumn, QueueSpec,
    SoftLock, SoftLockColumn,
};
use crate::value::Value;

/// The shortest and the longest lease that can be configured.
const LEASE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(12 * 3_600)];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueConfig {
    table: Option<String>,
    #[serde(default)]
    key: Names,
    columns: Option<Vec<String>>,
    order: Option<OrderConfig>,
    #[serde(with = "duration")]
    lease: Duration,
    #[serde(with = "duration")]
    min_lease: Duration,
    #[serde(with = "duration")]
    max_lease: Duration,
    max_attempts: u32,
    backoff: BackoffConfig,
    on_complete: OnCompleteConfig,
    filtered_indexes: bool,
    claim_strategy: ClaimStrategyConfig,
    managed: Option<toml::Table>,
    #[serde(default)]
    soft_lock: BTreeMap<String, String>,
    #[serde(default)]
    mirror: BTreeMap<String, BTreeMap<String, toml::Value>>,
}

/// One name, or a list of names.
#[derive(Default, Deserialize)]
#[serde(untagged, expecting = "expected a column's name or a list of names")]
enum Names {
    #[default]
    None,
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"none\", a column such as \"Priority desc\", or a list of columns"
)]
enum OrderConfig {
    One(String),
    Several(Vec<OrderPart>),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"Column\", \"Column desc\" or { column = \"…\", descending = true }"
)]
enum OrderPart {
    Text(String),
    Table {
        column: String,
        #[serde(default)]
        descending: bool,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackoffConfig {
    #[serde(with = "duration")]
    initial: Duration,
    factor: f64,
    #[serde(with = "duration")]
    max: Duration,
    jitter: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnCompleteConfig {
    Keep,
    Delete,
    Archive(String),
    Recur(#[serde(with = "duration")] Duration),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClaimStrategyConfig {
    SkipLocked,
    AppLock,
}

impl OrderPart {
    fn into_column(self) -> OrderColumn {
        match self {
            Self::Table { column, descending } => OrderColumn { column, descending },
            Self::Text(text) => {
                let (column, descending) = match text.rsplit_once(' ') {
                    Some((column, word)) if word.eq_ignore_ascii_case("desc") => (column, true),
                    Some((column, word)) if word.eq_ignore_ascii_case("asc") => (column, false),
                    _ => (text.as_str(), false),
                };
                OrderColumn {
                    column: column.to_owned(),
                    descending,
                }
            }
        }
    }
}

impl QueueConfig {
    /// Refuses, in the section of defaults, what belongs to one table.
    pub(super) fn check_defaults(&self) -> Result<(), Problem> {
        let own = [
            ("table", self.table.is_some()),
            ("key", !matches!(self.key, Names::None)),
            ("columns", self.columns.is_some()),
            ("managed", self.managed.is_some()),
        ];
        match own.into_iter().find(|(_, set)| *set) {
            Some((key, _)) => Err(Problem::new(
                format!("queue_defaults.{key}"),
                "belongs to one queue: set it in its section",
            )),
            None => Ok(()),
        }
    }

    /// Returns the queue called `name`.
    pub(super) fn into_spec(self, name: &str) -> Result<QueueSpec, Problem> {
        let at = |key: &str| format!("queues.{name}.{key}");
        if name.is_empty() || name.chars().count() > 128 {
            return Err(Problem::new(
                at("").trim_end_matches('.'),
                "a queue's name has 1 to 128 characters",
            ));
        }
        let table = self.table.clone().unwrap_or_else(|| name.to_owned());
        let mut names = vec![(at("table"), &table)];
        let lease = self.lease_bounds(&at)?;
        let retry = self.retry_policy(&at)?;
        let mirror = self.mirrors(&at)?;
        let soft_lock = self.soft_lock_names(&at)?;
        let managed = self.managed_columns(&at)?;
        let key = match self.key {
            Names::None => Vec::new(),
            Names::One(name) => vec![name],
            Names::Several(names) => names,
        };
        if key.len() > 3 {
            return Err(Problem::new(
                at("key"),
                format!("{} columns; three is the most", key.len()),
            ));
        }
        let order = match self.order {
            None => Order::By(Vec::new()),
            Some(OrderConfig::One(text)) if text.eq_ignore_ascii_case("none") => Order::None,
            Some(OrderConfig::One(text)) => Order::By(vec![OrderPart::Text(text).into_column()]),
            Some(OrderConfig::Several(parts)) => {
                Order::By(parts.into_iter().map(OrderPart::into_column).collect())
            }
        };
        let on_complete = match self.on_complete {
            OnCompleteConfig::Keep => OnComplete::Keep,
            OnCompleteConfig::Delete => OnComplete::Delete,
            OnCompleteConfig::Archive(archive) => OnComplete::Archive(archive),
            OnCompleteConfig::Recur(every) => OnComplete::Recur(every),
        };
        if let OnComplete::Archive(archive) = &on_complete {
            names.push((at("on_complete.archive"), archive));
            if archive.eq_ignore_ascii_case(&table) {
                return Err(Problem::new(
                    at("on_complete.archive"),
                    "is the queue's own table",
                ));
            }
        }
        names.extend(key.iter().map(|name| (at("key"), name)));
        names.extend(
            self.columns
                .iter()
                .flatten()
                .map(|name| (at("columns"), name)),
        );
        for (key, name) in names {
            check_name(key, name)?;
        }
        Ok(QueueSpec {
            name: name.to_owned(),
            table,
            key,
            columns: self.columns,
            order,
            lease,
            retry,
            on_complete,
            soft_lock,
            mirror,
            managed,
            filtered_indexes: self.filtered_indexes,
            claim_strategy: match self.claim_strategy {
                ClaimStrategyConfig::SkipLocked => ClaimStrategy::SkipLocked,
                ClaimStrategyConfig::AppLock => ClaimStrategy::AppLock,
            },
        })
    }

    fn lease_bounds(&self, at: &dyn Fn(&str) -> String) -> Result<LeaseBounds, Problem> {
        let [shortest, longest] = LEASE;
        let bounds = [
            (
                "min_lease",
                self.min_lease,
                shortest,
                self.max_lease.min(longest),
            ),
            ("max_lease", self.max_lease, self.min_lease, longest),
            ("lease", self.lease, self.min_lease, self.max_lease),
        ];
        for (key, value, least, most) in bounds {
            if value < least || value > most {
                let [value, least, most] = [value, least, most].map(humantime::format_duration);
                return Err(Problem::new(
                    at(key),
                    format!("{value} is not between {least} and {most}"),
                ));
            }
        }
        Ok(LeaseBounds {
            default: self.lease,
            min: self.min_lease,
            max: self.max_lease,
        })
    }

    fn retry_policy(&self, at: &dyn Fn(&str) -> String) -> Result<RetryPolicy, Problem> {
        let backoff = &self.backoff;
        if !(1.0..=1_000.0).contains(&backoff.factor) {
            return Err(Problem::new(
                at("backoff.factor"),
                format!("{} is not between 1 and 1000", backoff.factor),
            ));
        }
        if !(0.0..=1.0).contains(&backoff.jitter) {
            return Err(Problem::new(
                at("backoff.jitter"),
                format!("{} is not between 0 and 1", backoff.jitter),
            ));
        }
        if backoff.initial > backoff.max {
            return Err(Problem::new(
                at("backoff.initial"),
                "is longer than backoff.max",
            ));
        }
        Ok(RetryPolicy {
            max_attempts: (self.max_attempts > 0).then_some(self.max_attempts),
            backoff: Backoff {
                initial: backoff.initial,
                factor: backoff.factor,
                max: backoff.max,
                jitter: backoff.jitter,
            },
        })
    }

    fn soft_lock_names(&self, at: &dyn Fn(&str) -> String) -> Result<SoftLock, Problem> {
        let mut names = SoftLock::default();
        for (column, name) in &self.soft_lock {
            let key = at(&format!("soft_lock.{column}"));
            let known = SoftLockColumn::ALL
                .into_iter()
                .find(|known| known.default_name() == column);
            let Some(known) = known else {
                let all = SoftLockColumn::ALL
                    .map(SoftLockColumn::default_name)
                    .join(", ");
                return Err(Problem::new(
                    key,
                    format!("is no soft-lock column; they are {all}"),
                ));
            };
            check_name(key.clone(), name)?;
            if names.name(known) != name && names.contains(name) {
                return Err(Problem::new(
                    key,
                    format!("{name:?} is the name of another soft-lock column"),
                ));
            }
            names.rename(known, name.clone());
        }
        Ok(names)
    }

    fn mirrors(&self, at: &dyn Fn(&str) -> String) -> Result<Vec<Mirror>, Problem> {
        let mut mirrors = Vec::new();
        for (state, columns) in &self.mirror {
            let key = at(&format!("mirror.{state}"));
            let Some(known) = State::from_name(state) else {
                let all = State::ALL.map(State::name).join(", ");
                return Err(Problem::new(key, format!("is no state; they are {all}")));
            };
            for (column, value) in columns {
                let key = format!("{key}.{column}");
                check_name(key.clone(), column)?;
                mirrors.push(Mirror {
                    state: known,
                    column: column.clone(),
                    value: mirror_value(key, value)?,
                });
            }
        }
        let of = |state| -> Vec<_> {
            let of_state = mirrors.iter().filter(|mirror| mirror.state == state);
            of_state
                .map(|mirror| (&mirror.column, &mirror.value))
                .collect()
        };
        for state in [State::Completed, State::Dead] {
            if !of(state).is_empty() && of(state) == of(State::Ready) {
                return Err(Problem::new(
                    at(&format!("mirror.{}", state.name())),
                    "is the same as mirror.ready: rows could not be told apart on adoption",
                ));
            }
        }
        Ok(mirrors)
    }

    fn managed_columns(
        &self,
        at: &dyn Fn(&str) -> String,
    ) -> Result<Option<Vec<(String, String)>>, Problem> {
        let Some(columns) = &self.managed else {
            return Ok(None);
        };
        let typed = columns.iter().map(|(name, kind)| {
            let key = at(&format!("managed.{name}"));
            check_name(key.clone(), name)?;
            let kind = kind
                .as_str()
                .filter(|kind| {
                    kind.starts_with(|first: char| first.is_ascii_alphabetic())
                        && kind
                            .chars()
                            .all(|c| c.is_ascii_alphanumeric() || " _(),.'-".contains(c))
                        && !kind.contains("--")
                })
                .ok_or_else(|| {
                    Problem::new(
                        key,
                        "must be a type such as \"text\" or \"decimal(10,2) not null\"",
                    )
                })?;
            Ok((name.clone(), kind.to_owned()))
        });
        typed.collect::<Result<_, _>>().map(Some)
    }
}

fn check_name(key: String, name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.contains('\0') || name.chars().count() > 128 {
        return Err(Problem::new(
            key,
            "a name has 1 to 128 characters, and no NUL",
        ));
    }
    Ok(())
}

fn mirror_value(key: String, value: &toml::Value) -> Result<MirrorValue, Problem> {
    Ok(MirrorValue::Literal(match value {
        toml::Value::String(text) => match text.as_str() {
            "$now" => return Ok(MirrorValue::Now),
            "$worker" => return Ok(MirrorValue::Worker),
            "$null" => Value::Null,
            other => match other.strip_prefix('$') {
                Some(escaped) if escaped.starts_with('$') => Value::Text(escaped.to_owned()),
                Some(_) => {
                    return Err(Problem::new(
                        key,
                        format!(
                            "{other:?} is none of $now, $worker, $null; for such a text write $${}",
                            &other[1..]
                        ),
                    ));
                }
                None => Value::Text(other.to_owned()),
            },
        },
        toml::Value::Integer(int) => Value::Int(*int),
        toml::Value::Boolean(bool) => Value::Bool(*bool),
        toml::Value::Float(double) if double.is_finite() => Value::Double(*double),
        other => {
            let kind = other.type_str();
            return Err(Problem::new(
                key,
                format!("must be text, a number, true or false, and not {kind}"),
            ));
        }
    }))
}
