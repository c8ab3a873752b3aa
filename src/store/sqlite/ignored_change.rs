//! Changes that the table has ignored, as a trigger with `RAISE(IGNORE)` or a constraint with ON CONFLICT IGNORE makes it do.
//!
//! A statement that changes no row tells nothing about the reason. If the row is still as the statement needs it, the table has ignored
//! the change. This is a refusal of the row, like an error of a trigger.

use lease_broker_model::lease_id::LeaseRef;

use super::error::unchanged_row;
use super::held_expiry::read_held;
use super::queue_statements::QueueStatements;
use super::write_context::WriteContext;
use crate::{Problem, StoreError};

/// Returns the refusal if the lease is still held, although a statement that needs nothing else has not changed its row.
pub(super) fn refusal_of_held(
    context: &WriteContext,
    queue: &QueueStatements,
    lease: &LeaseRef,
) -> Result<Option<Problem>, StoreError> {
    let is_held = read_held(context, queue, lease)?.is_some();
    Ok(is_held.then(unchanged_row))
}
