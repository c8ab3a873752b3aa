//! The reaper of one queue: a task that ends expired leases and makes delayed items ready when they are due.
//!
//! Every broker runs one per queue. The store makes sure that reapers of several brokers do not disturb each other. The
//! task sleeps until the next due time that it knows of, and at most `reaper.max_interval`, because other brokers lease
//! and delay items too.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_store::{Leases, Problem, QueueIndex, Reaped, StoreError};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clock_watch::ClockWatch;
use super::operation_metrics::OperationMetrics;
use super::steady_clock::SteadyClock;
use super::wakeups::Wakeups;
use crate::config;

/// The shortest sleep between two runs. Leases that expire one shortly after the other are then ended together.
const MIN_SLEEP: Duration = Duration::from_millis(20);
/// The number of queues whose first run is in progress at the same time. The first statements on a connection are slow, because the
/// server has to compile them. If all queues sent theirs at once, each on a new connection, all could time out, again and again.
pub(super) const CONCURRENT_STARTS: usize = 2;

/// The state of a reaper's task.
pub(super) struct Reaper {
    pub(super) store: Arc<dyn Leases>,
    pub(super) queue: QueueIndex,
    /// The queue's name, for the log.
    pub(super) queue_name: String,
    pub(super) config: config::Reaper,
    /// The duration of a lease if the claim names none.
    pub(super) lease_duration: Duration,
    pub(super) wakeups: Arc<Wakeups>,
    pub(super) metrics: Arc<OperationMetrics>,
    pub(super) steady_clock: Arc<SteadyClock>,
    /// The turns of the reapers of all queues until their first run has succeeded.
    pub(super) starts: Arc<Semaphore>,
}

impl Reaper {
    /// Runs the reaper until `stop` is cancelled.
    pub(super) async fn run(self, stop: CancellationToken) {
        let timer = &self.wakeups.reaper_timer;
        let mut has_started = false;
        let mut has_failed = false;
        let mut refused = Vec::new();
        let mut clock = ClockWatch::default();
        while !stop.is_cancelled() {
            let turn = if has_started {
                None
            } else {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    turn = self.starts.acquire() => turn.ok(),
                }
            };
            // The timer is set before the store is asked. Otherwise this would overwrite the due time of a lease that
            // is given in between.
            timer.set(self.config.max_interval);
            let start = Instant::now();
            let counters = self.metrics.queue(self.queue);
            let shortest = counters.shortest_lease.get(start);
            clock.protect(shortest.min(self.lease_duration));
            let latest = clock.latest(start);
            let run = self.store.reap(self.queue, self.config.max_rows, latest);
            match run.await {
                Ok(reaped) => {
                    has_failed = false;
                    self.report_refused(&refused, &reaped.refused);
                    refused.clone_from(&reaped.refused);
                    has_started = true;
                    let ended = reaped.expired.len() + reaped.released.len();
                    let count = ended + reaped.promoted;
                    let more_are_due = count >= self.config.max_rows;
                    if let Some(time) = reaped.time {
                        let end = Instant::now();
                        let clock_step = clock.observe(start, end, time, more_are_due);
                        self.steady_clock
                            .observe(start, end, time, clock_step.is_some());
                        if let Some(millis) = clock_step {
                            self.report_step(millis);
                        }
                    }
                    self.report(&reaped);
                    if more_are_due {
                        // More items may be due: run again without sleeping.
                        continue;
                    }
                    if let Some(next_due) = reaped.next_due {
                        // The store rounds to whole milliseconds. A run that is 1 ms late finds the item due, and a run
                        // that is early does not.
                        let next_due = next_due + Duration::from_millis(1);
                        timer.advance_to(next_due.max(MIN_SLEEP));
                    }
                }
                Err(error) => {
                    // Logged at the first failure only. Otherwise every run would log until the store recovers.
                    counters.set_reaper_error(Some(error.to_string()));
                    if !std::mem::replace(&mut has_failed, true) {
                        let queue = &self.queue_name;
                        let bug = matches!(error, StoreError::Bug(_));
                        tracing::error!(queue, %error, bug, "reaper failed and will try again");
                    }
                }
            }
            drop(turn);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = timer.wait() => {}
            }
        }
    }

    /// Logs and counts a step of the store's clock. `millis`: its length, negative for a step back.
    fn report_step(&self, millis: i64) {
        self.metrics.queue(self.queue).clock_steps.add(1);
        let (queue, seconds) = (&self.queue_name, millis / 1_000);
        if millis > 0 {
            tracing::error!(
                queue,
                seconds,
                "store clock stepped forward; expired leases give their attempts back"
            );
        } else {
            tracing::error!(
                queue,
                seconds,
                "store clock stepped back; leases last longer"
            );
        }
    }

    /// Notes the items that the database did not let a run change. Logs those that were not in `known`, the ones of the run before.
    fn report_refused(&self, known: &[(Key, Problem)], refused: &[(Key, Problem)]) {
        let queue = &self.queue_name;
        for (key, problem) in refused {
            if !known.iter().any(|(known, _)| known == key) {
                tracing::error!(
                    queue,
                    %key,
                    problem = problem.text,
                    "due item stays: the database refuses the end of its lease or delay"
                );
            }
        }
        let error = refused.first().map(|(key, problem)| {
            let others = match refused.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let text = &problem.text;
            format!("the database refuses it for item {key}{others}: {text}")
        });
        self.metrics.queue(self.queue).set_reaper_error(error);
    }

    /// Logs what the run changed, and wakes the claim dispatcher if items have become ready.
    fn report(&self, reaped: &Reaped) {
        let queue = &self.queue_name;
        for expired in &reaped.expired {
            tracing::info!(
                queue,
                key = %expired.lease.key,
                attempt = expired.lease.attempt,
                fence = expired.lease.fence,
                worker = expired.owner,
                state = expired.state.name(),
                "lease expired"
            );
        }
        if !reaped.released.is_empty() {
            let leases = reaped.released.len();
            tracing::info!(queue, leases, "later leases of runs released");
        }
        if reaped.promoted > 0 {
            tracing::debug!(queue, items = reaped.promoted, "delayed items are ready");
        }
        if !reaped.expired.is_empty() || !reaped.released.is_empty() || reaped.promoted > 0 {
            self.wakeups.items_ready.notify_one();
        }
    }
}
