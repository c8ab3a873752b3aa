//! Reads the items that a claim leases, from rows before and after the lease.

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use rusqlite::{Connection, Row};

use super::clock::lease_expiry;
use super::column_value::read_column;
use super::queue_statements::QueueStatements;
use super::row_error::RowError;
use super::soft_lock_value::{attempts, integer, text};
use super::statement::bind_key;
use crate::contract::{due_after, next_fence};
use crate::{ClaimCall, ClaimedItem, LeaseExpiry, StoreError};

/// An item before it is leased.
pub(super) struct ReadyItem {
    /// The time when it became ready. `None`: the program that inserted the row did not set it.
    pub(super) ready_time: Option<i64>,
    pub(super) picked: Picked,
    /// The number of its run. 0: it is in none.
    pub(super) run: u32,
}

/// The columns that were read before the lease.
pub(super) enum Picked {
    /// Only the key. The row is read after the lease.
    Key(Key),
    /// The item as the call gets it, if the lease succeeds.
    Item(ClaimedItem),
}

impl ReadyItem {
    pub(super) fn key(&self) -> &Key {
        match &self.picked {
            Picked::Key(key) => key,
            Picked::Item(item) => &item.lease.key,
        }
    }

    /// Reads a row with the key and the time of the state.
    pub(super) fn read_key(queue: &QueueStatements, row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            ready_time: read_ready_time(queue, row)?,
            picked: Picked::Key(queue.read_key(row)?),
            run: 0,
        })
    }

    /// Reads a row that has the columns of [`read_leased`], with the time of the state in place of the due time.
    pub(super) fn read(
        queue: &QueueStatements,
        call: &ClaimCall,
        row: &Row<'_>,
        now: i64,
        epoch_fence: i64,
    ) -> Result<Self, StoreError> {
        let first = queue.key.len();
        let fence = row.get::<_, i64>(first + 1).ok();
        let attempt = row.get::<_, u32>(first + 2).ok();
        let fence = fence.and_then(|fence| next_fence(fence, epoch_fence));
        let attempt = attempt.and_then(|attempt| attempt.checked_add(1));
        // `lease_row` decides about a row whose counters are full or are not numbers.
        let Some((fence, attempt)) = fence.zip(attempt) else {
            return Self::read_key(queue, row);
        };
        let ready_time = read_ready_time(queue, row)?;
        let expiry = due_after(now, call.duration);
        let lease = LeaseRef {
            key: queue.read_key(row)?,
            token: call.token,
            fence,
            attempt,
        };
        let mut item = read_item(queue, lease, lease_expiry(expiry, now), row)?;
        item.ready_time = ready_time;
        Ok(Self {
            ready_time,
            picked: Picked::Item(item),
            run: 0,
        })
    }
}

fn read_ready_time(queue: &QueueStatements, row: &Row<'_>) -> rusqlite::Result<Option<i64>> {
    let since = row.get_ref(queue.key.len())?.as_i64().ok();
    Ok(since.filter(|millis| *millis > 0))
}

/// Reads the number of the run from a row of `find_retried_leases`: the column behind those of [`read_leased`].
pub(super) fn read_run(queue: &QueueStatements, row: &Row<'_>) -> rusqlite::Result<u32> {
    let has_checkpoints = queue.spec.max_checkpoint_bytes.is_some();
    row.get(queue.key.len() + 4 + usize::from(has_checkpoints) + queue.data.len())
}

/// Reads a row of a leased item. Its columns are the key, the due time, the fencing token, the attempt, the trace context, the
/// checkpoint (if the queue has checkpoints) and the data columns.
pub(super) fn read_leased(
    queue: &QueueStatements,
    call: &ClaimCall,
    row: &Row<'_>,
    now: i64,
) -> Result<ClaimedItem, StoreError> {
    let first = queue.key.len();
    let lease = LeaseRef {
        key: queue.read_key(row)?,
        token: call.token,
        fence: integer(row, first + 1)?.unwrap_or(0),
        attempt: attempts(row, first + 2)?,
    };
    read_item(queue, lease, read_expiry(queue, row, now)?, row)
}

/// Reads the expiry from a row of [`read_leased`].
pub(super) fn read_expiry(
    queue: &QueueStatements,
    row: &Row<'_>,
    now: i64,
) -> rusqlite::Result<LeaseExpiry> {
    let expire_time = integer(row, queue.key.len())?.unwrap_or(now);
    Ok(lease_expiry(expire_time, now))
}

/// Reads the trace context, the checkpoint and the data columns of a row, for an item with this lease.
fn read_item(
    queue: &QueueStatements,
    lease: LeaseRef,
    expiry: LeaseExpiry,
    row: &Row<'_>,
) -> Result<ClaimedItem, StoreError> {
    let first = queue.key.len() + 3;
    let has_checkpoints = queue.spec.max_checkpoint_bytes.is_some();
    let columns = (first + 1 + usize::from(has_checkpoints)..)
        .zip(&queue.data)
        .map(|(index, column)| Ok(read_column(row.get_ref(index)?, column.kind)))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(ClaimedItem {
        lease,
        expiry,
        ready_time: None,
        columns,
        trace_parent: text(row, first)?,
        checkpoint: if has_checkpoints {
            // A number is no checkpoint.
            let bytes = row.get_ref(first + 1)?.as_bytes_or_null();
            bytes.unwrap_or(None).map(<[u8]>::to_vec)
        } else {
            None
        },
        run: 0,
    })
}

/// Returns the size of an item before it is leased. 0 bytes of data if there is no such row, or if it
/// cannot be read: `lease_row` reports that.
pub(super) fn read_size(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(&queue.sql.read_size)?;
    bind_key(&mut statement, key)?;
    let read = match statement.raw_query().next() {
        Ok(Some(row)) => Ok(row.get(0)?),
        Ok(None) => Ok(0),
        Err(error) => Err(error),
    };
    let bytes: i64 = match read.map_err(|error| RowError::new(connection, &statement, &error)) {
        Ok(bytes) => bytes,
        Err(RowError::Refused(_)) => 0,
        Err(RowError::Store(error)) => return Err(error),
    };
    let bytes = usize::try_from(bytes).unwrap_or_default();
    Ok(queue.item_size.of_stored(key, bytes))
}
