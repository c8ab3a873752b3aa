//! Adds items: all of them before the work begins, or as many as are consumed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::course::Course;
use super::latency::Rpc;
use super::layer::{Layer, Place};
use crate::cli::CommandError;

/// The most items that one call may add.
const LIST: u64 = 1_000;
/// How often to look whether items were consumed.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One producer.
pub(super) struct Producer<L: Layer> {
    pub(super) layer: L,
    pub(super) place: Place,
    pub(super) course: Arc<Course>,
}

impl<L: Layer> Producer<L> {
    /// Adds so many items.
    pub(super) async fn fill(&mut self, mut items: u64) -> Result<(), CommandError> {
        while items > 0 && !self.course.stop.is_cancelled() {
            let list = items.min(LIST);
            self.add(list).await?;
            items -= list;
        }
        Ok(())
    }

    /// Adds items whenever fewer than `backlog` wait, until the run is over.
    pub(super) async fn keep_filled(mut self, backlog: u64) -> Result<(), CommandError> {
        // Full lists where the backlog is deep enough not to run dry meanwhile.
        let worth_it = (backlog / 4).clamp(1, LIST);
        let stop = self.course.stop.clone();
        while !stop.is_cancelled() {
            let room = backlog.saturating_sub(self.course.ledger.waiting(self.place.queue));
            if room >= worth_it {
                self.add(room.min(LIST)).await?;
            } else {
                stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
                    .await;
            }
        }
        Ok(())
    }

    async fn add(&mut self, items: u64) -> Result<(), CommandError> {
        let start = Instant::now();
        let keys = self
            .layer
            .enqueue(usize::try_from(items).unwrap_or(0))
            .await?;
        let course = &self.course;
        course.record(self.place.worker, Rpc::Enqueue, start);
        course.ledger.add(self.place.queue, keys.into_iter());
        Ok(())
    }
}
