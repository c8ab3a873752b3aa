//! Keeps the traces of leases in their rows.

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use rusqlite::types::Null;

use super::queue_statements::QueueStatements;
use super::statement::{Token, bind, bind_key};
use super::write_context::WriteContext;
use crate::{QueueIndex, StoreError, TraceNote};

/// Stores trace contexts. See [`Leases::note_traces`](crate::Leases::note_traces).
pub(super) fn note_traces(
    context: &WriteContext,
    queue: QueueIndex,
    notes: &[TraceNote],
) -> Result<(), StoreError> {
    let queue = context.queue(queue)?;
    let mut statement = context.connection.prepare_cached(&queue.sql.note_trace)?;
    for TraceNote {
        lease,
        context: trace,
    } in notes
    {
        if queue.can_have_key(&lease.key) {
            bind_key(&mut statement, &lease.key)?;
            let trace = trace.to_string();
            // The statement does not use ?5, the time.
            bind(
                &mut statement,
                4,
                &[&Token(&lease.token), &Null, &trace, &lease.fence],
            )?;
            statement.raw_execute()?;
        }
    }
    Ok(())
}

/// Finds expired leases. See [`Leases::find_expired_untraced`](crate::Leases::find_expired_untraced).
pub(super) fn find_expired(
    connection: &rusqlite::Connection,
    queue: &QueueStatements,
    limit: usize,
    now: i64,
) -> Result<Vec<LeaseRef>, StoreError> {
    let mut statement = connection.prepare_cached(&queue.sql.find_expired_untraced)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    bind(&mut statement, 4, &[&limit, &now])?;
    let mut rows = statement.raw_query();
    let mut leases = Vec::new();
    while let Some(row) = rows.next()? {
        leases.push(queue.read_lease(row)?);
    }
    Ok(leases)
}

/// Finds the leases on rows. See [`Leases::find_leased_untraced`](crate::Leases::find_leased_untraced).
pub(super) fn find_leased(
    connection: &rusqlite::Connection,
    queue: &QueueStatements,
    keys: &[Key],
) -> Result<Vec<LeaseRef>, StoreError> {
    let mut statement = connection.prepare_cached(&queue.sql.find_leased_untraced)?;
    let mut leases = Vec::new();
    for key in keys.iter().filter(|key| queue.can_have_key(key)) {
        bind_key(&mut statement, key)?;
        let mut rows = statement.raw_query();
        if let Some(row) = rows.next()? {
            leases.push(queue.read_lease(row)?);
        }
    }
    Ok(leases)
}
