//! Releases the leases of claims whose callers did not get them.

use uuid::Uuid;

use super::statement::{Token, bind};
use super::writer::WriteContext;
use crate::store::{QueueIndex, StoreError};

/// Releases the leases with these tokens. See [`Store::release_claims`](crate::store::Store::release_claims).
pub(super) fn release_claims(
    context: &WriteContext,
    queue: QueueIndex,
    tokens: &[Uuid],
) -> Result<Vec<usize>, StoreError> {
    let sql = &context.queue(queue)?.sql.release_claim;
    let now = context.now();
    let mut statement = context.connection.prepare_cached(sql)?;
    tokens
        .iter()
        .map(|token| {
            bind(&mut statement, 4, &[&Token(token), &now])?;
            Ok(statement.raw_execute()?)
        })
        .collect()
}
