//! The broker processes on a database. Each lists itself, so that operators and the other brokers can see it.
//!
//! No running broker relies on the list for correctness. A row can be missing, and a row of a process that was killed stays for a day.
//! A broker that starts does not change the indexes of a managed table against the rule of a broker that is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lease_broker_model::key::hex;
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::error::StoreError;

/// A broker that has not announced itself for this time no longer counts as running. It is three times the interval between two
/// announcements. Nor does one that was seen this far in the future: a clock that was ahead has been set back since, and a broker that
/// runs announces itself again within 5 s.
pub(super) const LIVE_TIME: Duration = Duration::from_secs(15);
/// The time after which the row of a broker that no longer runs is deleted.
pub(super) const FORGET_TIME: Duration = Duration::from_secs(86_400);
/// The number of hexadecimal digits of a hash. Hashes are compared only to find differences.
const HASH_DIGITS: usize = 16;
/// The format of the texts that are hashed. Raise it if they change. Hashes of different formats are not compared.
const FORMAT: u32 = 2;

/// A broker process.
#[derive(Clone, Debug, PartialEq)]
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
    /// The rates of its events, by the queue's name. A broker that runs has an entry for each of its queues. Empty and draining: it has
    /// ended.
    pub activity: BTreeMap<String, Activity>,
}

/// The rates of a broker's events on one queue, per second, over about 30 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// Leases given by claims.
    pub claimed: f64,
    /// Items completed.
    pub completed: f64,
    /// Items failed by workers.
    pub failed: f64,
    /// Leases that have expired.
    pub expired: f64,
    /// Items added by clients.
    pub enqueued: f64,
    /// Leases released.
    pub released: f64,
    /// Milliseconds that claimed items had been ready. Divided by `claimed`, it is the mean wait of an item.
    pub waited: f64,
    /// Claims that wait for items now. It is no rate.
    pub waiting: u64,
}

impl std::ops::AddAssign for Activity {
    fn add_assign(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.completed += other.completed;
        self.failed += other.failed;
        self.expired += other.expired;
        self.enqueued += other.enqueued;
        self.released += other.released;
        self.waited += other.waited;
        self.waiting += other.waiting;
    }
}

/// A row of the list of brokers.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedBroker {
    /// The process, as it has announced itself last. It is draining if it has stopped, or will stop soon.
    pub instance: Instance,
    /// The time since it was last seen.
    pub silence: Duration,
    /// How far in the future it was last seen. Not zero: the clock of the database went back.
    pub ahead: Duration,
    /// The time at which it started, by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub start_time: i64,
}

impl ListedBroker {
    /// Returns a broker that was seen this many milliseconds ago. Negative: in the future.
    pub(super) fn seen_ago(instance: Instance, start_time: i64, millis: i64) -> Self {
        Self {
            instance,
            silence: Duration::from_millis(millis.max(0).unsigned_abs()),
            ahead: Duration::from_millis(millis.min(0).unsigned_abs()),
            start_time,
        }
    }

    /// Returns whether it was seen lately, and has not said that it has ended.
    pub fn is_live(&self) -> bool {
        let has_ended = self.instance.draining && self.instance.activity.is_empty();
        !has_ended && self.silence < LIVE_TIME && self.ahead < LIVE_TIME
    }
}

/// The brokers that were seen on a database within the last day.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerList {
    /// The clock of the database, in milliseconds since 1970.
    pub now: i64,
    /// Those that were seen last come first.
    pub brokers: Vec<ListedBroker>,
}

impl BrokerList {
    /// Returns the brokers that run and will not stop soon.
    pub(super) fn running(&self) -> impl Iterator<Item = &ListedBroker> {
        let brokers = self.brokers.iter();
        brokers.filter(|broker| broker.is_live() && !broker.instance.draining)
    }

    /// Returns the queues that brokers have served, that none serves now, and that are not configured here. Nobody works on their items,
    /// and leases that are left there do not expire.
    pub fn left_queues(&self, configured: &[QueueSpec]) -> BTreeSet<&str> {
        let mut left = served_queues(&self.brokers);
        for served in served_queues(self.running()) {
            left.remove(served);
        }
        for queue in configured {
            left.remove(&*queue.name);
        }
        left
    }
}

/// Returns the queues that these brokers serve.
pub(super) fn served_queues<'a>(
    brokers: impl IntoIterator<Item = &'a ListedBroker>,
) -> BTreeSet<&'a str> {
    let served = brokers
        .into_iter()
        .flat_map(|broker| broker.instance.settings.keys());
    served.map(String::as_str).collect()
}

impl Instance {
    /// Returns the settings as a JSON object.
    pub(super) fn settings_json(&self) -> String {
        serde_json::to_string(&self.settings).unwrap_or_default()
    }

    /// Returns the activity as a JSON object.
    pub(super) fn activity_json(&self) -> String {
        serde_json::to_string(&self.activity).unwrap_or_default()
    }

    /// Reads the activity of another broker. A text of an unknown form has none.
    pub(super) fn parse_activity(json: &str) -> BTreeMap<String, Activity> {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// Reads the settings of another broker. A text of an unknown form has no settings.
    pub(super) fn parse_settings(json: &str) -> BTreeMap<String, SettingsHash> {
        serde_json::from_str(json).unwrap_or_default()
    }
}

/// Hashes of the settings of one queue, to compare those of two brokers, and the rule of its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsHash {
    format: u32,
    /// The column of the state with its table. Queues with the same one share rows.
    #[serde(default)]
    state: String,
    /// The rule of the groups.
    #[serde(default)]
    groups: String,
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
            state: state_column(queue),
            groups: queue.group_policy(),
            rows: hash(rows),
            rules: hash(rules),
        }
    }

    /// Compares the settings of two brokers. `None`: they are equal, or cannot be compared.
    pub fn difference(&self, other: &Self) -> Option<SettingsDifference> {
        if self.format != other.format {
            None
        } else if self.rows != other.rows || self.groups != other.groups {
            Some(SettingsDifference::Rows)
        } else if self.rules != other.rules {
            Some(SettingsDifference::Rules)
        } else {
            None
        }
    }
}

/// Returns the name of the column of the state with the name of its table, in lower case.
fn state_column(queue: &QueueSpec) -> String {
    let state = queue.soft_lock.name(SoftLockColumn::State);
    format!("{}.{state}", queue.table).to_lowercase()
}

/// Checks that no running broker serves the rows of a queue with another rule of groups. The indexes of a table fit one rule.
///
/// # Errors
/// [`StoreError::Misconfigured`] with both rules.
pub(super) fn refuse_other_rule(queue: &QueueSpec, list: &BrokerList) -> Result<(), StoreError> {
    let (state, own) = (state_column(queue), queue.group_policy());
    for broker in list.running() {
        let mut queues = broker.instance.settings.values();
        if let Some(other) = queues.find(|other| other.state == state && other.groups != own) {
            return Err(StoreError::Misconfigured(format!(
                "the groups of queue {:?} are {own:?} in this configuration, and the broker at {} serves the table {:?} with {:?}: give \
                 both the same setting, or stop that broker first (one that was killed counts as running for {} s)",
                queue.name,
                broker.instance.address,
                queue.table,
                other.groups,
                LIVE_TIME.as_secs()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_an_unknown_format_are_not_compared() {
        let own = SettingsHash {
            format: FORMAT,
            state: String::new(),
            groups: String::new(),
            rows: "1".to_owned(),
            rules: "1".to_owned(),
        };
        let newer = SettingsHash {
            format: FORMAT + 1,
            rows: String::new(),
            ..own.clone()
        };
        assert_eq!(own.difference(&newer), None);
        assert!(Instance::parse_settings("[1]").is_empty());
    }
}
