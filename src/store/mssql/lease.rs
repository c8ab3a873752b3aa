//! Claims, heartbeats and the reaper.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tiberius::Row;
use uuid::Uuid;

use super::Mssql;
use super::pool::Again;
use super::table::{QueueTable, integer};
use super::types;
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
                list.push(json!({
                    "o": at, "n": call.max_items, "w": call.worker, "t": call.token.to_string(),
                    "d": millis(call.duration), "r": call.repeat,
                }));
            }
        }
        let list = Json::Array(list).to_string();
        // A claim that is sent again finds its leases by their token, if the first one was applied.
        let again = if calls.iter().all(|call| call.repeat) {
            Again::Idempotent
        } else {
            Again::Once
        };
        let results = self
            .connected
            .query(&table.sql.claim, &[&list], again)
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
        let mut list = Vec::new();
        for (at, extension) in extensions.iter().enumerate() {
            if table.has_key_like(&extension.lease.key) {
                let mut entry = QueueTable::list_entry(at, &extension.lease);
                entry.insert("d".to_owned(), json!(millis(extension.duration)));
                list.push(Json::Object(entry));
            }
        }
        let list = Json::Array(list).to_string();
        let extend = &table.sql.extend;
        let results = self
            .connected
            .query(extend, &[&list], Again::Idempotent)
            .await?;
        let mut held = vec![None; extensions.len()];
        for row in results.iter().flatten() {
            let at = usize::try_from(integer(row, 0)?).unwrap_or(usize::MAX);
            if let Some(held) = held.get_mut(at) {
                *held = Some(until(row, 1, 2)?);
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
