//! Ends expired leases and makes delayed items ready.

use rusqlite::OptionalExtension as _;
use uuid::Uuid;

use super::clock::duration_between;
use super::queue_statements::QueueStatements;
use super::statement::{bind, bind_key};
use super::writer::WriteContext;
use crate::item_state::State;
use crate::lease_id::LeaseRef;
use crate::store::{Expired, QueueIndex, Reaped, StoreError};

/// A row whose due time has passed.
struct DueRow {
    lease: LeaseRef,
    /// True if the item is leased, false if it is delayed.
    is_leased: bool,
    owner: Option<String>,
}

/// Reaps a queue. See [`Store::reap`](crate::store::Store::reap).
pub(super) fn reap(
    context: &WriteContext,
    queue: QueueIndex,
    limit: usize,
) -> Result<Reaped, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let mut reaped = Reaped::default();
    for row in find_due(context, queue, now, limit)? {
        if row.is_leased {
            reaped.expired.extend(expire(context, queue, now, row)?);
        } else {
            let mut statement = context.connection.prepare_cached(&queue.sql.promote)?;
            bind_key(&mut statement, &row.lease.key)?;
            // The statement does not use ?6 and ?7, new state and error text.
            bind(&mut statement, 5, &[&now, &0, &"", &row.lease.fence])?;
            reaped.promoted += statement.raw_execute()?;
        }
    }
    let mut statement = context.connection.prepare_cached(&queue.sql.next_due)?;
    let next_due: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    reaped.next_due = next_due.map(|due| duration_between(now, due));
    Ok(reaped)
}

/// Returns the rows whose due time has passed, those due longest first, up to `limit`.
fn find_due(
    context: &WriteContext,
    queue: &QueueStatements,
    now: i64,
    limit: usize,
) -> Result<Vec<DueRow>, StoreError> {
    let mut statement = context.connection.prepare_cached(&queue.sql.find_due)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    bind(&mut statement, 4, &[&limit, &now])?;
    let first = queue.key_len;
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let token: Option<Vec<u8>> = row.get(first + 3)?;
        found.push(DueRow {
            is_leased: row.get::<_, i64>(first)? == i64::from(State::Leased.code()),
            lease: LeaseRef {
                key: queue.read_key(row)?,
                token: token
                    .and_then(|token| Uuid::from_slice(&token).ok())
                    .unwrap_or_default(),
                fence: row.get(first + 2)?,
                attempt: row.get(first + 1)?,
            },
            owner: row.get(first + 4)?,
        });
    }
    Ok(found)
}

/// Ends an expired lease. Returns `None` if no row was changed.
fn expire(
    context: &WriteContext,
    queue: &QueueStatements,
    now: i64,
    row: DueRow,
) -> Result<Option<Expired>, StoreError> {
    let state = if queue.spec.retry.is_exhausted(row.lease.attempt) {
        State::Dead
    } else {
        State::Ready
    };
    let error = match &row.owner {
        Some(owner) => format!("the lease of {owner} expired"),
        None => "the lease expired".to_owned(),
    };
    let mut statement = context.connection.prepare_cached(&queue.sql.expire)?;
    bind_key(&mut statement, &row.lease.key)?;
    bind(
        &mut statement,
        5,
        &[&now, &state.code(), &error, &row.lease.fence],
    )?;
    let expired = statement.raw_execute()? > 0;
    Ok(expired.then_some(Expired {
        lease: row.lease,
        owner: row.owner,
        state,
    }))
}
