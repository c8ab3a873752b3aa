//! The list of brokers on the database: a task that announces this one and compares its settings with those of the others.
//!
//! The broker that serves a call applies its own settings. If two brokers have different ones, the results depend on the broker
//! that a call reaches. So each difference is logged, and counted in the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{Instance, SettingsDifference, SettingsHash, StoreError, Upkeep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::activity::{ActivityHistory, ActivityMeter};
use super::store_health::StoreHealth;

/// The time between two announcements.
const INTERVAL: Duration = Duration::from_secs(5);
/// The maximum time for the last announcement, which says that the broker stops.
const LAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the task.
pub(super) struct Instances {
    store: Arc<dyn Upkeep>,
    health: Arc<StoreHealth>,
    own: Instance,
    /// Cancelled when the broker will stop soon.
    draining: CancellationToken,
    /// The number of queues whose settings differ from those of another broker.
    differing_queues: Arc<AtomicUsize>,
    /// Whether a broker of another version runs.
    other_version_runs: Arc<AtomicBool>,
    /// The differences that were logged.
    logged: BTreeSet<(Uuid, String, SettingsDifference)>,
    last_run_failed: bool,
    activity: ActivityMeter,
    history: Arc<ActivityHistory>,
}

/// The identity of a broker process in the list of brokers.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The random id of the process.
    pub id: Uuid,
    /// The host and the port that it listens on. At most 300 characters.
    pub address: String,
}

impl Instances {
    pub(super) fn new<'a>(
        store: Arc<dyn Upkeep>,
        health: Arc<StoreHealth>,
        identity: Identity,
        queues: impl Iterator<Item = &'a QueueSpec>,
        draining: CancellationToken,
        (differing_queues, other_version_runs): (Arc<AtomicUsize>, Arc<AtomicBool>),
        (activity, history): (ActivityMeter, Arc<ActivityHistory>),
    ) -> Self {
        let settings = queues.map(|queue| (queue.name.clone(), SettingsHash::new(queue)));
        Self {
            store,
            health,
            own: Instance {
                id: identity.id,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                address: identity.address,
                draining: false,
                settings: settings.collect(),
                activity: BTreeMap::new(),
            },
            draining,
            differing_queues,
            other_version_runs,
            logged: BTreeSet::new(),
            last_run_failed: false,
            activity,
            history,
        }
    }

    /// Runs the task until `stop` is cancelled. Then the database shows that this broker stops, so that it no longer
    /// counts as running.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                self.own.draining = self.draining.is_cancelled();
                self.own.activity = self.activity.measure();
                match self.announce().await {
                    Ok(others) => {
                        self.last_run_failed = false;
                        let all = others.iter().chain([&self.own]);
                        self.history.add(all.map(|broker| &broker.activity));
                        self.compare(&others);
                    }
                    Err(error) => self.report(&error),
                }
                let interval = tokio::time::sleep(INTERVAL);
                if self.own.draining {
                    interval.await;
                } else {
                    // A change to draining is announced immediately.
                    self.draining.run_until_cancelled(interval).await;
                }
            }
        })
        .await;
        self.own.draining = true;
        // Its waiting claims and rates have ended with it, and it no longer counts as live.
        self.own.activity.clear();
        let last = self.announce();
        // If it fails, the broker counts as running for some seconds.
        let _ = tokio::time::timeout(LAST_TIMEOUT, last).await;
    }

    async fn announce(&self) -> Result<Vec<Instance>, StoreError> {
        let announced = self.store.announce(self.own.clone().into());
        self.health.fail_fast(announced).await
    }

    /// Logs the first of several failures.
    fn report(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.last_run_failed, true) {
            let bug = matches!(error, StoreError::Bug(_));
            tracing::warn!(%error, bug, "broker not listed in lease_broker_instance; trying again");
        }
    }

    fn compare(&mut self, others: &[Instance]) {
        let mut versions = others.iter().map(|other| &other.version);
        let other_version_runs = versions.any(|version| *version != self.own.version);
        self.other_version_runs
            .store(other_version_runs, Ordering::Relaxed);
        let mut differing = BTreeSet::new();
        let mut found = BTreeSet::new();
        // A broker that stops, or that has stopped, gives no more leases. Its settings end with it.
        for other in others.iter().filter(|other| !other.draining) {
            for (queue, settings) in &self.own.settings {
                let Some(theirs) = other.settings.get(queue) else {
                    continue;
                };
                if let Some(difference) = settings.difference(theirs) {
                    differing.insert(queue);
                    found.insert((other.id, queue.clone(), difference));
                    let is_new = !self.logged.contains(&(other.id, queue.clone(), difference));
                    if is_new {
                        log(queue, other, difference);
                    }
                }
            }
        }
        self.differing_queues
            .store(differing.len(), Ordering::Relaxed);
        self.logged = found;
    }
}

fn log(queue: &str, other: &Instance, difference: SettingsDifference) {
    let Instance {
        address, version, ..
    } = other;
    match difference {
        SettingsDifference::Rows => tracing::error!(
            queue,
            address,
            version,
            "another broker reads or writes the rows of the queue in another way: compare table, key, order, group, on_complete, \
             soft_lock, mirror, checkpoint and claim_strategy"
        ),
        SettingsDifference::Rules => tracing::warn!(
            queue,
            address,
            version,
            "another broker has other rules for the queue: compare leases, attempts, backoff, writable, enqueue_memory and \
             keep_for"
        ),
    }
}
