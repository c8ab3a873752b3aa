//! A worker of `--hold-leases`: claims its share of the leases, then extends each batch when a third of its lease has
//! passed.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::{Client, Leases};
use crate::item_ledger::Ending;
use crate::result::Result;

/// Pause after a claim that missed the items that are still ready, for example because other claims had locked them.
const EMPTY_CLAIM_PAUSE: Duration = Duration::from_millis(10);

/// One worker.
pub(crate) struct HeartbeatWorker {
    client: Client,
    /// Number of leases still to claim.
    to_claim: u64,
    /// The batches with the due times of their next heartbeats, in that order.
    batches: VecDeque<(Instant, Leases)>,
    interval: Duration,
}

impl HeartbeatWorker {
    pub(crate) fn new(client: Client, to_claim: u64) -> Self {
        Self {
            to_claim,
            batches: VecDeque::new(),
            interval: client.state.load.lease.unwrap_or_default() / 3,
            client,
        }
    }

    /// Holds the leases until the run ends. Then extends each batch once more, which shows lost leases, and releases
    /// it.
    pub(crate) async fn run(mut self) -> Result<()> {
        let stop = self.client.state.stop.clone();
        while !stop.is_cancelled() {
            let next_due = self.batches.front().map(|(due, _)| *due);
            match next_due {
                Some(due) if due <= Instant::now() => self.extend_first().await?,
                _ if self.to_claim > 0 => self.claim().await?,
                Some(due) => {
                    let sleep = tokio::time::sleep_until(due);
                    stop.run_until_cancelled(sleep).await;
                }
                None => break,
            }
        }
        for (_, leases) in self.batches {
            self.client.heartbeat(&leases).await?;
            self.client.settle(Ending::Release, leases, None).await?;
        }
        Ok(())
    }

    async fn claim(&mut self) -> Result<()> {
        let to_claim = usize::try_from(self.to_claim).unwrap_or(usize::MAX);
        let max_items = to_claim.min(self.client.state.load.batch);
        let leases = self.client.claim(max_items, None, Instant::now()).await?;
        if leases.is_empty() {
            tokio::time::sleep(EMPTY_CLAIM_PAUSE).await;
            return Ok(());
        }
        self.to_claim = self.to_claim.saturating_sub(leases.len() as u64);
        self.client.state.ledger.record_held(leases.len() as u64);
        // The first heartbeat is due at a random time within the interval, which spreads the calls evenly from then
        // on.
        let due = Instant::now() + self.interval.mul_f64(rand::random());
        let index = self.batches.partition_point(|(other, _)| *other <= due);
        self.batches.insert(index, (due, leases));
        Ok(())
    }

    async fn extend_first(&mut self) -> Result<()> {
        let Some((due, leases)) = self.batches.pop_front() else {
            return Ok(());
        };
        let start = Instant::now();
        self.client.heartbeat(&leases).await?;
        let next_due = due.max(start) + self.interval;
        self.batches.push_back((next_due, leases));
        Ok(())
    }
}
