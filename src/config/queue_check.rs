//! Checks the settings of a queue and turns them into a [`QueueSpec`].

use std::time::Duration;

use lease_broker_model::item_state::{Backoff, RetryPolicy};
use lease_broker_model::queue::{KeepFor, LeaseBounds, OnComplete, Order, QueueSpec};

use super::error::InvalidSetting;
use super::groups::{check_groups, groups, limits};
use super::queue::{
    BackoffConfig, CheckpointConfig, CheckpointLimit, KeepForConfig, Names, QueueConfig,
};
use super::queue_columns::{
    MAX_NAME_CHARACTERS, check_columns, check_name, managed_columns, mirrors, soft_lock_names,
};
use super::range::{MINUTE, check_duration};

/// The range of lease durations that a queue can allow. The API promises it in `lease_broker.proto`.
const MIN_LEASE: Duration = Duration::from_secs(1);
const MAX_LEASE: Duration = Duration::from_secs(12 * 3_600);
/// The largest number of columns of a key.
pub(crate) const MAX_KEY_COLUMNS: usize = 3;
/// The maximum of `enqueue_memory`.
const MAX_ENQUEUE_MEMORY: Duration = Duration::from_secs(366 * 86_400);
/// The longest `recur` of `on_complete`, as the longest delay of an item.
const MAX_RECURRENCE: Duration = Duration::from_secs(366 * 86_400);
/// Size of a checkpoint if the configuration only turns checkpoints on, and the largest size that it can allow.
const DEFAULT_CHECKPOINT_BYTES: usize = 4_096;
const MAX_CHECKPOINT_BYTES: usize = 65_536;

impl QueueConfig {
    /// Refuses settings in `queue_defaults` that describe one particular table.
    pub(super) fn check_defaults(&self) -> Result<(), InvalidSetting> {
        let table_settings = [
            ("table", self.table.is_some()),
            ("key", !matches!(self.key, Names::None)),
            ("columns", self.columns.is_some()),
            ("writable", !self.writable.is_empty()),
            ("group", self.group.is_some()),
            ("max_leases", self.max_leases > 0),
            ("rate", self.rate.is_some()),
            ("managed_columns", self.managed_columns.is_some()),
            ("purge", self.purge.is_some()),
        ];
        match table_settings.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(InvalidSetting::new(
                format!("queue_defaults.{key}"),
                "belongs to one queue; set it in that queue's section",
            )),
            None => Ok(()),
        }
    }

    /// Checks the settings and returns them as the queue `name`. The sizes are those of an item and of a response.
    pub(super) fn into_spec(
        self,
        name: &str,
        (max_item_bytes, max_response_bytes): (usize, usize),
    ) -> Result<QueueSpec, InvalidSetting> {
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARACTERS {
            return Err(InvalidSetting::new(
                format!("queues.{name}"),
                format!("a queue's name must have 1 to {MAX_NAME_CHARACTERS} characters"),
            ));
        }
        if name.trim() != name {
            // A server ignores blanks at the end when it compares names.
            return Err(InvalidSetting::new(
                format!("queues.{name}"),
                "a queue's name must not begin or end with a blank",
            ));
        }
        let key_path = |key: &str| format!("queues.{name}.{key}");
        let lease = self.lease_bounds(&key_path)?;
        let retry = RetryPolicy {
            max_attempts: (self.max_attempts > 0).then_some(self.max_attempts),
            backoff: backoff(&self.backoff, &key_path)?,
        };
        let mirror = mirrors(&self.mirror, &key_path)?;
        let soft_lock = soft_lock_names(&self.soft_lock, &key_path)?;
        let managed_columns = self
            .managed_columns
            .map(|columns| managed_columns(&columns, &key_path));
        let managed_columns = managed_columns.transpose()?;

        let key = self.key.into_list();
        if key.len() > MAX_KEY_COLUMNS {
            return Err(InvalidSetting::new(
                key_path("key"),
                format!("{} columns; a key has at most {MAX_KEY_COLUMNS}", key.len()),
            ));
        }
        let table = self.table.unwrap_or_else(|| name.to_owned());
        let on_complete = OnComplete::from(self.on_complete);
        check_name(key_path("table"), &table)?;
        check_is_not_ours(key_path("table"), &table)?;
        check_on_complete(&on_complete, &table, &key_path)?;
        for column in &key {
            check_name(key_path("key"), column)?;
        }
        for column in self.columns.iter().flatten() {
            check_name(key_path("columns"), column)?;
        }
        for column in &self.filterable {
            check_name(key_path("filterable"), column)?;
        }
        let enqueue_memory = self.enqueue_memory;
        check_duration(
            key_path("enqueue_memory"),
            enqueue_memory,
            MINUTE,
            MAX_ENQUEUE_MEMORY,
        )?;
        let allows_purge = self.purge.unwrap_or(managed_columns.is_some());
        let keep_for = keep_for(self.keep_for, &on_complete, allows_purge, &key_path)?;
        if self.completed_index && !self.filtered_indexes {
            return Err(InvalidSetting::new(
                key_path("completed_index"),
                "needs filtered_indexes = true: without a filter the index would hold all rows",
            ));
        }
        let spec = QueueSpec {
            name: name.to_owned(),
            table,
            key,
            columns: self.columns,
            order: self.order.map_or(Order::By(Vec::new()), Order::from),
            groups: groups(self.group, &key_path)?,
            limits: limits(self.max_leases, self.rate, &key_path)?,
            lease,
            retry,
            on_complete,
            soft_lock,
            writable: self.writable,
            filterable: self.filterable,
            max_checkpoint_bytes: max_checkpoint_bytes(self.checkpoint, &key_path)?,
            mirror,
            managed_columns,
            filtered_indexes: self.filtered_indexes,
            completed_index: self.completed_index,
            claim_strategy: self.claim_strategy,
            max_lease_age: (!self.max_lease_age.is_zero()).then_some(self.max_lease_age),
            max_item_bytes,
            max_response_bytes,
            enqueue_memory,
            keep_for,
            allows_purge,
        };
        check_columns(&spec, &key_path)?;
        check_groups(&spec, &key_path)?;
        Ok(spec)
    }

    fn lease_bounds(
        &self,
        key_path: &dyn Fn(&str) -> String,
    ) -> Result<LeaseBounds, InvalidSetting> {
        let (default, min, max) = (
            self.lease_duration,
            self.min_lease_duration,
            self.max_lease_duration,
        );
        let max_key = key_path("max_lease_duration");
        check_duration(max_key.clone(), max, MIN_LEASE, MAX_LEASE)?;
        check_duration(key_path("min_lease_duration"), min, MIN_LEASE, max)
            .map_err(|invalid| invalid.in_conflict_with(max_key))?;
        check_duration(key_path("lease_duration"), default, min, max).map_err(|invalid| {
            let limit = if default < min {
                "min_lease_duration"
            } else {
                "max_lease_duration"
            };
            invalid.in_conflict_with(key_path(limit))
        })?;
        Ok(LeaseBounds { default, min, max })
    }
}

/// Checks the effect of a completion on the rows of `table`.
fn check_on_complete(
    on_complete: &OnComplete,
    table: &str,
    key_path: &dyn Fn(&str) -> String,
) -> Result<(), InvalidSetting> {
    match on_complete {
        OnComplete::Archive(archive) => {
            let path = key_path("on_complete.archive");
            check_is_not_ours(path.clone(), archive)?;
            if archive.eq_ignore_ascii_case(table) {
                let problem = "is the queue's own table; name another table";
                return Err(InvalidSetting::new(path, problem));
            }
            check_name(path, archive)
        }
        OnComplete::Recur(delay) => {
            let path = key_path("on_complete.recur");
            check_duration(path, *delay, Duration::ZERO, MAX_RECURRENCE)
        }
        _ => Ok(()),
    }
}

/// The range of the ages in `keep_for`. A row must stay longer than a worker needs to send a completion again.
const MIN_AGE: Duration = MINUTE;
const MAX_AGE: Duration = Duration::from_secs(10_000 * 86_400);

fn keep_for(
    config: KeepForConfig,
    on_complete: &OnComplete,
    allows_purge: bool,
    key_path: &dyn Fn(&str) -> String,
) -> Result<KeepFor, InvalidSetting> {
    for (key, age) in [
        ("keep_for.completed", config.completed),
        ("keep_for.dead", config.dead),
        ("keep_for.archive", config.archive),
    ] {
        let Some(age) = age else { continue };
        check_duration(key_path(key), age, MIN_AGE, MAX_AGE)?;
        if !allows_purge {
            return Err(InvalidSetting::new(
                key_path(key),
                "deletes rows of a table that the broker did not create; set purge = true in the queue's section to allow it",
            ));
        }
    }
    if config.archive.is_some() && !matches!(on_complete, OnComplete::Archive(_)) {
        return Err(InvalidSetting::new(
            key_path("keep_for.archive"),
            "the queue has no archive; set on_complete = { archive = \"Other_Table\" } or remove the setting",
        ));
    }
    Ok(KeepFor {
        completed: config.completed,
        dead: config.dead,
        archive: config.archive,
    })
}

fn max_checkpoint_bytes(
    config: CheckpointConfig,
    key_path: &dyn Fn(&str) -> String,
) -> Result<Option<usize>, InvalidSetting> {
    match config {
        CheckpointConfig::Switch(is_on) => Ok(is_on.then_some(DEFAULT_CHECKPOINT_BYTES)),
        CheckpointConfig::Limit(CheckpointLimit {
            max_bytes: max_bytes @ 1..=MAX_CHECKPOINT_BYTES,
        }) => Ok(Some(max_bytes)),
        CheckpointConfig::Limit(CheckpointLimit { max_bytes }) => {
            Err(InvalidSetting::out_of_range(
                key_path("checkpoint.max_bytes"),
                max_bytes,
                1,
                MAX_CHECKPOINT_BYTES,
            ))
        }
    }
}

fn backoff(
    config: &BackoffConfig,
    key_path: &dyn Fn(&str) -> String,
) -> Result<Backoff, InvalidSetting> {
    for (key, value, min, max) in [
        ("backoff.factor", config.factor, 1.0, 1_000.0),
        ("backoff.jitter", config.jitter, 0.0, 1.0),
    ] {
        if !(min..=max).contains(&value) {
            return Err(InvalidSetting::out_of_range(key_path(key), value, min, max));
        }
    }
    if config.initial > config.max {
        return Err(InvalidSetting::new(
            key_path("backoff.initial"),
            "is longer than backoff.max",
        ));
    }
    Ok(Backoff {
        initial: config.initial,
        factor: config.factor,
        max: config.max,
        jitter: config.jitter,
    })
}

/// Refuses a table of the broker itself. They hold its secret and the state of all queues.
fn check_is_not_ours(key: String, table: &str) -> Result<(), InvalidSetting> {
    let name = table.rsplit('.').next().unwrap_or(table);
    let name = name.trim_start_matches('[').to_ascii_lowercase();
    if name.starts_with("lease_broker_") {
        let reason = "belongs to the broker itself; name another table";
        return Err(InvalidSetting::new(key, reason));
    }
    Ok(())
}
