//! A worker of the load: claims a batch, sends heartbeats if asked to, settles the batch, and claims again.
//!
//! With `--rate`, claims are due at fixed times, however slow the broker is. A worker that is still busy sends its
//! claim late, and the delay is part of the claim's latency.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, Interval, interval_at};

use super::args::LoadArgs;
use super::client::{Ending, GrpcClient, Leases, WorkerId};
use super::latency::Rpc;
use super::result::Result;
use super::run_state::RunState;

/// Pause after a claim without items, while items of other workers can become ready again.
const EMPTY_CLAIM_PAUSE: Duration = Duration::from_millis(10);

/// A claim that starts more than this after its due time counts as late.
const LATE_AFTER: Duration = Duration::from_millis(2);

/// One worker.
pub(super) struct Worker {
    api: GrpcClient,
    id: WorkerId,
    state: Arc<RunState>,
    endings: Endings,
    /// The due times of the claims. `None`: the worker claims again as soon as it has settled its batch.
    schedule: Option<Interval>,
}

impl Worker {
    pub(super) fn new(api: GrpcClient, id: WorkerId, state: Arc<RunState>, start: Instant) -> Self {
        Self {
            endings: Endings::new(&state.load, id.worker),
            schedule: schedule(&state.load, id.worker, start),
            api,
            id,
            state,
        }
    }

    /// Works until the run ends or its goal is reached.
    pub(super) async fn run(mut self) -> Result<()> {
        let state = self.state.clone();
        let (stop, goal_reached) = (&state.stop, state.ledger.goal_reached());
        while !self.is_over() {
            let start = match &mut self.schedule {
                None => Instant::now(),
                Some(schedule) => match stop.run_until_cancelled(schedule.tick()).await {
                    Some(due) => due,
                    None => break,
                },
            };
            if self.schedule.is_some() {
                let is_late = start.elapsed() > LATE_AFTER;
                state.ledger.record_scheduled_claim(is_late);
            }
            let claim = self.api.claim(state.load.batch, state.load.wait);
            let mut leases = if state.load.wait.is_some() {
                // A waiting claim is abandoned. The broker releases leases that it can no longer deliver.
                tokio::select! {
                    leases = claim => leases?,
                    () = stop.cancelled() => break,
                    () = goal_reached.cancelled() => break,
                }
            } else {
                claim.await?
            };
            self.record(Rpc::ClaimBatch, start);
            if leases.is_empty() {
                state.ledger.record_empty_claim();
                if state.load.goal().is_some() {
                    let _ = tokio::time::timeout(EMPTY_CLAIM_PAUSE, goal_reached.cancelled()).await;
                }
            }
            while !leases.is_empty() {
                leases = self.process(leases).await?;
            }
        }
        Ok(())
    }

    /// Processes a batch. With `--next`, returns the next batch, which its completion has claimed.
    async fn process(&mut self, leases: Leases) -> Result<Leases> {
        for _ in 0..self.state.load.heartbeats {
            let start = Instant::now();
            let lost = self.api.heartbeat(&leases).await?;
            self.record(Rpc::Heartbeat, start);
            let extended = leases.len() as u64 - lost;
            self.state.ledger.record_heartbeat(extended, lost);
        }
        let mut by_ending = [const { Vec::new() }; 3];
        for lease in leases {
            by_ending[self.endings.draw() as usize].push(lease);
        }
        let [completed, failed, released] = by_ending;
        self.settle(Ending::Fail, failed, None).await?;
        self.settle(Ending::Release, released, None).await?;
        let claims_next = self.state.load.next && !self.is_over();
        let next = claims_next.then_some(self.state.load.batch);
        self.settle(Ending::Complete, completed, next).await
    }

    async fn settle(
        &mut self,
        ending: Ending,
        leases: Leases,
        next: Option<usize>,
    ) -> Result<Leases> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, keys) = leases.into_iter().unzip();
        let start = Instant::now();
        let (results, next_leases) = self.api.settle(ending, ids, next).await?;
        self.record(ending.into(), start);
        let ledger = &self.state.ledger;
        ledger.record_settled(self.id.queue, ending, keys, &results);
        Ok(next_leases)
    }

    /// Returns whether the worker must not claim any more.
    fn is_over(&self) -> bool {
        self.state.stop.is_cancelled() || self.state.ledger.goal_reached().is_cancelled()
    }

    fn record(&self, rpc: Rpc, start: Instant) {
        self.state.record_call(rpc, start);
    }
}

/// Returns the due times of a worker's claims. The workers take turns, and together claim `--rate` items per second. A
/// tick that is late is not skipped.
#[expect(clippy::cast_precision_loss, reason = "numbers below a million")]
fn schedule(load: &LoadArgs, worker: usize, start: Instant) -> Option<Interval> {
    let interval = Duration::from_secs_f64((load.workers * load.batch) as f64 / load.rate?);
    let offset = interval.mul_f64(worker as f64 / load.workers as f64);
    Some(interval_at(start + offset, interval))
}

/// Random choice between completion, failure and release, by the shares of the load. The seed is the worker's number.
struct Endings {
    fail: f64,
    release: f64,
    rng: SmallRng,
}

impl Endings {
    fn new(load: &LoadArgs, worker: usize) -> Self {
        Self {
            fail: load.fail,
            release: load.release,
            rng: SmallRng::seed_from_u64(worker as u64),
        }
    }

    fn draw(&mut self) -> Ending {
        let number: f64 = self.rng.random();
        if number < self.fail {
            Ending::Fail
        } else if number < self.fail + self.release {
            Ending::Release
        } else {
            Ending::Complete
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws for 100,000 items, and returns how many were failed and how many released.
    fn draw(fail: f64, release: f64) -> [usize; 2] {
        let rng = SmallRng::seed_from_u64(3);
        let mut endings = Endings { fail, release, rng };
        let drawn: Vec<Ending> = (0..100_000).map(|_| endings.draw()).collect();
        [Ending::Fail, Ending::Release]
            .map(|ending| drawn.iter().filter(|drawn| **drawn == ending).count())
    }

    #[test]
    fn endings_follow_the_shares() {
        let [failed, released] = draw(0.1, 0.25);
        assert!(failed.abs_diff(10_000) <= 500, "{failed}");
        assert!(released.abs_diff(25_000) <= 500, "{released}");
    }

    #[test]
    fn a_share_of_one_or_zero_is_exact() {
        assert_eq!(draw(1.0, 0.0), [100_000, 0]);
        assert_eq!(draw(0.0, 0.0), [0, 0]);
    }
}
