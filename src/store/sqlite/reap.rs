//! Ends expired leases and makes delayed items ready.

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::millis::duration_between;
use rusqlite::OptionalExtension as _;

use super::held_lease::HELD_COLUMNS;
use super::queue_statements::QueueStatements;
use super::runs::{self, Run};
use super::statement::{bind, bind_key};
use super::suspects;
use super::writer::WriteContext;
use crate::{
    EndedLease, LatestTime, QueueIndex, Reaped, RowOperation, RowOutcome, StoreError, step,
};

/// A row whose due time has passed.
enum DueRow {
    /// Its lease has expired.
    Leased(EndedLease),
    /// Its delay is over.
    Delayed(LeaseRef),
}

/// Reaps a queue. See [`Leases::reap`](crate::Leases::reap).
pub(super) fn reap(
    context: &WriteContext,
    queue: QueueIndex,
    limit: usize,
    latest: Option<LatestTime>,
    until: Option<i64>,
) -> Result<Reaped, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let is_stepped = latest.is_some_and(|latest| now > latest.now());
    let mut reaped = Reaped {
        time: Some(now),
        ..Reaped::default()
    };
    let until = until.map_or(now, |until| until.min(now));
    for row in find_due(context, queue, until, limit)? {
        match row {
            DueRow::Leased(lease) => {
                let run = Run::find(context, queue, &lease.lease.key)?;
                if run.as_ref().is_some_and(|run| !run.is_first()) {
                    let rest = run.map(Run::rest).unwrap_or_default();
                    reaped.released.extend(runs::release(context, queue, rest)?);
                    continue;
                }
                let row = lease.row(State::Leased);
                let reap = RowOperation::Reap { is_stepped };
                if let (Some(next), RowOutcome::Expired(state)) =
                    step(&queue.spec, Some(&row), now, &reap)
                {
                    let attempts_back = row.attempt - next.attempt;
                    let lease = EndedLease { state, ..lease };
                    let expired = expire(context, queue, lease, attempts_back)?;
                    if let (Some(_), Some(run)) = (&expired, run) {
                        let later = runs::release(context, queue, run.later())?;
                        reaped.released.extend(later);
                    }
                    if let Some(expired) = &expired
                        && state == State::Ready
                        && !is_stepped
                    {
                        let (key, fence) = (&expired.lease.key, expired.lease.fence);
                        suspects::remember(&context.connection, queue, (key, fence), now)?;
                    }
                    reaped.expired.extend(expired);
                }
            }
            DueRow::Delayed(item) => {
                let mut statement = context.connection.prepare_cached(&queue.sql.promote)?;
                bind_key(&mut statement, &item.key)?;
                // The statement does not use ?6 and ?7, new state and error text.
                bind(&mut statement, 5, &[&now, &0, &"", &item.fence])?;
                reaped.promoted += statement.raw_execute()?;
            }
        }
    }
    if suspects::has_any(&context.connection, queue)? {
        suspects::forget(&context.connection, queue)?;
    }
    let mut statement = context.connection.prepare_cached(&queue.sql.next_due)?;
    let next_due: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    reaped.next_due = next_due.map(|due| duration_between(now, due));
    Ok(reaped)
}

/// Returns the rows that were due at the time `until`, those due longest first, up to `limit`.
fn find_due(
    context: &WriteContext,
    queue: &QueueStatements,
    until: i64,
    limit: usize,
) -> Result<Vec<DueRow>, StoreError> {
    let mut statement = context.connection.prepare_cached(&queue.sql.find_due)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    bind(&mut statement, 4, &[&limit, &until])?;
    let state_column = queue.key_len + HELD_COLUMNS;
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let is_leased = row.get::<_, i64>(state_column)? == i64::from(State::Leased.code());
        found.push(if is_leased {
            DueRow::Leased(queue.read_ended(row, context.now(), State::Ready)?)
        } else {
            DueRow::Delayed(queue.read_lease(row)?)
        });
    }
    Ok(found)
}

/// Ends an expired lease and gives this number of attempts back, 0 or 1. Returns `None` if no row was changed.
fn expire(
    context: &WriteContext,
    queue: &QueueStatements,
    expired: EndedLease,
    attempts_back: u32,
) -> Result<Option<EndedLease>, StoreError> {
    let error = match &expired.owner {
        Some(owner) => format!("the lease of {owner} expired"),
        None => "the lease expired".to_owned(),
    };
    let mut statement = context.connection.prepare_cached(&queue.sql.expire)?;
    bind_key(&mut statement, &expired.lease.key)?;
    let (state, fence) = (expired.state.code(), expired.lease.fence);
    bind(
        &mut statement,
        5,
        &[&expired.end_time, &state, &error, &fence, &attempts_back],
    )?;
    let changed = statement.raw_execute()? > 0;
    Ok(changed.then_some(expired))
}
