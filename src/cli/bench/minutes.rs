//! A long run minute by minute: whether it goes on as it began.

use std::time::Duration;

use tokio::time::Instant;

use super::course::Course;
use super::measured::{Mark, per_second};

const MINUTE: Duration = Duration::from_secs(60);

/// One minute of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Minute {
    pub(super) items_per_second: f64,
    /// Of the claims; none if there were none.
    pub(super) claim_p99: Option<u64>,
    /// Of the broker, at the minute's end.
    pub(super) resident: Option<u64>,
    /// Of the file and its log, at the minute's end.
    pub(super) store_bytes: Option<u64>,
}

/// The minutes so far.
pub(super) struct Minutes {
    rows: Vec<Minute>,
    since: Instant,
    settled: u64,
    wanted: bool,
}

impl Minutes {
    /// Starts the first minute. Of a run of less than two there is nothing to compare.
    pub(super) fn from(start: &Mark, time: Option<Duration>) -> Self {
        Self {
            rows: Vec::new(),
            since: start.at,
            settled: start.tally.settled,
            wanted: time.is_some_and(|time| time >= 2 * MINUTE),
        }
    }

    /// Waits until a minute is over, and adds it.
    pub(super) async fn next(&mut self, course: &Course) {
        if !self.wanted {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.since + MINUTE).await;
        let settled = course.ledger.tally().settled;
        self.rows.push(Minute {
            items_per_second: per_second(settled - self.settled, self.since.elapsed()),
            claim_p99: course.latencies.claims_lately().map(|claims| claims.p99),
            resident: course.watch.memory().map(|memory| memory.resident),
            store_bytes: course.watch.store_bytes(),
        });
        self.settled = settled;
        self.since += MINUTE;
    }

    pub(super) fn rows(self) -> Vec<Minute> {
        self.rows
    }
}
