//! Claims and heartbeats.

use std::time::Duration;

use rusqlite::{CachedStatement, Row};

use super::statement::{Token, bind, bind_key};
use super::table::QueueTable;
use super::types;
use super::writer::Session;
use crate::lease_id::LeaseRef;
use crate::store::{ClaimCall, ClaimedItem, Extension, Held, QueueIndex, StoreError};
use crate::value::Key;

pub(super) fn claim(
    session: &Session,
    queue: QueueIndex,
    calls: &[ClaimCall],
) -> Result<Vec<Vec<ClaimedItem>>, StoreError> {
    let mut claim = Claim::new(session, session.queue(queue)?)?;
    // Once a pick came back short nothing more is ready, and the calls behind it need not look.
    let mut drained = false;
    calls
        .iter()
        .map(|call| {
            if call.repeat {
                let held = claim.held(call)?;
                if !held.is_empty() {
                    return Ok(held);
                }
            }
            if drained {
                return Ok(Vec::new());
            }
            let keys = claim.pick(call.max_items)?;
            drained = keys.len() < call.max_items;
            claim.take(call, &keys)
        })
        .collect()
}

/// The statements of a claim.
struct Claim<'a> {
    table: &'a QueueTable,
    now: i64,
    held: CachedStatement<'a>,
    pick: CachedStatement<'a>,
    take: CachedStatement<'a>,
    leased: CachedStatement<'a>,
}

impl<'a> Claim<'a> {
    fn new(session: &'a Session, table: &'a QueueTable) -> Result<Self, StoreError> {
        let statement = |sql: &str| session.connection.prepare_cached(sql);
        Ok(Self {
            table,
            now: session.now(),
            held: statement(&table.sql.held)?,
            pick: statement(&table.sql.pick)?,
            take: statement(&table.sql.take)?,
            leased: statement(&table.sql.leased)?,
        })
    }

    /// Returns the leases that the call's token holds.
    fn held(&mut self, call: &ClaimCall) -> Result<Vec<ClaimedItem>, StoreError> {
        bind(&mut self.held, 4, &[&Token(&call.token), &self.now])?;
        let mut rows = self.held.raw_query();
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            items.push(read(self.table, call, row, self.now)?);
        }
        Ok(items)
    }

    fn pick(&mut self, limit: usize) -> Result<Vec<Key>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        bind(&mut self.pick, 8, &[&limit])?;
        let mut rows = self.pick.raw_query();
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            keys.push(self.table.read_key(row)?);
        }
        Ok(keys)
    }

    fn take(&mut self, call: &ClaimCall, keys: &[Key]) -> Result<Vec<ClaimedItem>, StoreError> {
        let expiry = self.now.saturating_add(millis(call.duration));
        bind(
            &mut self.take,
            4,
            &[&Token(&call.token), &self.now, &expiry, &call.worker],
        )?;
        let take = |key| {
            self.take_one(call, key)?.ok_or_else(|| {
                StoreError::Misconfigured(format!(
                    "the item {key} of queue {:?} is ready, yet its row can't be updated: a trigger ignores the \
                     update, or the key is text that is not valid UTF-8",
                    self.table.spec.name
                ))
            })
        };
        keys.iter().map(take).collect()
    }

    fn take_one(&mut self, call: &ClaimCall, key: &Key) -> Result<Option<ClaimedItem>, StoreError> {
        bind_key(&mut self.take, key)?;
        if self.take.raw_execute()? == 0 {
            return Ok(None);
        }
        bind_key(&mut self.leased, key)?;
        let mut rows = self.leased.raw_query();
        let row = rows.next()?;
        row.map(|row| read(self.table, call, row, self.now))
            .transpose()
    }
}

/// Reads key, fence, attempt, due time, trace context and the queue's columns.
fn read(
    table: &QueueTable,
    call: &ClaimCall,
    row: &Row<'_>,
    now: i64,
) -> Result<ClaimedItem, StoreError> {
    let at = table.key_len;
    let columns = (at + 4..)
        .zip(&table.kinds)
        .map(|(at, kind)| Ok(types::read_column(row.get_ref(at)?, *kind)))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(ClaimedItem {
        lease: LeaseRef {
            key: table.read_key(row)?,
            token: call.token,
            fence: row.get(at)?,
            attempt: row.get(at + 1)?,
        },
        held: held_until(row.get(at + 2)?, now),
        columns,
        trace_parent: row.get(at + 3)?,
    })
}

pub(super) fn heartbeat(
    session: &Session,
    queue: QueueIndex,
    extensions: &[Extension],
) -> Result<Vec<Option<Held>>, StoreError> {
    let table = session.queue(queue)?;
    let now = session.now();
    let mut statement = session.connection.prepare_cached(&table.sql.extend)?;
    extensions
        .iter()
        .map(|extension| {
            let lease = &extension.lease;
            if lease.key.0.len() != table.key_len {
                return Ok(None);
            }
            let expiry = now.saturating_add(millis(extension.duration));
            bind_key(&mut statement, &lease.key)?;
            bind(
                &mut statement,
                4,
                &[&Token(&lease.token), &now, &expiry, &lease.fence],
            )?;
            let extended = statement.raw_execute()? > 0;
            Ok(extended.then(|| held_until(expiry, now)))
        })
        .collect()
}

fn held_until(expire_time: i64, now: i64) -> Held {
    let left = u64::try_from(expire_time.saturating_sub(now)).unwrap_or(0);
    Held {
        expire_time,
        time_left: Duration::from_millis(left),
    }
}

/// Returns a duration as the store counts it; rounded up, so that a lease never ends before it was promised to.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
