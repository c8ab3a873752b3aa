//! A worker of the load: claims a batch, sends heartbeats if asked to, settles the batch, and claims again.
//!
//! With `--rate`, claims are due at fixed times, however slow the broker is. A worker that is still busy sends its
//! claim late, and the delay is part of the claim's latency.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, Interval, interval_at};

use crate::args::LoadArgs;
use crate::client::{Client, Leases};
use crate::item_ledger::Ending;
use crate::result::Result;

/// Pause after a claim without items, while items of other workers can become ready again.
const EMPTY_CLAIM_PAUSE: Duration = Duration::from_millis(10);

/// A claim that starts more than this after its due time counts as late.
const LATE_AFTER: Duration = Duration::from_millis(2);

/// One worker.
pub(crate) struct Worker {
    client: Client,
    endings: Endings,
    /// The due times of the claims. `None`: the worker claims again as soon as it has settled its batch.
    schedule: Option<Interval>,
}

impl Worker {
    /// Creates the worker with this number.
    pub(crate) fn new(client: Client, number: usize, start: Instant) -> Self {
        Self {
            endings: Endings::new(&client.state.load, number),
            schedule: schedule(&client.state.load, number, start),
            client,
        }
    }

    /// Works until the run ends or its goal is reached.
    pub(crate) async fn run(mut self) -> Result<()> {
        let state = self.client.state.clone();
        let (load, ledger, stop) = (&state.load, &state.ledger, &state.stop);
        let goal_reached = ledger.goal_reached();
        while !state.is_over() {
            let start = match &mut self.schedule {
                None => Instant::now(),
                Some(schedule) => match stop.run_until_cancelled(schedule.tick()).await {
                    Some(due) => due,
                    None => break,
                },
            };
            if self.schedule.is_some() {
                ledger.count(|counts| {
                    counts.scheduled_claims += 1;
                    counts.late_claims += u64::from(start.elapsed() > LATE_AFTER);
                });
            }
            let claim = self.client.claim(load.batch, load.wait, start);
            let mut leases = if load.wait.is_some() {
                // A waiting claim is abandoned. The broker releases leases that it can no longer deliver. The claim is
                // polled last: the broker may close a connection on which many claims were abandoned at once.
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = goal_reached.cancelled() => break,
                    leases = claim => leases?,
                }
            } else {
                claim.await?
            };
            if leases.is_empty() && load.goal().is_some() {
                let _ = tokio::time::timeout(EMPTY_CLAIM_PAUSE, goal_reached.cancelled()).await;
            }
            while !leases.is_empty() {
                leases = self.process(leases).await?;
            }
        }
        Ok(())
    }

    /// Processes a batch. With `--next`, returns the next batch, which its completion has claimed.
    async fn process(&mut self, leases: Leases) -> Result<Leases> {
        let state = self.client.state.clone();
        for _ in 0..state.load.heartbeats {
            self.client.heartbeat(&leases).await?;
        }
        let mut by_ending = [const { Vec::new() }; 3];
        for lease in leases {
            by_ending[self.endings.draw() as usize].push(lease);
        }
        let [completed, failed, released] = by_ending;
        self.client.settle(Ending::Fail, failed, None).await?;
        self.client.settle(Ending::Release, released, None).await?;
        let next = (state.load.next && !state.is_over()).then_some(state.load.batch);
        self.client.settle(Ending::Complete, completed, next).await
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
            fail: load.fail_ratio,
            release: load.release_ratio,
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
