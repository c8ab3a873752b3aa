//! Releases the leases of claims whose callers did not get them.

use std::collections::HashSet;

use lease_broker_model::item_state::State;
use serde_json::json;
use uuid::Uuid;

use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::operations::MssqlOperations;
use super::parts::Parts;
use super::queue_statements::QueueStatements;
use crate::{QueueIndex, ReleasedClaims, StoreError};

/// Maximum number of leases that one batch releases (`release_claims.sql`).
const MAX_RELEASED: usize = 1_000;

impl MssqlOperations {
    pub(super) async fn release_claims(
        &self,
        queue: QueueIndex,
        tokens: &[Uuid],
    ) -> Result<ReleasedClaims, StoreError> {
        self.release_tokens(self.queue(queue)?, tokens).await
    }

    /// Releases the leases of the claims with these tokens.
    pub(super) async fn release_tokens(
        &self,
        queue: &QueueStatements,
        tokens: &[Uuid],
    ) -> Result<ReleasedClaims, StoreError> {
        let mut released = ReleasedClaims {
            counts: vec![0; tokens.len()],
            ..ReleasedClaims::default()
        };
        let mut seen = HashSet::new();
        let is_first = |index: &usize| seen.insert(tokens[*index]);
        let mut parts = Parts::of((0..tokens.len()).filter(is_first).collect());
        while let Some(part) = parts.next() {
            let ended = self.release_part(queue, tokens, &part, &mut released);
            let ended = ended.await;
            let refusals = match parts.end(part, ended) {
                // Earlier batches have released leases.
                Err(error) if !released.ended.is_empty() => return Err(error.maybe_applied()),
                refusals => refusals?,
            };
            let locked = refusals.into_iter().map(|(index, _)| index);
            released.locked.extend(locked);
        }
        Ok(released)
    }

    /// Releases the leases of the claims at `indexes`, and adds them to `released`.
    async fn release_part(
        &self,
        queue: &QueueStatements,
        tokens: &[Uuid],
        indexes: &[usize],
        released: &mut ReleasedClaims,
    ) -> Result<(), StoreError> {
        let entry = |index: &usize| {
            let mut entry = ListEntry::default();
            entry.insert("i", json!(index));
            entry.insert("t", json!(tokens[*index].to_string()));
            entry
        };
        let parameters = ListParameters::new(vec![indexes.iter().map(entry).collect()]);
        loop {
            let mut tries = self.pool.tries().with_one_lock_wait();
            let results = tries
                .query(
                    &queue.sql.release_claims,
                    &parameters.parameters(),
                    RetrySafety::Idempotent,
                )
                .await?;
            let rows = decode::result_set(&results, 0)?;
            for row in rows {
                let index = decode::request_index(row, 0, tokens.len())?;
                released.counts[index] += 1;
                released.ended.push(queue.read_ended(row, 1, State::Ready)?);
            }
            if rows.len() < MAX_RELEASED {
                return Ok(());
            }
        }
    }
}
