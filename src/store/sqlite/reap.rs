//! Expiry and promotion.

use std::time::Duration;

use rusqlite::OptionalExtension as _;
use uuid::Uuid;

use super::statement::{bind, bind_key};
use super::table::QueueTable;
use super::writer::Session;
use crate::item_state::State;
use crate::lease_id::LeaseRef;
use crate::store::{Expired, QueueIndex, Reaped, StoreError};

/// A row whose due time has come.
struct Due {
    lease: LeaseRef,
    leased: bool,
    owner: Option<String>,
}

pub(super) fn reap(
    session: &Session,
    queue: QueueIndex,
    limit: usize,
) -> Result<Reaped, StoreError> {
    let table = session.queue(queue)?;
    let now = session.now();
    let mut reaped = Reaped::default();
    for due in due(session, table, now, limit)? {
        if due.leased {
            reaped.expired.extend(expire(session, table, now, due)?);
        } else {
            let mut statement = session.connection.prepare_cached(&table.sql.promote)?;
            bind_key(&mut statement, &due.lease.key)?;
            bind(&mut statement, 5, &[&now, &0, &"", &due.lease.fence])?;
            reaped.promoted += statement.raw_execute()?;
        }
    }
    let mut statement = session.connection.prepare_cached(&table.sql.next)?;
    let next: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    reaped.next_due =
        next.map(|due| Duration::from_millis(u64::try_from(due.saturating_sub(now)).unwrap_or(0)));
    Ok(reaped)
}

fn due(
    session: &Session,
    table: &QueueTable,
    now: i64,
    limit: usize,
) -> Result<Vec<Due>, StoreError> {
    let mut statement = session.connection.prepare_cached(&table.sql.due)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    bind(&mut statement, 4, &[&limit, &now])?;
    let at = table.key_len;
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let token: Option<Vec<u8>> = row.get(at + 3)?;
        found.push(Due {
            leased: row.get::<_, i64>(at)? == i64::from(State::Leased.code()),
            lease: LeaseRef {
                key: table.read_key(row)?,
                token: token
                    .and_then(|token| Uuid::from_slice(&token).ok())
                    .unwrap_or_default(),
                fence: row.get(at + 2)?,
                attempt: row.get(at + 1)?,
            },
            owner: row.get(at + 4)?,
        });
    }
    Ok(found)
}

fn expire(
    session: &Session,
    table: &QueueTable,
    now: i64,
    due: Due,
) -> Result<Option<Expired>, StoreError> {
    let state = if table.spec.retry.is_exhausted(due.lease.attempt) {
        State::Dead
    } else {
        State::Ready
    };
    let error = match &due.owner {
        Some(owner) => format!("the lease of {owner} expired"),
        None => "the lease expired".to_owned(),
    };
    let mut statement = session.connection.prepare_cached(&table.sql.expire)?;
    bind_key(&mut statement, &due.lease.key)?;
    bind(
        &mut statement,
        5,
        &[&now, &state.code(), &error, &due.lease.fence],
    )?;
    let expired = statement.raw_execute()? > 0;
    Ok(expired.then_some(Expired {
        lease: due.lease,
        owner: due.owner,
        state,
    }))
}
