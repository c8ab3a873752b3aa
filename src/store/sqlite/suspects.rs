//! Suspects, items whose last lease expired: which items a claim may lease while there are some. `suspects.sql` has the statements.

use lease_broker_model::key::Key;
use lease_broker_model::millis::millis_rounded_up;
use rusqlite::{Connection, ToSql};

use super::queue_statements::QueueStatements;
use super::ready_item::read_size;
use super::statement::{bind, bind_key};
use super::walk::{Access, Walk};
use crate::{ClaimCall, Holding, Limited, Share, StoreError, TooLargeItem, share_of};

/// The suspect that waits longest.
pub(super) struct WaitingSuspect {
    pub(super) key: Key,
    /// The number of its entry in the list.
    entry: i64,
    /// The time since which the item is ready, in milliseconds since 1970-01-01T00:00:00Z.
    ready_time: i64,
}

/// Returns whether the list of the queue has an entry.
pub(super) fn has_any(
    connection: &Connection,
    queue: &QueueStatements,
) -> Result<bool, StoreError> {
    finds(connection, &queue.sql.suspects.has_any, &[&queue.spec.name])
}

/// The decision about a claim while there are suspects.
pub(super) struct Choice {
    pub(super) share: Share,
    /// The suspect that waits longest, among those that the claim could lease.
    pub(super) suspect: Option<WaitingSuspect>,
    /// The reason for a call that gets nothing, if suspects are the reason.
    pub(super) kept: Option<Limited>,
    /// The suspects that are too large for the call. They wait for another one.
    pub(super) too_large: Vec<TooLargeItem>,
    /// Whether groups hold back suspects that the call could lease otherwise.
    pub(super) has_busy_group: bool,
}

impl Choice {
    pub(super) fn of(share: Share) -> Self {
        Self {
            share,
            suspect: None,
            kept: None,
            too_large: Vec::new(),
            has_busy_group: false,
        }
    }
}

/// Decides which items a call may lease.
pub(super) fn choose_share(
    connection: &Connection,
    queue: &QueueStatements,
    call: &ClaimCall,
    walk: Option<&Walk<'_>>,
    now: i64,
) -> Result<Choice, StoreError> {
    let sql = &queue.sql.suspects;
    let values: &[&dyn ToSql] = &[&queue.spec.name, &now, &call.worker];
    let patience = millis_rounded_up(queue.spec.lease.default);
    let overdue_since = now.saturating_sub(patience);
    let Waiting {
        first: waiting,
        too_large,
        has_busy_group,
    } = find_waiting(connection, queue, (call, walk, overdue_since))?;
    let holding = if finds(connection, &sql.find_held, values)? {
        Holding::Suspect
    } else if waiting.is_some() && finds(connection, &sql.holds_lease, values)? {
        Holding::Items
    } else {
        // If no suspect waits, it does not matter whether the worker holds other items.
        Holding::Nothing
    };
    let is_overdue = |waiting: &WaitingSuspect| waiting.ready_time <= overdue_since;
    let share = match share_of(holding, waiting.as_ref().map(is_overdue)) {
        // Suspects that this call cannot lease may wait. They must not be leased together with others.
        Share::All if walk.is_some() || !too_large.is_empty() => Share::Others,
        share => share,
    };
    let is_kept = share == Share::Nothing || waiting.is_some();
    Ok(Choice {
        share,
        suspect: waiting,
        kept: is_kept.then_some(Limited::Suspects),
        too_large,
        has_busy_group,
    })
}

/// Notes that a worker has leased a suspect. `fence` is the fencing token of the lease.
pub(super) fn note_lease(
    connection: &Connection,
    queue: &QueueStatements,
    suspect: &WaitingSuspect,
    (worker, fence): (&str, i64),
) -> Result<(), StoreError> {
    let null = rusqlite::types::Null;
    let values: &[&dyn ToSql] = &[&null, &null, &worker, &suspect.entry, &fence];
    change(connection, &queue.sql.suspects.note_lease, None, values)
}

/// Removes the entry of an item that no call can lease.
pub(super) fn remove(
    connection: &Connection,
    queue: &QueueStatements,
    suspect: &WaitingSuspect,
) -> Result<(), StoreError> {
    let null = rusqlite::types::Null;
    let values: &[&dyn ToSql] = &[&null, &null, &null, &suspect.entry];
    change(connection, &queue.sql.suspects.remove, None, values)
}

/// Adds an item whose lease has expired at the time `now` to the list.
pub(super) fn remember(
    connection: &Connection,
    queue: &QueueStatements,
    (key, fence): (&Key, i64),
    now: i64,
) -> Result<(), StoreError> {
    let null = rusqlite::types::Null;
    let values: &[&dyn ToSql] = &[&queue.spec.name, &now, &null, &null, &fence];
    change(connection, &queue.sql.suspects.remember, Some(key), values)
}

/// Removes the entries of items that are not suspects any more.
pub(super) fn forget(connection: &Connection, queue: &QueueStatements) -> Result<(), StoreError> {
    change(
        connection,
        &queue.sql.suspects.forget,
        None,
        &[&queue.spec.name],
    )
}

/// The suspects that wait, as one call finds them.
#[derive(Default)]
struct Waiting {
    /// The one that waits longest, among those that their groups do not hold back and that are not too large for the call.
    first: Option<WaitingSuspect>,
    /// Those before it that are too large for the call.
    too_large: Vec<TooLargeItem>,
    /// Whether groups hold back some before it.
    has_busy_group: bool,
}

/// Looks for the suspect that a call could lease.
fn find_waiting(
    connection: &Connection,
    queue: &QueueStatements,
    (call, walk, overdue_since): (&ClaimCall, Option<&Walk<'_>>, i64),
) -> Result<Waiting, StoreError> {
    let mut waiting = Waiting::default();
    let mut statement = connection.prepare_cached(&queue.sql.suspects.find_waiting)?;
    bind(&mut statement, 4, &[&queue.spec.name])?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let key = queue.read_key(row)?;
        let ready_time = row.get(queue.key.len() + 1)?;
        let is_overdue = ready_time <= overdue_since;
        if let Some(walk) = walk {
            match walk.access(call, &key, is_overdue)? {
                Access::Free => {}
                Access::HeldBack => {
                    waiting.has_busy_group = true;
                    continue;
                }
                Access::NotAskedFor => continue,
            }
        }
        let size_bytes = read_size(connection, queue, &key)?;
        // A claim makes an item dead that no claim can lease.
        if size_bytes > call.max_bytes && size_bytes <= queue.spec.max_leased_bytes() {
            waiting.too_large.push(TooLargeItem { key, size_bytes });
            continue;
        }
        waiting.first = Some(WaitingSuspect {
            key,
            entry: row.get(queue.key.len())?,
            ready_time,
        });
        break;
    }
    Ok(waiting)
}

/// Returns whether a statement returns a row.
fn finds(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, 4, values)?;
    let is_found = statement.raw_query().next()?.is_some();
    Ok(is_found)
}

fn change(
    connection: &Connection,
    sql: &str,
    key: Option<&Key>,
    values: &[&dyn ToSql],
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    if let Some(key) = key {
        bind_key(&mut statement, key)?;
    }
    bind(&mut statement, 4, values)?;
    statement.raw_execute()?;
    Ok(())
}
