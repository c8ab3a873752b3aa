//! Heartbeats: extends leases that are still held.

use std::collections::HashMap;

use serde_json::json;

use super::Mssql;
use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListParameters, millis_rounded_up};
use super::queue_statements::QueueStatements;
use crate::store::{Extension, Held, QueueIndex, StoreError};

impl Mssql {
    pub(super) async fn heartbeat(
        &self,
        queue: QueueIndex,
        extensions: &[Extension],
    ) -> Result<Vec<Option<Held>>, StoreError> {
        let queue = self.queue(queue)?;
        // A statement may name a lease only once. If several extensions name the same lease, only the last one is sent. The
        // results of the others are computed from its result.
        let leases = extensions.iter().map(|extension| &extension.lease);
        let identities: Vec<_> = leases
            .map(|lease| (lease.token, lease.fence, lease.key.to_string()))
            .collect();
        let last_index: HashMap<_, usize> = identities.iter().zip(0..).collect();
        let mut list = Vec::new();
        for (index, extension) in extensions.iter().enumerate() {
            let lease = &extension.lease;
            if last_index[&identities[index]] == index && queue.can_have_key(&lease.key) {
                let mut entry = QueueStatements::lease_entry(index, lease);
                entry.insert("d", json!(millis_rounded_up(extension.duration)));
                list.push(entry);
            }
        }
        let parameters = ListParameters::new(vec![list]);
        let results = self
            .pool
            .query(
                &queue.sql.extend,
                &parameters.parameters(),
                RetrySafety::Idempotent,
            )
            .await?;
        let mut expiries = vec![None; extensions.len()];
        for row in decode::result_set(&results, 0)? {
            let index = decode::request_index(row, 0, extensions.len())?;
            expiries[index] = Some(decode::lease_expiry(row, 1, 2)?);
        }
        for (index, extension) in extensions.iter().enumerate() {
            let last = last_index[&identities[index]];
            if last != index {
                // Each extension is answered as if it were the only one for its lease.
                let difference = millis_rounded_up(extension.duration)
                    - millis_rounded_up(extensions[last].duration);
                expiries[index] = expiries[last].map(|expiry| Held {
                    expire_time: expiry.expire_time + difference,
                    time_left: extension.duration,
                });
            }
        }
        Ok(expiries)
    }
}
