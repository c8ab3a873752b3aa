//! Heartbeats: extends leases that are still held.

use std::collections::HashMap;
use std::time::Duration;

use lease_broker_model::millis::millis_rounded_up;
use serde_json::json;

use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::operations::MssqlOperations;
use super::parts::Parts;
use super::queue_statements::QueueStatements;
use super::written_columns::stored_checkpoint;
use crate::{LeaseExpiry, QueueIndex, Renewal, Renewed, StoreError};

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
        let mut parts = Parts::of((0..renewals.len()).filter(decisive).collect());
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
            let extended = self.extend(sql, list, &mut renewed);
            let extended = extended.await;
            for (index, refusal) in parts.end(part, extended)? {
                renewed[index] = Renewed::Refused(refusal);
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
        renewed: &mut [Renewed],
    ) -> Result<(), StoreError> {
        let lists = ListParameters::new(vec![list]);
        let mut tries = self.pool.tries().with_one_lock_wait();
        let batch = (sql, RetrySafety::Idempotent);
        let results = self.run_lists(&mut tries, batch, &lists).await?;
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

/// Returns `duration` changed by `millis`; zero if the result would be negative.
fn longer_by(duration: Duration, millis: i64) -> Duration {
    let change = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 {
        duration.saturating_sub(change)
    } else {
        duration.saturating_add(change)
    }
}
