//! The operations for operators: counts and ages, lists of items.

use std::time::{Duration, Instant};

use lease_broker_model::item_state::State;
use lease_broker_model::millis::duration_between;
use rusqlite::{Connection, Row};

use super::queue_statements::QueueStatements;
use super::soft_lock_value::{attempts, integer, text};
use super::state_counts;
use crate::{ListedItem, Stats, StoreError};

/// The number of leases among which the oldest is searched, as in `sql/sqlite/stats.sql`.
const LEASE_SAMPLE: u64 = 10_000;

/// Counts items up to a limit. See [`Browse::timed_stats`](crate::Browse::timed_stats).
pub(super) fn timed_stats(
    connection: &Connection,
    queue: &QueueStatements,
    now: i64,
) -> Result<(Stats, Duration), StoreError> {
    let start = Instant::now();
    // One read transaction, so that all counts see the same rows. The number of delayed items can be the difference of
    // two counts.
    let transaction = connection.unchecked_transaction()?;
    let mut stats = state_counts::count_up_to_limit(connection, &queue.sql.counts)?;
    add_ages(connection, queue, now, &mut stats)?;
    transaction.commit()?;
    Ok((stats, start.elapsed()))
}

/// Counts all items. See [`Browse::exact_stats`](crate::Browse::exact_stats).
pub(super) fn exact_stats(
    connection: &Connection,
    queue: &QueueStatements,
    now: i64,
) -> Result<Stats, StoreError> {
    let mut stats = state_counts::count_all(connection, &queue.sql.counts)?;
    add_ages(connection, queue, now, &mut stats)?;
    Ok(stats)
}

fn add_ages(
    connection: &Connection,
    queue: &QueueStatements,
    now: i64,
    stats: &mut Stats,
) -> Result<(), StoreError> {
    let age = |sql: &str| -> Result<Option<Duration>, StoreError> {
        let since: Option<i64> = connection
            .prepare_cached(sql)?
            .query_row([], |row| integer(row, 0))?;
        Ok(since.map(|since| duration_between(since, now)))
    };
    stats.oldest_ready = age(&queue.sql.oldest_ready)?;
    stats.oldest_lease = age(&queue.sql.oldest_lease)?;
    stats.set_sampled(&queue.spec.order, LEASE_SAMPLE);
    Ok(())
}

/// Lists the items of one state. See [`Browse::list`](crate::Browse::list).
pub(super) fn list(
    connection: &Connection,
    queue: &QueueStatements,
    state: State,
    limit: usize,
    now: i64,
) -> Result<Vec<ListedItem>, StoreError> {
    let mut statement = connection.prepare_cached(&queue.sql.list[state as usize])?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows =
        statement.query_and_then([limit], |row| read_listed(queue, row, queue.key.len(), now))?;
    rows.collect()
}

/// Reads an item whose key is in the first columns. At the column `owner` begin owner, time of the last change, due time, attempts,
/// fence and error.
pub(super) fn read_listed(
    queue: &QueueStatements,
    row: &Row<'_>,
    owner: usize,
    now: i64,
) -> Result<ListedItem, StoreError> {
    // 0 is the default of the column: another program inserted the row.
    let since = integer(row, owner + 1)?.filter(|since| *since > 0);
    let due = integer(row, owner + 2)?;
    Ok(ListedItem {
        key: queue.read_key(row)?,
        owner: text(row, owner)?,
        age: since.map(|since| duration_between(since, now)),
        state_time: since,
        due_in: due.map(|due| duration_between(now, due)),
        due_time: due,
        attempt: attempts(row, owner + 3)?,
        fence: integer(row, owner + 4)?.unwrap_or(0),
        error: text(row, owner + 5)?,
    })
}
