//! Claims: leases ready items to one or more calls.

use std::collections::HashMap;

use serde_json::json;
use tiberius::Row;
use uuid::Uuid;

use super::Mssql;
use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters, millis_rounded_up};
use super::queue_statements::QueueStatements;
use super::types;
use crate::lease_id::LeaseRef;
use crate::store::{ClaimCall, ClaimedItem, QueueIndex, StoreError};

impl Mssql {
    pub(super) async fn claim(
        &self,
        queue: QueueIndex,
        calls: &[ClaimCall],
    ) -> Result<Vec<Vec<ClaimedItem>>, StoreError> {
        let table = self.queue(queue)?;
        // Of several calls of one request the first claims, and all get what it got.
        let mut first_of: HashMap<Uuid, usize> = HashMap::new();
        let mut list = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            if *first_of.entry(call.token).or_insert(at) == at {
                let mut entry = ListEntry::default();
                entry.insert("o", json!(at));
                entry.insert("n", json!(call.max_items));
                entry.insert("w", json!(call.worker));
                entry.insert("t", json!(call.token.to_string()));
                entry.insert("d", json!(millis_rounded_up(call.duration)));
                entry.insert("r", json!(call.repeat));
                list.push(entry);
            }
        }
        let wire = ListParameters::new(vec![list]);
        let sql = if calls.iter().any(|call| call.repeat) {
            &table.sql.claim_repeated
        } else {
            &table.sql.claim
        };
        // A claim that is sent again finds its leases by their token, if the first one was applied.
        let again = if calls.iter().all(|call| call.repeat) {
            RetrySafety::Idempotent
        } else {
            RetrySafety::AtMostOnce
        };
        let results = self.pool.query(sql, &wire.parameters(), again).await?;
        // There is a result at least, if an empty one.
        decode::result_set(&results, 0)?;
        let mut by_call: Vec<Vec<ClaimedItem>> = vec![Vec::new(); calls.len()];
        // What calls that are repeated have got before, if there are any such; and what is new.
        for row in results.iter().flatten() {
            // Without lock hints another claim may have been faster.
            if let Some(at) = first_of.get(&decode::token(row, 0)?) {
                by_call[*at].push(claimed(table, &calls[*at], row)?);
            }
        }
        for (at, call) in calls.iter().enumerate() {
            let first = first_of[&call.token];
            if first != at {
                let same = by_call[first].clone();
                by_call[at] = same;
            }
        }
        Ok(by_call)
    }
}

/// Reads token, now, key, fence, attempt, due time, trace context and the queue's columns.
fn claimed(
    table: &QueueStatements,
    call: &ClaimCall,
    row: &Row,
) -> Result<ClaimedItem, StoreError> {
    let at = 2 + table.key.len();
    let columns = at + 4..row.len();
    if columns.len() != table.columns.len() {
        return Err(decode::unexpected(format!(
            "an item of {} columns",
            row.len()
        )));
    }
    let columns = columns.map(|at| types::decode(row.get_column_data(at)?));
    Ok(ClaimedItem {
        lease: LeaseRef {
            key: table.read_key(row, 2)?,
            token: call.token,
            fence: decode::integer(row, at)?,
            attempt: decode::unsigned(row, at + 1)?,
        },
        held: decode::lease_expiry(row, 1, at + 2)?,
        columns: columns.collect::<Result<_, StoreError>>()?,
        trace_parent: decode::optional_text(row, at + 3)?,
    })
}
