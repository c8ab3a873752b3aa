//! Releases the leases of claims whose callers did not get them.

use std::collections::HashSet;

use lease_broker_model::item_state::State;
use serde_json::json;
use uuid::Uuid;

use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::operations::MssqlOperations;
use crate::{QueueIndex, ReleasedClaims, StoreError};

/// Maximum number of leases that one batch releases (`release_claims.sql`).
const MAX_RELEASED: usize = 1_000;

impl MssqlOperations {
    pub(super) async fn release_claims(
        &self,
        queue: QueueIndex,
        tokens: &[Uuid],
    ) -> Result<ReleasedClaims, StoreError> {
        let queue = self.queue(queue)?;
        let mut seen = HashSet::new();
        let mut list = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            if seen.insert(token) {
                let mut entry = ListEntry::default();
                entry.insert("i", json!(index));
                entry.insert("t", json!(token.to_string()));
                list.push(entry);
            }
        }
        let parameters = ListParameters::new(vec![list]);
        let mut released = ReleasedClaims {
            counts: vec![0; tokens.len()],
            ended: Vec::new(),
        };
        loop {
            let results = self
                .pool
                .query(
                    &queue.sql.release_claims,
                    &parameters.parameters(),
                    RetrySafety::Idempotent,
                )
                .await
                .map_err(StoreError::from);
            // Earlier batches have released leases.
            let results = results.map_err(|error| {
                if released.ended.is_empty() {
                    error
                } else {
                    error.maybe_applied()
                }
            })?;
            let rows = decode::result_set(&results, 0)?;
            for row in rows {
                let index = decode::request_index(row, 0, tokens.len())?;
                released.counts[index] += 1;
                released.ended.push(queue.read_ended(row, 1, State::Ready)?);
            }
            if rows.len() < MAX_RELEASED {
                return Ok(released);
            }
        }
    }
}
