//! A worker of a run: claims, perhaps extends, settles, and claims again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::course::Course;
use super::latency::Rpc;
use super::layer::{Ending, Layer, Place};
use super::ledger::Settled;
use super::pace::Pace;
use super::shares::Shares;
use crate::cli::CommandError;

/// How long to leave a store alone that has nothing ready, while other workers' items may come back.
const LULL: Duration = Duration::from_millis(10);

/// One worker.
pub(super) struct Worker<L: Layer> {
    pub(super) layer: L,
    pub(super) place: Place,
    pub(super) course: Arc<Course>,
    pub(super) shares: Shares,
    pub(super) pace: Option<Pace>,
}

impl<L: Layer> Worker<L> {
    /// Works until the run is over.
    pub(super) async fn work(mut self) -> Result<(), CommandError> {
        let course = self.course.clone();
        let (stop, done) = (&course.stop, course.ledger.done());
        while !self.is_over() {
            let due = match &mut self.pace {
                None => Instant::now(),
                Some(pace) => match stop.run_until_cancelled(pace.next(&course.lateness)).await {
                    Some(due) => due,
                    None => break,
                },
            };
            let claim = self.layer.claim(course.load.batch);
            let leases = if course.load.terms.wait.is_some() {
                // The broker gives back what it would have got.
                tokio::select! {
                    leases = claim => leases?,
                    () = stop.cancelled() => break,
                    () = done.cancelled() => break,
                }
            } else {
                claim.await?
            };
            self.record(Rpc::ClaimBatch, due);
            if leases.is_empty() {
                course.ledger.nothing_claimed();
                if course.load.goal().is_some() {
                    let _ = tokio::time::timeout(LULL, done.cancelled()).await;
                }
                continue;
            }
            let mut leases = leases;
            while !leases.is_empty() {
                leases = self.process(&leases).await?;
            }
        }
        Ok(())
    }

    /// Processes a batch, and returns the next one if its completion claims that.
    async fn process(&mut self, leases: &[L::Lease]) -> Result<Vec<L::Lease>, CommandError> {
        for _ in 0..self.course.load.mix.heartbeats {
            let start = Instant::now();
            let lost = self.layer.heartbeat(leases).await?;
            self.record(Rpc::Heartbeat, start);
            let extended = leases.len() as u64 - lost;
            self.course.ledger.extend(extended, lost);
        }
        let [fail, release] = self.shares.of(leases.len());
        let (failed, rest) = leases.split_at(fail);
        let (released, completed) = rest.split_at(release);
        self.settle(Ending::Fail, Rpc::Fail, failed).await?;
        self.settle(Ending::Release, Rpc::Release, released).await?;
        if self.course.load.next && !completed.is_empty() && !self.is_over() {
            return self.complete_and_claim(completed).await;
        }
        self.settle(Ending::Complete, Rpc::Complete, completed)
            .await?;
        Ok(Vec::new())
    }

    /// Returns whether nothing more is to be claimed.
    fn is_over(&self) -> bool {
        self.course.stop.is_cancelled() || self.course.ledger.done().is_cancelled()
    }

    async fn complete_and_claim(
        &mut self,
        leases: &[L::Lease],
    ) -> Result<Vec<L::Lease>, CommandError> {
        let start = Instant::now();
        let both = self
            .layer
            .complete_and_claim(leases, self.course.load.batch);
        let (settled, next) = both.await?;
        self.record(Rpc::Complete, start);
        self.note(leases, settled);
        Ok(next)
    }

    /// Writes down what became of leases.
    fn note(&self, leases: &[L::Lease], settled: Vec<Settled>) {
        let keys = leases.iter().map(L::key);
        self.course
            .ledger
            .settle(self.place.queue, keys.zip(settled));
    }

    async fn settle(
        &mut self,
        ending: Ending,
        rpc: Rpc,
        leases: &[L::Lease],
    ) -> Result<(), CommandError> {
        if leases.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let settled: Vec<Settled> = self.layer.settle(ending, leases).await?;
        self.record(rpc, start);
        self.note(leases, settled);
        Ok(())
    }

    fn record(&self, rpc: Rpc, since: Instant) {
        self.course.record(self.place.worker, rpc, since);
    }
}
