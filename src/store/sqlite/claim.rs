//! Leases ready items to claim calls.

use std::sync::atomic::Ordering;

use rusqlite::{CachedStatement, Connection, Row};

use super::clock::lease_expiry;
use super::queue_statements::QueueStatements;
use super::statement::{Token, bind, bind_key};
use super::types;
use super::writer::WriteContext;
use crate::lease_id::LeaseRef;
use crate::store::item_size::too_large_text;
use crate::store::millis::millis_rounded_up;
use crate::store::{
    ClaimCall, Claimed, ClaimedItem, MAX_PASSED_OVER, MAX_TOO_LARGE, QueueIndex, StoreError,
    TooLargeItem,
};
use crate::value::Key;

/// Serves claim calls one after the other. See [`Store::claim`](crate::store::Store::claim).
///
/// Items are leased without a look at their sizes until one exceeds the bytes of its call. The transaction is then rolled
/// back, and the operation runs again with sizes.
pub(super) fn claim(
    context: &WriteContext,
    queue: QueueIndex,
    calls: &[ClaimCall],
) -> Result<Vec<Claimed>, StoreError> {
    let queue = context.queue(queue)?;
    let reads_sizes = queue.has_large_items.load(Ordering::Relaxed);
    let mut statements = ClaimStatements::new(context, queue)?;
    // No more items are ready. The remaining calls skip the query.
    let mut none_ready = false;
    let mut results = Vec::with_capacity(calls.len());
    for call in calls {
        let mut claimed = Claimed::default();
        if call.has_request_id {
            claimed.items = statements.find_retried_leases(call)?;
        }
        if claimed.items.is_empty() && !none_ready {
            if reads_sizes {
                claimed = statements.claim_within_bytes(call)?;
                none_ready = claimed.items.len() < call.max_items
                    && !claimed.has_more
                    && claimed.too_large.is_empty();
            } else {
                let keys = statements.pick_ready(call.max_items)?;
                none_ready = keys.len() < call.max_items;
                let Some(items) = statements.lease_rows(call, &keys)? else {
                    queue.has_large_items.store(true, Ordering::Relaxed);
                    context.run_again();
                    return Err(StoreError::Bug(
                        "a claim that exceeded its bytes was not run again".to_owned(),
                    ));
                };
                claimed.items = items;
            }
        }
        results.push(claimed);
    }
    Ok(results)
}

/// The prepared statements of a claim, kept for all its calls.
struct ClaimStatements<'a> {
    connection: &'a Connection,
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
            connection: &context.connection,
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

    /// Leases the rows with these keys to the call. Returns `None` if they exceed its bytes.
    fn lease_rows(
        &mut self,
        call: &ClaimCall,
        keys: &[Key],
    ) -> Result<Option<Vec<ClaimedItem>>, StoreError> {
        self.bind_call(call)?;
        let mut items = Vec::with_capacity(keys.len());
        let mut bytes = 0;
        for key in keys {
            let item = self.lease_row(call, key)?;
            let size = self.queue.item_size.of(&item);
            bytes += size;
            if bytes > call.max_bytes || size > self.queue.spec.max_item_bytes {
                return Ok(None);
            }
            items.push(item);
        }
        Ok(Some(items))
    }

    /// Leases the first ready items that fit into the bytes of the call.
    fn claim_within_bytes(&mut self, call: &ClaimCall) -> Result<Claimed, StoreError> {
        let keys = self.pick_ready(call.max_items + MAX_PASSED_OVER)?;
        self.bind_call(call)?;
        let mut claimed = Claimed::default();
        let mut left = call.max_bytes;
        let mut passed_over = 0;
        for key in keys {
            if claimed.items.len() == call.max_items || passed_over == MAX_PASSED_OVER {
                break;
            }
            let size_bytes = self.read_size(&key)?;
            if size_bytes > self.queue.spec.max_item_bytes {
                self.set_aside(&key, size_bytes)?;
            } else if size_bytes > call.max_bytes {
                passed_over += 1;
                if claimed.too_large.len() < MAX_TOO_LARGE {
                    claimed.too_large.push(TooLargeItem { key, size_bytes });
                }
            } else if size_bytes > left {
                claimed.has_more = true;
                break;
            } else {
                left -= size_bytes;
                claimed.items.push(self.lease_row(call, &key)?);
            }
        }
        Ok(claimed)
    }

    fn read_size(&self, key: &Key) -> Result<usize, StoreError> {
        let mut statement = self.connection.prepare_cached(&self.queue.sql.read_size)?;
        bind_key(&mut statement, key)?;
        let mut rows = statement.raw_query();
        let bytes: Option<i64> = match rows.next()? {
            Some(row) => Some(row.get(0)?),
            None => None,
        };
        // `lease_row` reports a row that cannot be found.
        let bytes = usize::try_from(bytes.unwrap_or(0)).unwrap_or(usize::MAX / 2);
        Ok(self.queue.item_size.of_stored(key, bytes))
    }

    /// Makes an item dead that is larger than any item may be.
    fn set_aside(&self, key: &Key, size_bytes: usize) -> Result<(), StoreError> {
        let error = too_large_text(size_bytes, self.queue.spec.max_item_bytes);
        let null = rusqlite::types::Null;
        let values: &[&dyn rusqlite::ToSql] = &[&null, &self.now, &null, &null, &null, &error];
        let mut statement = self.connection.prepare_cached(&self.queue.sql.set_aside)?;
        bind(&mut statement, 4, values)?;
        bind_key(&mut statement, key)?;
        statement.raw_execute()?;
        Ok(())
    }

    /// Binds the parameters of `lease_row` that all rows of a call have.
    fn bind_call(&mut self, call: &ClaimCall) -> Result<(), StoreError> {
        let expiry = self.now.saturating_add(millis_rounded_up(call.duration));
        bind(
            &mut self.lease_row,
            4,
            &[&Token(&call.token), &self.now, &expiry, &call.worker],
        )?;
        Ok(())
    }

    /// Leases one row and reads it back.
    fn lease_row(&mut self, call: &ClaimCall, key: &Key) -> Result<ClaimedItem, StoreError> {
        bind_key(&mut self.lease_row, key)?;
        if self.lease_row.raw_execute()? > 0 {
            bind_key(&mut self.read_lease, key)?;
            let mut rows = self.read_lease.raw_query();
            if let Some(row) = rows.next()? {
                return Ok(read_item(self.queue, call, row, self.now)?);
            }
        }
        Err(StoreError::Misconfigured(format!(
            "item {key} of queue {:?} is ready but its row cannot be updated: a trigger ignores the update, or the key is \
             text that is not valid UTF-8; correct the trigger or the row",
            self.queue.spec.name
        )))
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
