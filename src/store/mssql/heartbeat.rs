//! Heartbeats: extends leases that their workers still hold.

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
        let table = self.queue(queue)?;
        // Of several extensions of one lease the last decides, and each is answered as if it stood alone.
        let leases = extensions.iter().map(|extension| &extension.lease);
        let names: Vec<_> = leases
            .map(|lease| (lease.token, lease.fence, lease.key.to_string()))
            .collect();
        let last_of: HashMap<_, usize> = names.iter().zip(0..).collect();
        let mut list = Vec::new();
        for (at, extension) in extensions.iter().enumerate() {
            let lease = &extension.lease;
            if last_of[&names[at]] == at && table.can_have_key(&lease.key) {
                let mut entry = QueueStatements::lease_entry(at, lease);
                entry.insert("d", json!(millis_rounded_up(extension.duration)));
                list.push(entry);
            }
        }
        let wire = ListParameters::new(vec![list]);
        let extend = &table.sql.extend;
        let results = self
            .pool
            .query(extend, &wire.parameters(), RetrySafety::Idempotent)
            .await?;
        let mut held = vec![None; extensions.len()];
        for row in decode::result_set(&results, 0)? {
            held[decode::request_index(row, 0, extensions.len())?] =
                Some(decode::lease_expiry(row, 1, 2)?);
        }
        for (at, extension) in extensions.iter().enumerate() {
            let decisive = last_of[&names[at]];
            if decisive != at {
                let longer = millis_rounded_up(extension.duration)
                    - millis_rounded_up(extensions[decisive].duration);
                held[at] = held[decisive].map(|held| Held {
                    expire_time: held.expire_time + longer,
                    time_left: extension.duration,
                });
            }
        }
        Ok(held)
    }
}
