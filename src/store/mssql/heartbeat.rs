//! Heartbeats: extends leases that are still held.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lease_broker_model::millis::millis_rounded_up;
use serde_json::json;

use super::decode;
use super::error::{RetrySafety, is_locked};
use super::list_parameters::{ListEntry, ListParameters};
use super::operations::MssqlOperations;
use super::parts::Parts;
use super::queue_statements::QueueStatements;
use super::written_columns::stored_checkpoint;
use crate::{LeaseExpiry, Problem, ProblemKind, QueueIndex, Refusal, Renewal, Renewed, StoreError};

/// The number of parts into which a list is divided if another program has locked one of its rows. With more parts the search for the
/// row waits for fewer lock timeouts, and sends more batches.
const PARTS_BESIDE_LOCKS: usize = 8;
/// The time after which the search for locked rows ends. The parts that are left are sent, but not divided.
const MAX_SEARCH: Duration = Duration::from_secs(3);

impl MssqlOperations {
    pub(super) async fn heartbeat(
        &self,
        queue: QueueIndex,
        renewals: &[Renewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        let queue = self.queue(queue)?;
        // A statement may name a lease only once. If several renewals name the same lease, only the last one is sent.
        // The results of the others are computed from its result.
        let leases = renewals.iter().map(|renewal| &renewal.lease);
        let identities: Vec<_> = leases
            .map(|lease| (lease.token, lease.fence, lease.key.to_string()))
            .collect();
        let last_index: HashMap<_, usize> = identities.iter().zip(0..).collect();
        // The last checkpoint of each lease, which may be in an earlier renewal than the last.
        let checkpoints = identities.iter().zip(renewals);
        let checkpoints: HashMap<_, &[u8]> = checkpoints
            .filter_map(|(identity, renewal)| Some((identity, renewal.checkpoint.as_deref()?)))
            .collect();
        let decisive = |index: &usize| {
            last_index[&identities[*index]] == *index
                && queue.can_have_key(&renewals[*index].lease.key)
        };
        let sql = match &queue.sql.extend_with_checkpoints {
            Some(sql) if !checkpoints.is_empty() => sql,
            _ => &queue.sql.extend,
        };
        let mut renewed = vec![Renewed::UNKNOWN; renewals.len()];
        let sent: Vec<usize> = (0..renewals.len()).filter(decisive).collect();
        // A lease whose statement has no other waits for its row.
        let wait = if sent.len() > 1 {
            LockWait::Short
        } else {
            LockWait::Long
        };
        let mut parts = Parts::of(sent);
        let (mut search, mut has_extended) = (None, false);
        while let Some(part) = parts.next() {
            let entry = |index: &usize| {
                let renewal = &renewals[*index];
                let mut entry = QueueStatements::lease_entry(*index, &renewal.lease);
                entry.insert("d", json!(millis_rounded_up(renewal.duration)));
                if let Some(checkpoint) = checkpoints.get(&identities[*index]) {
                    entry.insert("h", json!(1));
                    entry.insert("c", stored_checkpoint(checkpoint));
                }
                entry
            };
            let list = part.iter().map(entry).collect();
            let refused = |problem| Renewed::Refused(Refusal::of_row(problem));
            match self.extend(sql, list, wait, &mut renewed).await {
                Ok(()) => has_extended = true,
                Err(error) if wait == LockWait::Short && is_locked(&error) => {
                    let start = search.get_or_insert_with(Instant::now);
                    if start.elapsed() < MAX_SEARCH {
                        if let Some(index) = parts.split(&part, PARTS_BESIDE_LOCKS) {
                            renewed[index] = refused(locked_row());
                        }
                    } else if has_extended {
                        for index in part {
                            renewed[index] = refused(locked_row());
                        }
                    } else {
                        return Err(error);
                    }
                }
                Err(error) => {
                    if let Some((index, rejection)) = parts.divide(&part, error)? {
                        renewed[index] = refused(rejection.problem);
                    }
                }
            }
        }
        for (index, renewal) in renewals.iter().enumerate() {
            let decisive = last_index[&identities[index]];
            if decisive != index {
                // Each renewal is answered as if it were the only one for its lease.
                let difference = millis_rounded_up(renewal.duration)
                    - millis_rounded_up(renewals[decisive].duration);
                renewed[index] = match &renewed[decisive] {
                    Renewed::Extended(expiry) => Renewed::Extended(LeaseExpiry {
                        expire_time: expiry.expire_time + difference,
                        time_left: longer_by(expiry.time_left, difference),
                    }),
                    other => other.clone(),
                };
            }
        }
        Ok(renewed)
    }

    /// Extends the leases of a list in one batch, and sets their results.
    async fn extend(
        &self,
        sql: &str,
        list: Vec<ListEntry>,
        wait: LockWait,
        renewed: &mut [Renewed],
    ) -> Result<(), StoreError> {
        let parameters = ListParameters::new(vec![list]);
        let (safety, values) = (RetrySafety::Idempotent, parameters.parameters());
        let mut running = self.pool.tries();
        let mut results = match wait {
            LockWait::Long => running.query(sql, &values, safety).await,
            LockWait::Short => running.run(sql, &values).await,
        };
        if let Err(failure) = &results
            && wait == LockWait::Short
            && !failure.is_lock_timeout()
            && failure.may_run_again(safety)
            && running.wait_for_next(failure).await
        {
            results = running.query(sql, &values, safety).await;
        }
        let results = match results {
            Ok(results) => results,
            Err(failure) => return Err(self.refusal_of_entries(failure, sql, &parameters).await),
        };
        for row in decode::result_set(&results, 0)? {
            let index = decode::request_index(row, 0, renewed.len())?;
            renewed[index] = Renewed::Extended(decode::lease_expiry(row, 1, 2)?);
        }
        // If leases are lost, a second result set has the rows of those.
        for row in results.get(1).into_iter().flatten() {
            let index = decode::request_index(row, 0, renewed.len())?;
            renewed[index] = Renewed::Lost {
                state: decode::stored_state(row, 1)?,
                cancel_reason: match decode::integer(row, 2)? {
                    0 => None,
                    _ => decode::optional_text(row, 3)?,
                },
            };
        }
        Ok(())
    }
}

/// The time for which a batch waits for locked rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LockWait {
    /// That of one try. Then the list is divided.
    Short,
    /// As many tries as an operation may have.
    Long,
}

fn locked_row() -> Problem {
    let text = "another program has locked the row, so the lease was not extended; it is held until it expires, so try again";
    Problem::new(ProblemKind::Other, text)
}

/// Returns `duration` changed by `millis`; zero if the result would be negative.
fn longer_by(duration: Duration, millis: i64) -> Duration {
    let change = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 {
        duration.saturating_sub(change)
    } else {
        duration.saturating_add(change)
    }
}
