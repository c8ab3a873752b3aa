//! Claims, heartbeats and the reaper.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use tiberius::Row;
use uuid::Uuid;

use super::Mssql;
use super::pool::Again;
use super::table::{QueueTable, integer};
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
        // A claim that is sent again finds its leases by their token, if the first one was applied.
        let again = if calls.iter().all(|call| call.repeat) {
            Again::Idempotent
        } else {
            Again::Once
        };
        let results = self
            .connected
            .query(&table.sql.claim, &wire.parameters(), again)
            .await?;
        let mut by_call: Vec<Vec<ClaimedItem>> = vec![Vec::new(); calls.len()];
        for row in results.iter().flatten() {
            let at = usize::try_from(integer(row, 0)?).unwrap_or(usize::MAX);
            let Some(call) = calls.get(at) else {
                return Err(StoreError::Bug("an item for no call".to_owned()));
            };
            by_call[at].push(claimed(table, call, row)?);
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
        let name = |lease: &LeaseRef| (lease.token, lease.fence, lease.key.to_string());
        let places = extensions.iter().enumerate();
        let last_of: HashMap<_, usize> = places
            .map(|(at, extension)| (name(&extension.lease), at))
            .collect();
        let mut list = Vec::new();
        for (at, extension) in extensions.iter().enumerate() {
            let lease = &extension.lease;
            if last_of[&name(lease)] == at && table.has_key_like(&lease.key) {
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
        for row in results.iter().flatten() {
            let at = usize::try_from(integer(row, 0)?).unwrap_or(usize::MAX);
            if let Some(held) = held.get_mut(at) {
                *held = Some(until(row, 1, 2)?);
            }
        }
        for (at, extension) in extensions.iter().enumerate() {
            let decisive = last_of[&name(&extension.lease)];
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
        for row in results.first().into_iter().flatten() {
            if integer(row, at)? != i64::from(State::Leased.code()) {
                reaped.promoted += 1;
                continue;
            }
            let owner: Option<&str> = row.try_get(at + 5)?;
            reaped.expired.push(Expired {
                lease: LeaseRef {
                    key: table.read_key(row, 0)?,
                    attempt: u32::try_from(integer(row, at + 2)?).unwrap_or(0),
                    fence: integer(row, at + 3)?,
                    token: row.try_get(at + 4)?.unwrap_or_default(),
                },
                owner: owner.map(str::to_owned),
                state: State::from_code(integer(row, at + 1)?).unwrap_or(State::Ready),
            });
        }
        if let Some(row) = results.get(1).and_then(|rows| rows.first()) {
            reaped.next_due = Some(until(row, 0, 1)?.time_left);
        }
        Ok(reaped)
    }
}

/// Reads call, now, key, fence, attempt, due time, trace context and the queue's columns.
fn claimed(table: &QueueTable, call: &ClaimCall, row: &Row) -> Result<ClaimedItem, StoreError> {
    let at = 2 + table.key.len();
    let columns = (at + 4..row.len()).map(|at| types::read(row.get_column_data(at)?));
    let trace_parent: Option<&str> = row.try_get(at + 3)?;
    Ok(ClaimedItem {
        lease: LeaseRef {
            key: table.read_key(row, 2)?,
            token: call.token,
            fence: integer(row, at)?,
            attempt: u32::try_from(integer(row, at + 1)?).unwrap_or(0),
        },
        held: until(row, 1, at + 2)?,
        columns: columns.collect::<Result<_, StoreError>>()?,
        trace_parent: trace_parent.map(str::to_owned),
    })
}

/// Reads the server's time and a due time.
fn until(row: &Row, now: usize, due: usize) -> Result<Held, StoreError> {
    let time = |at| {
        let time = types::millis(row.get_column_data(at)?)?;
        time.ok_or_else(|| StoreError::Bug("an answer without a time".to_owned()))
    };
    let (now, expire_time): (i64, i64) = (time(now)?, time(due)?);
    let left = u64::try_from(expire_time.saturating_sub(now)).unwrap_or(0);
    Ok(Held {
        expire_time,
        time_left: Duration::from_millis(left),
    })
}

/// Returns a duration in milliseconds, rounded up, so that a lease never ends before it was promised to.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
