//! Extends leases.

use super::clock::lease_expiry;
use super::statement::{Token, bind, bind_key};
use super::writer::WriteContext;
use crate::store::millis::millis_rounded_up;
use crate::store::{LeaseExpiry, QueueIndex, Renewal, StoreError};

/// Extends each lease that is still held. See [`Store::heartbeat`](crate::store::Store::heartbeat).
pub(super) fn heartbeat(
    context: &WriteContext,
    queue: QueueIndex,
    renewals: &[Renewal],
) -> Result<Vec<Option<LeaseExpiry>>, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let mut extend = context.connection.prepare_cached(&queue.sql.extend)?;
    renewals
        .iter()
        .map(|Renewal { lease, duration }| {
            if lease.key.0.len() != queue.key_len {
                return Ok(None);
            }
            let expiry = now.saturating_add(millis_rounded_up(*duration));
            bind_key(&mut extend, &lease.key)?;
            bind(
                &mut extend,
                4,
                &[&Token(&lease.token), &now, &expiry, &lease.fence],
            )?;
            let extended = extend.raw_execute()? > 0;
            Ok(extended.then(|| lease_expiry(expiry, now)))
        })
        .collect()
}
