//! Claims, heartbeats and the reaper.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use tiberius::Row;
use uuid::Uuid;

use super::Mssql;
use super::answer;
use super::pool::Again;
use super::table::QueueTable;
use super::types;
use super::wire::{Entry, Wire};
use crate::lease::State;
use crate::lease_id::LeaseRef;
use crate::store::{
    ClaimCall, ClaimedItem, Expired, Extension, Held, QueueIndex, Reaped, StoreError,
};

impl Mssql {
    pub(super) async fn claim(
        &self,
        queue: QueueIndex,
        calls: &[ClaimCall],
    ) -> Result<Vec<Vec<ClaimedItem>>, StoreError> {
        let table = self.queue(queue)?;
        // Of several calls of one request the first claims, and all get what it got.
        let mut first_of: HashMap<Uuid, usize> = HashMap::new();
        let mut list = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            if *first_of.entry(call.token).or_insert(at) == at {
                let mut entry = Entry::default();
                entry.insert("o", json!(at));
                entry.insert("n", json!(call.max_items));
                entry.insert("w", json!(call.worker));
                entry.insert("t", json!(call.token.to_string()));
                entry.insert("d", json!(millis(call.duration)));
                entry.insert("r", json!(call.repeat));
                list.push(entry);
            }
        }
        let wire = Wire::new(vec![list]);
        let sql = if calls.iter().any(|call| call.repeat) {
            &table.sql.claim_repeated
        } else {
            &table.sql.claim
        };
        // A claim that is sent again finds its leases by their token, if the first one was applied.
        let again = if calls.iter().all(|call| call.repeat) {
            Again::Idempotent
        } else {
            Again::Once
        };
        let results = self.connected.query(sql, &wire.parameters(), again).await?;
        // There is a result at least, if an empty one.
        answer::rows(&results, 0)?;
        let mut by_call: Vec<Vec<ClaimedItem>> = vec![Vec::new(); calls.len()];
        // What calls that are repeated have got before, if there are any such; and what is new.
        for row in results.iter().flatten() {
            // Without lock hints another claim may have been faster.
            if let Some(at) = first_of.get(&answer::token(row, 0)?) {
                by_call[*at].push(claimed(table, &calls[*at], row)?);
            }
        }
        for (at, call) in calls.iter().enumerate() {
            let first = first_of[&call.token];
            if first != at {
                let same = by_call[first].clone();
                by_call[at] = same;
            }
        }
        Ok(by_call)
    }

    pub(super) async fn heartbeat(
        &self,
        queue: QueueIndex,
        extensions: &[Extension],
    ) -> Result<Vec<Option<Held>>, StoreError> {
        let table = self.queue(queue)?;
        // Of several extensions of one lease the last decides, and each is answered as if it stood alone.
        let leases = extensions.iter().map(|extension| &extension.lease);
        let names: Vec<_> = leases
            .map(|lease| (lease.token, lease.fence, lease.key.to_string()))
            .collect();
        let last_of: HashMap<_, usize> = names.iter().zip(0..).collect();
        let mut list = Vec::new();
        for (at, extension) in extensions.iter().enumerate() {
            let lease = &extension.lease;
            if last_of[&names[at]] == at && table.has_key_like(&lease.key) {
                let mut entry = QueueTable::list_entry(at, lease);
                entry.insert("d", json!(millis(extension.duration)));
                list.push(entry);
            }
        }
        let wire = Wire::new(vec![list]);
        let extend = &table.sql.extend;
        let results = self
            .connected
            .query(extend, &wire.parameters(), Again::Idempotent)
            .await?;
        let mut held = vec![None; extensions.len()];
        for row in answer::rows(&results, 0)? {
            held[answer::place(row, 0, extensions.len())?] = Some(answer::held(row, 1, 2)?);
        }
        for (at, extension) in extensions.iter().enumerate() {
            let decisive = last_of[&names[at]];
            if decisive != at {
                let longer = millis(extension.duration) - millis(extensions[decisive].duration);
                held[at] = held[decisive].map(|held| Held {
                    expire_time: held.expire_time + longer,
                    time_left: extension.duration,
                });
            }
        }
        Ok(held)
    }

    pub(super) async fn reap(&self, queue: QueueIndex, limit: usize) -> Result<Reaped, StoreError> {
        let table = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let most = table.spec.retry.max_attempts.unwrap_or(0);
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let reap = &table.sql.reap;
        let results = self
            .connected
            .query(reap, &[&limit, &most], Again::Idempotent)
            .await?;
        let mut reaped = Reaped::default();
        let at = table.key.len();
        for row in answer::rows(&results, 0)? {
            if answer::state(row, at)? != State::Leased {
                reaped.promoted += 1;
                continue;
            }
            reaped.expired.push(Expired {
                lease: LeaseRef {
                    key: table.read_key(row, 0)?,
                    attempt: answer::count(row, at + 2)?,
                    fence: answer::integer(row, at + 3)?,
                    token: answer::token(row, at + 4)?,
                },
                owner: answer::text(row, at + 5)?,
                state: answer::state(row, at + 1)?,
            });
        }
        if let Some(row) = answer::rows(&results, 1)?.first() {
            reaped.next_due = Some(answer::held(row, 0, 1)?.time_left);
        }
        Ok(reaped)
    }
}

/// Reads token, now, key, fence, attempt, due time, trace context and the queue's columns.
fn claimed(table: &QueueTable, call: &ClaimCall, row: &Row) -> Result<ClaimedItem, StoreError> {
    let at = 2 + table.key.len();
    let columns = at + 4..row.len();
    if columns.len() != table.columns.len() {
        return Err(answer::wrong(format!("an item of {} columns", row.len())));
    }
    let columns = columns.map(|at| types::read(row.get_column_data(at)?));
    Ok(ClaimedItem {
        lease: LeaseRef {
            key: table.read_key(row, 2)?,
            token: call.token,
            fence: answer::integer(row, at)?,
            attempt: answer::count(row, at + 1)?,
        },
        held: answer::held(row, 1, at + 2)?,
        columns: columns.collect::<Result<_, StoreError>>()?,
        trace_parent: answer::text(row, at + 3)?,
    })
}

/// Returns a duration in milliseconds, rounded up, so that a lease never ends before it was promised to.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
