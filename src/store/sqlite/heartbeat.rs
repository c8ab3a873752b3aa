//! Extends leases.

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use rusqlite::types::Null;

use super::clock::lease_expiry;
use super::held_expiry::read_held;
use super::ignored_change::refusal_of_held;
use super::left_out::LeftOut;
use super::queue_statements::QueueStatements;
use super::row_error::{RowError, change_row};
use super::soft_lock_value::{integer, text};
use super::statement::{Token, bind, bind_key, stored_checkpoint};
use super::write_context::WriteContext;
use crate::contract::due_after;
use crate::{QueueIndex, Refusal, Renewal, Renewed, StoreError};

/// Extends each lease that is still held. See [`Leases::heartbeat`](crate::Leases::heartbeat).
pub(super) fn heartbeat(
    context: &WriteContext,
    queue: QueueIndex,
    renewals: &[Renewal],
    left_out: &LeftOut,
) -> Result<Vec<Renewed>, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let effects = context.lease_effects.of(&context.connection, queue)?;
    let mut extend = context.connection.prepare_cached(&queue.sql.extend)?;
    let renewed = renewals.iter().map(|renewal| {
        let Renewal {
            lease, duration, ..
        } = renewal;
        if lease.key.0.len() != queue.key.len() {
            return Ok(Renewed::UNKNOWN);
        }
        let expiry = due_after(now, *duration);
        let mut extend_with_checkpoint;
        let statement = match (&renewal.checkpoint, &queue.sql.extend_with_checkpoint) {
            (Some(_), Some(sql)) => {
                extend_with_checkpoint = context.connection.prepare_cached(sql)?;
                &mut extend_with_checkpoint
            }
            _ => &mut extend,
        };
        let checkpoint = renewal.checkpoint.as_deref().and_then(stored_checkpoint);
        bind_key(statement, &lease.key)?;
        bind(
            statement,
            4,
            &[
                &Token(&lease.token),
                &now,
                &expiry,
                &lease.fence,
                &checkpoint,
            ],
        )?;
        let renewed = left_out.change(context, &lease.key, effects.undone_by(), || {
            if change_row(&context.connection, statement)? > 0 {
                return Ok(Renewed::Extended(lease_expiry(expiry, now)));
            }
            match refusal_of_held(context, queue, lease)? {
                Some(problem) => Err(RowError::Refused(problem)),
                None => Ok(read_lost(context, queue, lease)?),
            }
        })?;
        Ok(renewed.unwrap_or_else(|problem| Renewed::Refused(Refusal::of_row(problem))))
    });
    let mut renewed = renewed.collect::<Result<Vec<_>, StoreError>>()?;
    if effects.run_triggers {
        for (Renewal { lease, .. }, renewed) in renewals.iter().zip(&mut renewed) {
            if let Renewed::Extended(_) = renewed {
                *renewed = match read_held(context, queue, lease)? {
                    Some(expiry) => Renewed::Extended(lease_expiry(expiry, now)),
                    None => read_lost(context, queue, lease)?,
                };
            }
        }
    }
    Ok(renewed)
}

/// Reads the row of a lease that is not held.
fn read_lost(
    context: &WriteContext,
    queue: &QueueStatements,
    lease: &LeaseRef,
) -> Result<Renewed, StoreError> {
    let mut statement = context.connection.prepare_cached(&queue.sql.read_lost)?;
    bind_key(&mut statement, &lease.key)?;
    // The statement does not use ?4 to ?6, token, time and expiry.
    bind(&mut statement, 4, &[&Null, &Null, &Null, &lease.fence])?;
    let mut rows = statement.raw_query();
    let Some(row) = rows.next()? else {
        return Ok(Renewed::UNKNOWN);
    };
    Ok(Renewed::Lost {
        state: integer(row, 0)?.and_then(State::from_code),
        cancel_reason: text(row, 1)?,
    })
}
