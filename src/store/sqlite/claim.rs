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
/// Items are leased without a look at their sizes until one does not fit. The transaction is then rolled back, and the
/// operation runs again with sizes.
pub(super) fn claim(
    context: &WriteContext,
    queue: QueueIndex,
    calls: &[ClaimCall],
    max_bytes: usize,
) -> Result<Vec<Claimed>, StoreError> {
    let queue = context.queue(queue)?;
    let reads_sizes = queue.has_large_items.load(Ordering::Relaxed);
    let mut statements = ClaimStatements::new(context, queue)?;
    // No more items are ready. The remaining calls skip the query.
    let mut none_ready = false;
    let mut room = Some(max_bytes);
    let mut results = Vec::with_capacity(calls.len());
    for call in calls {
        let mut claimed = Claimed::default();
        if call.has_request_id {
            claimed = statements.find_retried_leases(call)?;
        }
        if claimed.items.is_empty() && !none_ready {
            if reads_sizes {
                let is_first = room == Some(max_bytes);
                let left = room.unwrap_or_default();
                claimed = statements.claim_within_bytes(call, left, is_first)?;
                none_ready = claimed.items.len() < call.max_items
                    && !claimed.has_more
                    && claimed.too_large.is_empty();
            } else {
                let ready = statements.pick_ready(call.max_items)?;
                none_ready = ready.len() < call.max_items;
                claimed = statements.lease_rows(call, &ready)?;
            }
            room = room.and_then(|room| room.checked_sub(claimed.bytes));
            if !reads_sizes && (room.is_none() || claimed.has_more) {
                queue.has_large_items.store(true, Ordering::Relaxed);
                context.run_again();
                return Err(StoreError::Bug(
                    "a claim that exceeded its bytes was not run again".to_owned(),
                ));
            }
        }
        results.push(claimed);
    }
    Ok(results)
}

/// The maximum number of items that one claim makes dead because of their size. SQLite writes the whole row each time.
const MAX_SET_ASIDE: usize = 10;

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
    fn find_retried_leases(&mut self, call: &ClaimCall) -> Result<Claimed, StoreError> {
        let statement = &mut self.find_retried_leases;
        bind(statement, 4, &[&Token(&call.token), &self.now])?;
        let mut rows = statement.raw_query();
        let mut claimed = Claimed::default();
        while let Some(row) = rows.next()? {
            let item = read_item(self.queue, call, row, self.now)?;
            claimed.bytes += self.queue.item_size.of(&item);
            claimed.items.push(item);
        }
        Ok(claimed)
    }

    /// Returns the first ready items, up to `limit`.
    fn pick_ready(&mut self, limit: usize) -> Result<Vec<ReadyItem>, StoreError> {
        bind(&mut self.pick_ready, 8, &[&to_sql_limit(limit)])?;
        let mut rows = self.pick_ready.raw_query();
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            items.push(ReadyItem::read(self.queue, row)?);
        }
        Ok(items)
    }

    /// Leases these items to the call, until one does not fit. [`Claimed::has_more`] is set then.
    fn lease_rows(&mut self, call: &ClaimCall, ready: &[ReadyItem]) -> Result<Claimed, StoreError> {
        self.bind_call(call)?;
        let mut claimed = Claimed {
            items: Vec::with_capacity(ready.len()),
            ..Claimed::default()
        };
        for ready in ready {
            let item = self.lease_row(call, ready)?;
            let size = self.queue.item_size.of(&item);
            claimed.bytes += size;
            if claimed.bytes > call.max_bytes || size > self.queue.spec.max_item_bytes {
                claimed.has_more = true;
                break;
            }
            claimed.items.push(item);
        }
        Ok(claimed)
    }

    /// Leases the first ready items that fit into the bytes of the call and into `room`. If `is_first`, the first item may
    /// exceed `room`. At most `max_items` + [`MAX_PASSED_OVER`] items are looked at.
    fn claim_within_bytes(
        &mut self,
        call: &ClaimCall,
        room: usize,
        is_first: bool,
    ) -> Result<Claimed, StoreError> {
        let mut claimed = Claimed::default();
        let (mut fitting, mut oversized) = (Vec::new(), Vec::new());
        let limit = call.max_items + MAX_PASSED_OVER;
        let mut looked_at = 0;
        bind(&mut self.pick_ready, 8, &[&to_sql_limit(limit)])?;
        let mut rows = self.pick_ready.raw_query();
        // The rows are changed after the query has ended, because it reads the index that the changes write.
        while fitting.len() < call.max_items {
            claimed.has_more = looked_at == limit;
            let Some(row) = rows.next()? else { break };
            looked_at += 1;
            let ready = ReadyItem::read(self.queue, row)?;
            let size_bytes = read_size(self.connection, self.queue, &ready.key)?;
            if size_bytes > self.queue.spec.max_item_bytes {
                oversized.push((ready.key, size_bytes));
                claimed.has_more = oversized.len() == MAX_SET_ASIDE;
            } else if size_bytes > call.max_bytes {
                if claimed.too_large.len() < MAX_TOO_LARGE {
                    let key = ready.key;
                    claimed.too_large.push(TooLargeItem { key, size_bytes });
                }
            } else {
                let bytes = claimed.bytes + size_bytes;
                let in_room = bytes <= room || is_first && fitting.is_empty();
                claimed.has_more = bytes > call.max_bytes || !in_room;
                if !claimed.has_more {
                    claimed.bytes = bytes;
                    fitting.push(ready);
                }
            }
            if claimed.has_more {
                break;
            }
        }
        drop(rows);
        for (key, size_bytes) in oversized {
            self.set_aside(&key, size_bytes)?;
        }
        self.bind_call(call)?;
        let items = fitting.iter().map(|ready| self.lease_row(call, ready));
        claimed.items = items.collect::<Result<_, _>>()?;
        Ok(claimed)
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
    fn lease_row(
        &mut self,
        call: &ClaimCall,
        ready: &ReadyItem,
    ) -> Result<ClaimedItem, StoreError> {
        let key = &ready.key;
        bind_key(&mut self.lease_row, key)?;
        if self.lease_row.raw_execute()? > 0 {
            bind_key(&mut self.read_lease, key)?;
            let mut rows = self.read_lease.raw_query();
            if let Some(row) = rows.next()? {
                let mut item = read_item(self.queue, call, row, self.now)?;
                item.ready_time = ready.ready_time;
                return Ok(item);
            }
        }
        Err(StoreError::Misconfigured(format!(
            "item {key} of queue {:?} is ready but its row cannot be updated: a trigger ignores the update, or the key is \
             text that is not valid UTF-8; correct the trigger or the row",
            self.queue.spec.name
        )))
    }
}

/// An item before it is leased.
struct ReadyItem {
    key: Key,
    /// The time when it became ready. `None`: the program that inserted the row did not set it.
    ready_time: Option<i64>,
}

impl ReadyItem {
    fn read(queue: &QueueStatements, row: &Row<'_>) -> Result<Self, StoreError> {
        let since = row.get_ref(queue.key_len)?.as_i64().ok();
        Ok(Self {
            key: queue.read_key(row)?,
            ready_time: since.filter(|millis| *millis > 0),
        })
    }
}

fn to_sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Returns the size of an item before it is leased. 0 bytes of data if there is no such row: `lease_row` reports that.
fn read_size(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(&queue.sql.read_size)?;
    bind_key(&mut statement, key)?;
    let mut rows = statement.raw_query();
    let bytes: i64 = match rows.next()? {
        Some(row) => row.get(0)?,
        None => 0,
    };
    let bytes = usize::try_from(bytes).unwrap_or_default();
    Ok(queue.item_size.of_stored(key, bytes))
}

/// Reads a row with the key, fencing token, attempt, due time, trace context, checkpoint (if the queue has checkpoints) and data
/// columns of a leased item.
fn read_item(
    queue: &QueueStatements,
    call: &ClaimCall,
    row: &Row<'_>,
    now: i64,
) -> Result<ClaimedItem, StoreError> {
    let first = queue.key_len;
    let has_checkpoints = queue.spec.max_checkpoint_bytes.is_some();
    let columns = (first + 4 + usize::from(has_checkpoints)..)
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
        ready_time: None,
        columns,
        trace_parent: row.get(first + 3)?,
        checkpoint: if has_checkpoints {
            let bytes = row.get_ref(first + 4)?.as_bytes_or_null();
            let bytes = bytes.map_err(rusqlite::Error::from)?;
            bytes.map(<[u8]>::to_vec)
        } else {
            None
        },
    })
}
