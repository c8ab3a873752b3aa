//! Enqueue with a request id: adds items unless the request is remembered.

use lease_broker_model::key_bytes::{read_keys, write_keys};
use rusqlite::OptionalExtension as _;

use super::enqueue::enqueue;
use super::statement::Token;
use super::write_context::WriteContext;
use crate::contract::due_after;
use crate::template::plain;
use crate::{EnqueueOnce, EnqueuedOnce, QueueIndex, StoreError};

const ENQUEUE_ONCE: &str = lease_broker_sql::sqlite::ENQUEUE_ONCE;

/// Adds the items once. See [`Leases::enqueue_once`](crate::Leases::enqueue_once).
pub(super) fn enqueue_once(
    context: &WriteContext,
    index: QueueIndex,
    request: &EnqueueOnce,
) -> Result<EnqueuedOnce, StoreError> {
    let spec = &context.queue(index)?.spec;
    let (queue, request_id) = (&spec.name, Token(&request.request_id));
    let digest = request.digest();
    let remembered: Option<(Vec<u8>, Vec<u8>)> = context
        .connection
        .prepare_cached(&plain(ENQUEUE_ONCE, "find"))?
        .query_row((queue, &request_id), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((earlier, keys)) = remembered {
        if earlier != digest {
            return Ok(EnqueuedOnce::OtherItems);
        }
        let malformed = || StoreError::Bug("the keys of a request are malformed".to_owned());
        return Ok(EnqueuedOnce::Repeated(
            read_keys(&keys).ok_or_else(malformed)?,
        ));
    }
    let keys = enqueue(context, index, &request.items)?;
    let expiry = due_after(context.now(), spec.enqueue_memory);
    context
        .connection
        .prepare_cached(&plain(ENQUEUE_ONCE, "remember"))?
        .execute((queue, &request_id, &digest[..], write_keys(&keys), expiry))?;
    Ok(EnqueuedOnce::Added(keys))
}

/// Deletes requests whose time has passed. See [`Upkeep::forget_requests`](crate::Upkeep::forget_requests).
pub(super) fn forget_requests(context: &WriteContext, limit: usize) -> Result<usize, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut forget = context
        .connection
        .prepare_cached(&plain(ENQUEUE_ONCE, "forget"))?;
    Ok(forget.execute((context.now(), limit))?)
}
