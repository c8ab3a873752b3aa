//! A worker that holds leases: claims its part of them, then extends each batch when a third of its time has passed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::course::Course;
use super::latency::Rpc;
use super::layer::{Ending, Layer, Place};
use super::ledger::Settled;
use crate::cli::CommandError;

/// How long to wait for items that producers have added and a claim did not find.
const LULL: Duration = Duration::from_millis(10);

/// One worker.
pub(super) struct Holder<L: Layer> {
    layer: L,
    place: Place,
    course: Arc<Course>,
    /// Leases to claim still.
    wanted: u64,
    /// The batches, the next to extend first.
    held: VecDeque<(Instant, Vec<L::Lease>)>,
    every: Duration,
}

impl<L: Layer> Holder<L> {
    pub(super) fn new(layer: L, place: Place, course: Arc<Course>, wanted: u64) -> Self {
        let lease = course.load.terms.lease.unwrap_or_default();
        Self {
            layer,
            place,
            course,
            wanted,
            held: VecDeque::new(),
            every: lease / 3,
        }
    }

    /// Holds the leases until the run is over, makes sure that they are held still, and gives them back.
    pub(super) async fn hold(mut self) -> Result<(), CommandError> {
        let stop = self.course.stop.clone();
        while !stop.is_cancelled() {
            match self.held.front() {
                Some((due, _)) if *due <= Instant::now() => self.extend_first().await?,
                _ if self.wanted > 0 => self.claim().await?,
                None => break,
                Some((due, _)) => {
                    let due = *due;
                    stop.run_until_cancelled(tokio::time::sleep_until(due))
                        .await;
                }
            }
        }
        for _ in 0..self.held.len() {
            self.extend_first().await?;
        }
        for (_, leases) in std::mem::take(&mut self.held) {
            let settled = self.layer.settle(Ending::Release, &leases).await?;
            self.book(&leases, settled);
        }
        Ok(())
    }

    async fn claim(&mut self) -> Result<(), CommandError> {
        let batch = usize::try_from(self.wanted).unwrap_or(usize::MAX);
        let start = Instant::now();
        let leases = self.layer.claim(batch.min(self.course.load.batch)).await?;
        self.course
            .record(self.place.worker, Rpc::ClaimBatch, start);
        if leases.is_empty() {
            self.course.ledger.nothing_claimed();
            tokio::time::sleep(LULL).await;
            return Ok(());
        }
        self.wanted = self.wanted.saturating_sub(leases.len() as u64);
        self.course.ledger.hold(leases.len() as u64);
        // Extended for the first time at any moment, so that the calls spread over time from then on.
        let first = self.every.mul_f64(rand::random());
        let due = Instant::now() + first;
        let place = self.held.partition_point(|(other, _)| *other <= due);
        self.held.insert(place, (due, leases));
        Ok(())
    }

    async fn extend_first(&mut self) -> Result<(), CommandError> {
        let Some((due, leases)) = self.held.pop_front() else {
            return Ok(());
        };
        let start = Instant::now();
        let lost = self.layer.heartbeat(&leases).await?;
        self.course.record(self.place.worker, Rpc::Heartbeat, start);
        self.course.ledger.extend(leases.len() as u64 - lost, lost);
        self.held.push_back((due.max(start) + self.every, leases));
        Ok(())
    }

    fn book(&self, leases: &[L::Lease], settled: Vec<Settled>) {
        let keys = leases.iter().map(L::key);
        let ledger = &self.course.ledger;
        ledger.settle(self.place.queue, keys.zip(settled));
    }
}
