//! Epochs of a file: reads the fence of the present one, and begins a new one after a restore.

use std::sync::atomic::AtomicU64;

use lease_broker_model::key::Key;
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use rusqlite::{Connection, OptionalExtension as _};
use uuid::Uuid;

use super::catalogue::Table;
use super::clock::system_clock;
use super::column_value::read;
use super::error::unchanged_row;
use super::generation;
use super::instance;
use super::placeholders;
use super::row_error::{RowError, change_row};
use super::soft_lock_types::queue_columns;
use super::statement::{bind, bind_key};
use crate::StoreError;
use crate::adoption::with;
use crate::epoch::{CancelledOperation, NewEpoch, fence_after, left_queues};
use crate::template::{Placeholders, plain, render};

const EPOCH: &str = lease_broker_sql::sqlite::EPOCH;

/// Returns the fence that all fencing tokens of the epoch exceed.
pub(super) fn read_fence(connection: &Connection, read_fence: &str) -> Result<i64, StoreError> {
    let mut read = connection.prepare_cached(read_fence)?;
    Ok(read.query_row([], |row| row.get(0))?)
}

/// Checks that the file is not a backup.
///
/// # Errors
/// [`StoreError::Io`] if it is one.
pub(super) fn refuse_backup(connection: &Connection) -> Result<(), StoreError> {
    let backup_time: Option<i64> =
        connection.query_row(&plain(EPOCH, "read"), [], |row| row.get(1))?;
    match backup_time {
        None => Ok(()),
        Some(_) => Err(StoreError::Io(
            "the file is a backup that `lease-broker backup` made, and serving it would give fencing tokens twice; restore it with \
             `lease-broker restore FILE`, or, if it is in its place, begin a new epoch with `lease-broker restore --in-place`"
                .to_owned(),
        )),
    }
}

/// Marks the file as a backup. Returns false if the file is not the database of a broker.
pub(super) fn mark_backup(connection: &Connection) -> Result<bool, StoreError> {
    if Table::read(connection, "lease_broker_epoch")?.is_none() {
        return Ok(false);
    }
    connection.execute(&plain(EPOCH, "mark_backup"), [system_clock()()])?;
    Ok(true)
}

/// Returns the time of a backup in milliseconds since 1970. `None`: the file is no backup that this program made.
pub(super) fn backup_time(connection: &Connection) -> Result<Option<i64>, StoreError> {
    if Table::read(connection, "lease_broker_epoch")?.is_none() {
        return Ok(None);
    }
    let time = connection.query_row(&plain(EPOCH, "read"), [], |row| row.get(1));
    Ok(time.optional()?.flatten())
}

/// Begins a new epoch, cancels the operations that run, and ends the leases of the queues. Belongs into a transaction. A queue whose
/// table does not exist, or is not adopted yet, is left out. The table may lack columns that a backup does not have yet. `replaced`: the fence of the epoch in a database that this one replaces; otherwise 0.
pub(super) fn begin(
    connection: &Connection,
    queues: &[QueueSpec],
    replaced: i64,
) -> Result<NewEpoch, StoreError> {
    let now = system_clock()();
    let last = read_fence(connection, &plain(EPOCH, "read_fence"))?;
    let fence = fence_after(last.max(replaced))?;
    connection.execute(&plain(EPOCH, "raise"), [fence, now])?;
    let brokers = instance::list(connection, now)?.map(|list| list.brokers);
    let left_queues = left_queues(&brokers.unwrap_or_default(), queues);
    connection.execute(&plain(EPOCH, "forget_brokers"), [])?;
    let cancelled_operations = cancel_operations(connection, now)?;
    // The bytes of the file differ from those of the backup, so that a backup that is copied over them is noticed.
    generation::raise(connection, &AtomicU64::new(0))?;
    let mut ended_leases = Vec::new();
    for queue in queues {
        let Some(table) = Table::read(connection, &queue.table)? else {
            continue;
        };
        // A table that was not adopted yet has no leases.
        let state = queue.soft_lock.name(SoftLockColumn::State);
        if table.column(state).is_none() {
            continue;
        }
        let queue = queue.to_end_leases(|name| table.column(name).is_some());
        let columns = queue_columns(connection, &queue, &table)?
            .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
        let placeholders = placeholders::of_table(&queue, &table, &columns);
        let ended = end_leases(connection, &queue, &placeholders, (fence, now))?;
        ended_leases.push((queue.name, ended));
    }
    Ok(NewEpoch {
        fence,
        ended_leases,
        left_queues,
        cancelled_operations,
    })
}

/// Cancels the operations that run.
fn cancel_operations(
    connection: &Connection,
    now: i64,
) -> Result<Vec<CancelledOperation>, StoreError> {
    let mut cancel = connection.prepare(&plain(EPOCH, "cancel_operations"))?;
    cancel.raw_bind_parameter(2, now)?;
    let operations = cancel.raw_query().mapped(|row| {
        Ok(CancelledOperation {
            id: Uuid::from_bytes(row.get(0)?),
            queue: row.get(1)?,
            kind: row.get(2)?,
        })
    });
    Ok(operations.collect::<Result<_, _>>()?)
}

/// Ends the leases of a queue and returns their number. If a constraint or a trigger refuses this for a row, its mirror columns stay
/// as they are.
///
/// # Errors
/// [`StoreError::Misconfigured`] if a row is refused without the mirror columns too.
fn end_leases(
    connection: &Connection,
    queue: &QueueSpec,
    placeholders: &Placeholders,
    (fence, now): (i64, i64),
) -> Result<u64, StoreError> {
    let without_mirror = with(placeholders, [("mirror_ready", String::new())]);
    let ways = [placeholders, &without_mirror];
    let ways = ways.map(|placeholders| render(EPOCH, "end_lease", placeholders));
    let leased = find_leased(connection, placeholders, fence)?;
    let count = leased.len() as u64;
    for key in leased {
        let mut problem = None;
        for sql in &ways {
            let mut end = connection.prepare_cached(sql)?;
            bind_key(&mut end, &key)?;
            bind(&mut end, 4, &[&rusqlite::types::Null, &now])?;
            problem = match change_row(connection, &mut end) {
                Ok(0) => Some(unchanged_row()),
                Ok(_) => None,
                Err(RowError::Refused(problem)) => Some(problem),
                Err(RowError::Store(error)) => return Err(error),
            };
            // A trigger can have rolled the transaction back.
            if problem.is_none() || connection.is_autocommit() {
                break;
            }
        }
        if let Some(problem) = problem {
            return Err(StoreError::Misconfigured(format!(
                "the lease of item {key} in table {} cannot be ended: {}; change the row or drop the trigger with the sqlite3 program \
                 (in the backup, if you restore one), and run the command again",
                queue.table, problem.text
            )));
        }
    }
    Ok(count)
}

/// Returns the keys of the leased rows.
fn find_leased(
    connection: &Connection,
    placeholders: &Placeholders,
    fence: i64,
) -> Result<Vec<Key>, StoreError> {
    let mut find = connection.prepare(&render(EPOCH, "find_leased", placeholders))?;
    let columns = find.column_count();
    find.raw_bind_parameter(4, fence)?;
    let keys = find.raw_query().mapped(|row| {
        let key = (0..columns).map(|column| Ok(read(row.get_ref(column)?)));
        key.collect::<Result<_, _>>().map(Key)
    });
    Ok(keys.collect::<Result<_, _>>()?)
}
