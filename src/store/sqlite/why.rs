//! Collects the facts from which an operator learns why an item is not being claimed.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};
use uuid::Uuid;

use super::queue_statements::QueueStatements;
use super::soft_lock_value::{integer, text};
use super::statement::{bind, bind_key};
use super::{group_list, instance, pause, turn};
use crate::{Ahead, ForeignLock, ItemFacts, ItemRow, StoreError};

/// A lock of the file that is free within this time is a broker's own, and no reason for an item to wait.
const LOCK_TIME: Duration = Duration::from_secs(1);
/// The time between two tries to get the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Collects the facts, except for the lock. See [`Browse::item_facts`](crate::Browse::item_facts).
pub(super) fn item_facts(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
    now: i64,
) -> Result<ItemFacts, StoreError> {
    let statements = &queue.sql.why;
    // One read transaction, so that the place of the item fits its state.
    let transaction = connection.unchecked_transaction()?;
    let row = read_row(connection, queue, key)?;
    let exists = |sql: &str| connection.prepare_cached(sql)?.exists([]);
    let has_null_keys = row.is_none() && exists(&statements.find_null_key)?;
    let mut facts = ItemFacts {
        now,
        row,
        has_null_keys,
        lock: None,
        pause: None,
        limited: None,
        group: None,
        brokers: Some(Vec::new()),
    };
    let is_ready = facts.row.as_ref().and_then(|row| row.state) == Some(State::Ready);
    // A broker creates the tables when it starts. Without them no broker has started.
    if exists(&statements.find_broker_table)? {
        facts.brokers = Some(instance::read_others(connection, now, &Uuid::nil())?);
        let paused = pause::find(connection, &queue.spec.name, now)?;
        facts.pause = paused.filter(|pause| pause.mode.holds_claims());
        if is_ready {
            facts.limited = turn::reached_limit(connection, queue, now)?;
        }
    }
    if is_ready {
        facts.group = group_list::group_of_item(connection, queue, key, now)?;
    }
    transaction.commit()?;
    Ok(facts)
}

/// Reads the row of an item.
fn read_row(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
) -> Result<Option<ItemRow>, StoreError> {
    if !queue.can_have_key(key) {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(&queue.sql.why.read_row)?;
    bind_key(&mut statement, key)?;
    let mut rows = statement.raw_query();
    let row = rows.next()?;
    row.map(|row| item_row(connection, queue, row)).transpose()
}

fn item_row(
    connection: &Connection,
    queue: &QueueStatements,
    row: &Row<'_>,
) -> Result<ItemRow, StoreError> {
    let first = queue.key.len();
    let state = integer(row, first)?.and_then(State::from_code);
    let ahead = match state {
        Some(State::Ready) => count_ahead(connection, queue, &queue.read_key(row)?)?,
        _ => None,
    };
    Ok(ItemRow {
        state,
        owner: text(row, first + 1)?,
        // 0 is the default of the column: another program inserted the row.
        state_time: integer(row, first + 2)?.filter(|time| *time > 0),
        due_time: integer(row, first + 3)?,
        attempt: integer(row, first + 4)?.unwrap_or(0),
        fence: integer(row, first + 5)?.unwrap_or(0),
        error: text(row, first + 6)?,
        has_token: integer(row, first + 7)? == Some(0),
        ahead,
    })
}

/// Counts the ready items that claims take before the one with the key.
fn count_ahead(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
) -> Result<Option<Ahead>, StoreError> {
    let mut statement = connection.prepare_cached(&queue.sql.why.find_ready)?;
    let limit = i64::try_from(ItemFacts::AHEAD_LIMIT + 1).unwrap_or(i64::MAX);
    bind(&mut statement, 4, &[&limit])?;
    if queue.spec.groups.is_some() {
        bind_key(&mut statement, key)?;
    }
    let mut rows = statement.raw_query();
    let mut ready = 0;
    while let Some(row) = rows.next()? {
        if queue.read_key(row)? == *key {
            return Ok(Ahead::new(Some(ready), ready));
        }
        ready += 1;
    }
    Ok(Ahead::new(None, ready))
}

/// Finds out if another connection holds the write lock of the file for [`LOCK_TIME`]. A file that cannot be written gives no answer.
///
/// The test takes the lock for a moment and changes nothing. Its connection leaves the log as it is when it closes.
pub(super) fn find_lock(path: &Path) -> Option<ForeignLock> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).ok()?;
    connection.busy_timeout(Duration::ZERO).ok()?;
    let keep_log = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(keep_log, true).ok()?;
    let start = Instant::now();
    loop {
        let begun = connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK");
        match begun.map_err(|error| error.sqlite_error_code()) {
            Err(Some(ErrorCode::DatabaseBusy)) if start.elapsed() < LOCK_TIME => sleep(LOCK_PAUSE),
            Err(Some(ErrorCode::DatabaseBusy)) => return Some(ForeignLock::File),
            _ => return None,
        }
    }
}
