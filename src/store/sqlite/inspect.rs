//! What operators ask: numbers, listings, and another chance for the dead.

use std::time::Duration;

use rusqlite::Connection;

use super::count;
use super::statement::{bind, bind_key};
use super::table::QueueTable;
use super::writer::Session;
use crate::item_state::State;
use crate::store::{ListedItem, QueueIndex, Stats, StoreError};
use crate::value::Key;

pub(super) fn stats(
    connection: &Connection,
    table: &QueueTable,
    now: i64,
) -> Result<Stats, StoreError> {
    // All of it at one moment: what is delayed is the difference of two counts.
    let moment = connection.unchecked_transaction()?;
    let mut stats = count::enough(connection, &table.sql.counts)?;
    add_ages(connection, table, now, &mut stats)?;
    moment.commit()?;
    Ok(stats)
}

pub(super) fn exact_stats(
    connection: &Connection,
    table: &QueueTable,
    now: i64,
) -> Result<Stats, StoreError> {
    let mut stats = count::all(connection, &table.sql.counts)?;
    add_ages(connection, table, now, &mut stats)?;
    Ok(stats)
}

fn add_ages(
    connection: &Connection,
    table: &QueueTable,
    now: i64,
    stats: &mut Stats,
) -> Result<(), StoreError> {
    let age = |sql: &str| -> Result<Option<Duration>, StoreError> {
        let since: Option<i64> = connection
            .prepare_cached(sql)?
            .query_row([], |row| row.get(0))?;
        Ok(since.map(|since| elapsed(since, now)))
    };
    stats.oldest_ready = age(&table.sql.oldest_ready)?;
    stats.oldest_lease = age(&table.sql.oldest_lease)?;
    Ok(())
}

pub(super) fn list(
    connection: &Connection,
    table: &QueueTable,
    state: State,
    limit: usize,
    now: i64,
) -> Result<Vec<ListedItem>, StoreError> {
    let mut statement = connection.prepare_cached(&table.sql.list[state as usize])?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query([limit])?;
    let at = table.key_len;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        let since: i64 = row.get(at + 1)?;
        let due: Option<i64> = row.get(at + 2)?;
        items.push(ListedItem {
            key: table.read_key(row)?,
            owner: row.get(at)?,
            age: (since > 0).then(|| elapsed(since, now)),
            due_in: due.map(|due| elapsed(now, due)),
            attempt: row.get(at + 3)?,
            fence: row.get(at + 4)?,
            error: row.get(at + 5)?,
        });
    }
    Ok(items)
}

fn elapsed(from: i64, to: i64) -> Duration {
    Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

pub(super) fn redrive(
    session: &Session,
    queue: QueueIndex,
    limit: usize,
) -> Result<usize, StoreError> {
    let table = session.queue(queue)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut keys: Vec<Key> = Vec::new();
    {
        let mut statement = session.connection.prepare_cached(&table.sql.dead)?;
        bind(&mut statement, 4, &[&limit])?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            keys.push(table.read_key(row)?);
        }
    }
    let now = session.now();
    let mut statement = session.connection.prepare_cached(&table.sql.redrive)?;
    let mut redriven = 0;
    for key in keys {
        bind_key(&mut statement, &key)?;
        bind(&mut statement, 5, &[&now])?;
        redriven += statement.raw_execute()?;
    }
    Ok(redriven)
}
