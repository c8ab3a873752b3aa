//! Claims: leases ready items to one or several calls.

use std::collections::HashMap;

use serde_json::json;
use tiberius::Row;
use uuid::Uuid;

use super::MssqlOperations;
use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::queue_statements::QueueStatements;
use super::types;
use crate::lease_id::LeaseRef;
use crate::store::millis::millis_rounded_up;
use crate::store::{ClaimCall, ClaimedItem, QueueIndex, StoreError};

impl MssqlOperations {
    pub(super) async fn claim(
        &self,
        queue: QueueIndex,
        calls: &[ClaimCall],
    ) -> Result<Vec<Vec<ClaimedItem>>, StoreError> {
        let queue = self.queue(queue)?;
        // Calls with the same token are the same request. Only the first of them is sent. The others get its leases.
        let mut first_index: HashMap<Uuid, usize> = HashMap::new();
        let mut list = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            if *first_index.entry(call.token).or_insert(index) == index {
                let mut entry = ListEntry::default();
                entry.insert("o", json!(index));
                entry.insert("n", json!(call.max_items));
                entry.insert("w", json!(call.worker));
                entry.insert("t", json!(call.token.to_string()));
                entry.insert("d", json!(millis_rounded_up(call.duration)));
                entry.insert("r", json!(call.has_request_id));
                list.push(entry);
            }
        }
        let parameters = ListParameters::new(vec![list]);
        let sql = if calls.iter().any(|call| call.has_request_id) {
            &queue.sql.claim_with_retries
        } else {
            &queue.sql.claim
        };
        // A call with a request id finds the leases of its first run by their token. Only if every call has one, the
        // batch may run again after its reply was lost. Otherwise the leases of a lost reply would stay unused until
        // they expire.
        let retry_safety = if calls.iter().all(|call| call.has_request_id) {
            RetrySafety::Idempotent
        } else {
            RetrySafety::AtMostOnce
        };
        let results = self
            .pool
            .query(sql, &parameters.parameters(), retry_safety)
            .await?;
        // The batch returns at least one result set, even if that is empty.
        decode::result_set(&results, 0)?;
        let mut items: Vec<Vec<ClaimedItem>> = vec![Vec::new(); calls.len()];
        // If the batch looks for retried claims, the first result set has the leases that they already hold. The last
        // result set has the new leases.
        for row in results.iter().flatten() {
            // On Babelfish, which ignores the lock hints, a row can be a lease of another claim. Its token is not in
            // this list.
            if let Some(index) = first_index.get(&decode::token(row, 0)?) {
                items[*index].push(read_item(queue, &calls[*index], row)?);
            }
        }
        for (index, call) in calls.iter().enumerate() {
            let first = first_index[&call.token];
            if first != index {
                let same_items = items[first].clone();
                items[index] = same_items;
            }
        }
        Ok(items)
    }
}

/// Reads a leased item. The columns are the token, the server's time, the key, fence, attempt, expiry, trace context
/// and the queue's data columns.
fn read_item(
    queue: &QueueStatements,
    call: &ClaimCall,
    row: &Row,
) -> Result<ClaimedItem, StoreError> {
    let fence = 2 + queue.key.len();
    let data = fence + 4..row.len();
    if data.len() != queue.columns.len() {
        return Err(decode::unexpected(format!(
            "an item with {} columns",
            row.len()
        )));
    }
    let columns = data.map(|column| types::decode(row.get_column_data(column)?));
    Ok(ClaimedItem {
        lease: LeaseRef {
            key: queue.read_key(row, 2)?,
            token: call.token,
            fence: decode::integer(row, fence)?,
            attempt: decode::integer_as(row, fence + 1)?,
        },
        expiry: decode::lease_expiry(row, 1, fence + 2)?,
        columns: columns.collect::<Result<_, StoreError>>()?,
        trace_parent: decode::optional_text(row, fence + 3)?,
    })
}
