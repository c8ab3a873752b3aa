//! Releases the leases of claims whose callers did not get them.

use lease_broker_model::item_state::State;
use uuid::Uuid;

use super::left_out::LeftOut;
use super::queue_statements::QueueStatements;
use super::row_error::change_fit_row;
use super::statement::{Token, bind, bind_key};
use super::write_context::WriteContext;
use crate::{EndedLease, QueueIndex, ReleasedClaims, StoreError};

/// Releases the leases with these tokens. See [`Leases::release_claims`](crate::Leases::release_claims).
pub(super) fn release_claims(
    context: &WriteContext,
    queue: QueueIndex,
    tokens: &[Uuid],
    left_out: &LeftOut,
) -> Result<ReleasedClaims, StoreError> {
    let queue = context.queue(queue)?;
    let (connection, now) = (&context.connection, context.now());
    let effects = context.lease_effects.of(connection, queue)?;
    let mut release = connection.prepare_cached(&queue.sql.release_claim)?;
    let mut released = ReleasedClaims::default();
    for token in tokens {
        let before = released.ended.len();
        for lease in find_claim(context, queue, token)? {
            let key = &lease.lease.key;
            let changed = left_out.change(context, key, effects.undone_by(), || {
                bind_key(&mut release, key)?;
                bind(&mut release, 5, &[&now])?;
                change_fit_row(connection, &mut release)
            })?;
            match changed {
                Ok(()) => released.ended.push(lease),
                Err(problem) => tracing::warn!(
                    queue = queue.spec.name,
                    %key,
                    problem = problem.text,
                    "lease not released: a constraint or a trigger refuses the change, so the lease stays until it expires"
                ),
            }
        }
        released.counts.push(released.ended.len() - before);
    }
    Ok(released)
}

/// Returns the leases of a claim that are held.
fn find_claim(
    context: &WriteContext,
    queue: &QueueStatements,
    token: &Uuid,
) -> Result<Vec<EndedLease>, StoreError> {
    let now = context.now();
    let mut find = context.connection.prepare_cached(&queue.sql.find_claim)?;
    bind(&mut find, 4, &[&Token(token), &now])?;
    let leases = find.raw_query();
    let leases = leases.mapped(|row| queue.read_ended(row, now, State::Ready));
    Ok(leases.collect::<Result<_, _>>()?)
}
