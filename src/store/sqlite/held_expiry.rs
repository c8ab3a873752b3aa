//! Reads the expiry of a lease that is held, as the row has it.

use lease_broker_model::lease_id::LeaseRef;

use super::queue_statements::QueueStatements;
use super::soft_lock_value::integer;
use super::statement::{Token, bind, bind_key};
use super::write_context::WriteContext;
use crate::StoreError;

/// Returns the expiry in milliseconds since 1970. `None`: the lease is not held. Now, if another program has written a value that is no
/// time.
pub(super) fn read_held(
    context: &WriteContext,
    queue: &QueueStatements,
    lease: &LeaseRef,
) -> Result<Option<i64>, StoreError> {
    let mut statement = context.connection.prepare_cached(&queue.sql.find_held)?;
    bind_key(&mut statement, &lease.key)?;
    let (token, now) = (Token(&lease.token), context.now());
    // The statement does not use ?6, the new expiry.
    bind(&mut statement, 4, &[&token, &now, &now, &lease.fence])?;
    let mut rows = statement.raw_query();
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(integer(row, 0)?.unwrap_or(now)))
}
