//! Leases ready items to claim calls.

use rusqlite::{CachedStatement, Row};

use super::clock::lease_expiry;
use super::queue_statements::QueueStatements;
use super::statement::{Token, bind, bind_key};
use super::types;
use super::writer::WriteContext;
use crate::lease_id::LeaseRef;
use crate::store::millis::millis_rounded_up;
use crate::store::{ClaimCall, ClaimedItem, QueueIndex, StoreError};
use crate::value::Key;

/// Serves claim calls one after the other. See [`Store::claim`](crate::store::Store::claim).
pub(super) fn claim(
    context: &WriteContext,
    queue: QueueIndex,
    calls: &[ClaimCall],
) -> Result<Vec<Vec<ClaimedItem>>, StoreError> {
    let mut statements = ClaimStatements::new(context, context.queue(queue)?)?;
    // A short result means that no more items are ready. The remaining calls skip the query.
    let mut none_ready = false;
    calls
        .iter()
        .map(|call| {
            if call.has_request_id {
                let leases = statements.find_retried_leases(call)?;
                if !leases.is_empty() {
                    return Ok(leases);
                }
            }
            if none_ready {
                return Ok(Vec::new());
            }
            let keys = statements.pick_ready(call.max_items)?;
            none_ready = keys.len() < call.max_items;
            statements.lease_rows(call, &keys)
        })
        .collect()
}

/// The prepared statements of a claim, kept for all its calls.
struct ClaimStatements<'a> {
    queue: &'a QueueStatements,
    now: i64,
    find_retried_leases: CachedStatement<'a>,
    pick_ready: CachedStatement<'a>,
    lease_row: CachedStatement<'a>,
    read_lease: CachedStatement<'a>,
}

impl<'a> ClaimStatements<'a> {
    fn new(context: &'a WriteContext, queue: &'a QueueStatements) -> Result<Self, StoreError> {
        let statement = |sql: &str| context.connection.prepare_cached(sql);
        Ok(Self {
            queue,
            now: context.now(),
            find_retried_leases: statement(&queue.sql.find_retried_leases)?,
            pick_ready: statement(&queue.sql.pick_ready)?,
            lease_row: statement(&queue.sql.lease_row)?,
            read_lease: statement(&queue.sql.read_lease)?,
        })
    }

    /// Returns the leases that an earlier try of this call got.
    fn find_retried_leases(&mut self, call: &ClaimCall) -> Result<Vec<ClaimedItem>, StoreError> {
        let statement = &mut self.find_retried_leases;
        bind(statement, 4, &[&Token(&call.token), &self.now])?;
        let mut rows = statement.raw_query();
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            items.push(read_item(self.queue, call, row, self.now)?);
        }
        Ok(items)
    }

    /// Returns the keys of the first ready items, up to `limit`.
    fn pick_ready(&mut self, limit: usize) -> Result<Vec<Key>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        bind(&mut self.pick_ready, 8, &[&limit])?;
        let mut rows = self.pick_ready.raw_query();
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            keys.push(self.queue.read_key(row)?);
        }
        Ok(keys)
    }

    /// Leases the rows with these keys to the call.
    fn lease_rows(
        &mut self,
        call: &ClaimCall,
        keys: &[Key],
    ) -> Result<Vec<ClaimedItem>, StoreError> {
        let expiry = self.now.saturating_add(millis_rounded_up(call.duration));
        bind(
            &mut self.lease_row,
            4,
            &[&Token(&call.token), &self.now, &expiry, &call.worker],
        )?;
        let lease = |key| {
            self.lease_row(call, key)?.ok_or_else(|| {
                StoreError::Misconfigured(format!(
                    "item {key} of queue {:?} is ready but its row cannot be updated: a trigger ignores the update, or \
                     the key is text that is not valid UTF-8; correct the trigger or the row",
                    self.queue.spec.name
                ))
            })
        };
        keys.iter().map(lease).collect()
    }

    /// Leases one row and reads it back. Returns `None` if no row was updated.
    fn lease_row(
        &mut self,
        call: &ClaimCall,
        key: &Key,
    ) -> Result<Option<ClaimedItem>, StoreError> {
        bind_key(&mut self.lease_row, key)?;
        if self.lease_row.raw_execute()? == 0 {
            return Ok(None);
        }
        bind_key(&mut self.read_lease, key)?;
        let mut rows = self.read_lease.raw_query();
        let row = rows.next()?;
        row.map(|row| read_item(self.queue, call, row, self.now))
            .transpose()
    }
}

/// Reads a row with the key, fencing token, attempt, due time, trace context and data columns of a leased item.
fn read_item(
    queue: &QueueStatements,
    call: &ClaimCall,
    row: &Row<'_>,
    now: i64,
) -> Result<ClaimedItem, StoreError> {
    let first = queue.key_len;
    let columns = (first + 4..)
        .zip(&queue.column_types)
        .map(|(index, column)| Ok(types::read_column(row.get_ref(index)?, *column)))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(ClaimedItem {
        lease: LeaseRef {
            key: queue.read_key(row)?,
            token: call.token,
            fence: row.get(first)?,
            attempt: row.get(first + 1)?,
        },
        expiry: lease_expiry(row.get(first + 2)?, now),
        columns,
        trace_parent: row.get(first + 3)?,
    })
}
