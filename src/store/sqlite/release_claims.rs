//! Releases the leases of claims whose callers did not get them.

use lease_broker_model::item_state::State;
use uuid::Uuid;

use super::statement::{Token, bind};
use super::writer::WriteContext;
use crate::{QueueIndex, ReleasedClaims, StoreError};

/// Releases the leases with these tokens. See [`Leases::release_claims`](crate::Leases::release_claims).
pub(super) fn release_claims(
    context: &WriteContext,
    queue: QueueIndex,
    tokens: &[Uuid],
) -> Result<ReleasedClaims, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let mut find = context.connection.prepare_cached(&queue.sql.find_claim)?;
    let mut release = context
        .connection
        .prepare_cached(&queue.sql.release_claim)?;
    let mut released = ReleasedClaims::default();
    for token in tokens {
        bind(&mut find, 4, &[&Token(token), &now])?;
        let mut rows = find.raw_query();
        while let Some(row) = rows.next()? {
            released
                .ended
                .push(queue.read_ended(row, now, State::Ready)?);
        }
        bind(&mut release, 4, &[&Token(token), &now])?;
        released.counts.push(release.raw_execute()?);
    }
    Ok(released)
}
