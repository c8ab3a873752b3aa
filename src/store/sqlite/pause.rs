//! Pauses queues, ends pauses, and reads them.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::write_context::WriteContext;
use crate::template::{Placeholders, plain, render};
use crate::{NewPause, PauseMode, QueueIndex, QueuePause, StoreError};

const PAUSE: &str = lease_broker_sql::sqlite::PAUSE;

static READ_ONE: LazyLock<String> = LazyLock::new(|| read("read_one"));
static READ_ALL: LazyLock<String> = LazyLock::new(|| read("read_all"));

fn read(name: &str) -> String {
    let columns = Placeholders::from([("columns", plain(PAUSE, "columns"))]);
    render(PAUSE, name, &columns)
}

/// Pauses a queue. See [`Operate::pause`](crate::Operate::pause).
pub(super) fn pause(
    context: &WriteContext,
    queue: QueueIndex,
    pause: &NewPause,
) -> Result<QueuePause, StoreError> {
    let (name, now) = (&context.queue(queue)?.spec.name, context.now());
    context
        .connection
        .prepare_cached(&plain(PAUSE, "pause"))?
        .execute((
            name,
            now,
            pause.mode.code(),
            pause.until,
            &pause.actor,
            &pause.reason,
        ))?;
    Ok(QueuePause {
        queue: name.clone(),
        mode: pause.mode,
        reason: pause.reason.clone(),
        actor: pause.actor.clone(),
        pause_time: now,
        until: pause.until,
    })
}

/// Ends a pause. See [`Operate::resume`](crate::Operate::resume).
pub(super) fn resume(
    context: &WriteContext,
    queue: QueueIndex,
) -> Result<Option<QueuePause>, StoreError> {
    let (name, now) = (&context.queue(queue)?.spec.name, context.now());
    let ended = find(&context.connection, name, now)?;
    context
        .connection
        .prepare_cached(&plain(PAUSE, "resume"))?
        .execute([name])?;
    Ok(ended)
}

/// Returns the pause of a queue that has not ended.
pub(super) fn find(
    connection: &Connection,
    queue: &str,
    now: i64,
) -> Result<Option<QueuePause>, StoreError> {
    let mut statement = connection.prepare_cached(&READ_ONE)?;
    let found = statement.query_row((queue, now), |row| Ok(read_pause(row)));
    found.optional()?.transpose()
}

/// Returns whether claims on a queue get no lease.
pub(super) fn is_held(connection: &Connection, queue: &str, now: i64) -> Result<bool, StoreError> {
    Ok(find(connection, queue, now)?.is_some_and(|pause| pause.mode.holds_claims()))
}

/// Refuses new items of a queue that is paused for them.
///
/// # Errors
/// [`StoreError::Paused`].
pub(super) fn refuse_items(
    connection: &Connection,
    queue: &str,
    now: i64,
) -> Result<(), StoreError> {
    match find(connection, queue, now)? {
        Some(pause) if pause.mode.refuses_items() => Err(StoreError::Paused(pause.reason)),
        _ => Ok(()),
    }
}

/// Returns whether the tables of the brokers exist. A reader does not create them.
pub(super) fn has_tables(connection: &Connection) -> Result<bool, StoreError> {
    let mut find = connection.prepare_cached(&plain(PAUSE, "find_table"))?;
    Ok(find.exists([])?)
}

/// Returns the pauses of all queues. See [`Browse::pauses`](crate::Browse::pauses).
pub(super) fn read_all(connection: &Connection, now: i64) -> Result<Vec<QueuePause>, StoreError> {
    let mut statement = connection.prepare_cached(&READ_ALL)?;
    statement.query_and_then(("", now), read_pause)?.collect()
}

fn read_pause(row: &Row<'_>) -> Result<QueuePause, StoreError> {
    let code = row.get(1)?;
    let mode = PauseMode::from_code(code)
        .ok_or_else(|| StoreError::Bug(format!("no pause mode has the number {code}")))?;
    Ok(QueuePause {
        queue: row.get(0)?,
        mode,
        pause_time: row.get(2)?,
        until: row.get(3)?,
        actor: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
        reason: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
    })
}
