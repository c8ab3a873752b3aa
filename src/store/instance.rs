//! The broker processes on a database. Each lists itself, so that operators and the other brokers can see it.
//!
//! No broker relies on the list for correctness. A row can be missing, and a row of a process that was killed stays for a day.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::key::hex;
use crate::queue::{QueueSpec, SoftLockColumn};

/// A broker that has not announced itself for this time no longer counts as running. It is three times the interval between two
/// announcements.
pub(super) const LIVE_TIME: Duration = Duration::from_secs(15);
/// The time after which the row of a broker that no longer runs is deleted.
pub(super) const FORGET_TIME: Duration = Duration::from_secs(86_400);
/// The number of hexadecimal digits of a hash. Hashes are compared only to find differences.
const HASH_DIGITS: usize = 16;
/// The format of the texts that are hashed. Raise it if they change. Hashes of different formats are not compared.
const FORMAT: u32 = 1;

/// A broker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The random id of the process.
    pub id: Uuid,
    /// The version of lease-broker.
    pub version: String,
    /// The host and the port that it listens on. At most 300 characters.
    pub address: String,
    /// True if it will stop soon.
    pub draining: bool,
    /// The hashes of each queue's settings, by the queue's name.
    pub settings: BTreeMap<String, SettingsHash>,
}

impl Instance {
    /// Returns the settings as a JSON object.
    pub(super) fn settings_json(&self) -> String {
        serde_json::to_string(&self.settings).unwrap_or_default()
    }

    /// Reads the settings of another broker. A text of an unknown form has no settings.
    pub(super) fn parse_settings(json: &str) -> BTreeMap<String, SettingsHash> {
        serde_json::from_str(json).unwrap_or_default()
    }
}

/// Hashes of the settings of one queue, to compare those of two brokers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsHash {
    format: u32,
    /// The settings that decide how rows are read and written.
    rows: String,
    /// The rules for leases, attempts and retention.
    rules: String,
}

/// The way in which the settings of two brokers for one queue differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingsDifference {
    /// The brokers read or write the rows in different ways.
    Rows,
    /// The brokers have different rules for leases, attempts or retention. The rule of the broker that serves a call counts.
    Rules,
}

impl SettingsHash {
    /// Hashes the settings of a queue. Limits of message sizes and of memory are left out: they may differ.
    pub fn new(queue: &QueueSpec) -> Self {
        let names = SoftLockColumn::ALL.map(|column| queue.soft_lock.name(column));
        let has_checkpoints = queue.max_checkpoint_bytes.is_some();
        let rows = format!(
            "{:?}",
            (
                &queue.table,
                &queue.key,
                &queue.order,
                &queue.on_complete,
                names,
                &queue.mirror,
                queue.claim_strategy,
                has_checkpoints,
            )
        );
        let rules = format!(
            "{:?}",
            (
                queue.lease,
                queue.retry,
                &queue.writable,
                queue.enqueue_memory,
                queue.keep_for,
            )
        );
        let hash = |text: String| hex(&Sha256::digest(text.as_bytes()))[..HASH_DIGITS].to_owned();
        Self {
            format: FORMAT,
            rows: hash(rows),
            rules: hash(rules),
        }
    }

    /// Compares the settings of two brokers. `None`: they are equal, or cannot be compared.
    pub fn difference(&self, other: &Self) -> Option<SettingsDifference> {
        if self.format != other.format {
            None
        } else if self.rows != other.rows {
            Some(SettingsDifference::Rows)
        } else if self.rules != other.rules {
            Some(SettingsDifference::Rules)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Sources};

    fn queue(settings: &str) -> QueueSpec {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.toml");
        let text = format!("[queues.work]\nmanaged_columns = {{ payload = 'text' }}\n{settings}");
        std::fs::write(&file, text).expect("a file");
        let sources = Sources {
            file: Some(file),
            environment: Vec::new(),
            flags: Vec::new(),
        };
        let config: Config = sources.load().expect("a configuration");
        config.queues[0].clone()
    }

    fn difference(one: &str, other: &str) -> Option<SettingsDifference> {
        let [one, other] = [one, other].map(|settings| SettingsHash::new(&queue(settings)));
        one.difference(&other)
    }

    #[test]
    fn settings_that_change_rows_differ() {
        let rows = Some(SettingsDifference::Rows);
        assert_eq!(difference("", "on_complete = 'delete'"), rows);
        assert_eq!(difference("", "order = ['-payload']"), rows);
        assert_eq!(difference("", "table = 'other'"), rows);
    }

    #[test]
    fn rules_differ_and_limits_do_not() {
        let rules = Some(SettingsDifference::Rules);
        assert_eq!(difference("", "max_attempts = 7"), rules);
        assert_eq!(difference("", "lease_duration = '7s'"), rules);
        assert_eq!(difference("", "max_lease_age = '7s'"), None);
    }

    /// Two versions compare their hashes. If this test fails, raise `FORMAT`.
    #[test]
    fn hash_of_the_default_queue_never_changes() {
        let hash = serde_json::to_value(SettingsHash::new(&queue(""))).expect("JSON");
        let expected = serde_json::json!({ "format": 1, "rows": "1db9a52eeb932697", "rules": "98e4bd639a216f9a" });
        assert_eq!(hash, expected);
    }

    #[test]
    fn hashes_of_an_unknown_format_are_not_compared() {
        let own = SettingsHash::new(&queue(""));
        let newer = SettingsHash {
            format: FORMAT + 1,
            rows: String::new(),
            ..own.clone()
        };
        assert_eq!(own.difference(&newer), None);
        assert!(Instance::parse_settings("[1]").is_empty());
    }
}
