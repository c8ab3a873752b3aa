//! Keeps the traces of leases in their rows.

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use serde_json::json;

use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use crate::{QueueIndex, StoreError, TraceNote};

impl MssqlOperations {
    pub(super) async fn note_traces(
        &self,
        queue: QueueIndex,
        notes: &[TraceNote],
    ) -> Result<(), StoreError> {
        let queue = self.queue(queue)?;
        let notes = notes.iter().enumerate();
        let notes = notes.filter(|(_, note)| queue.can_have_key(&note.lease.key));
        let list = notes.map(|(index, note)| {
            let mut entry = QueueStatements::lease_entry(index, &note.lease);
            entry.insert("c", json!(note.context.to_string()));
            entry
        });
        let list: Vec<ListEntry> = list.collect();
        if list.is_empty() {
            return Ok(());
        }
        let parameters = ListParameters::new(vec![list]);
        let sql = &queue.sql.trace.note;
        let safety = RetrySafety::Idempotent;
        self.pool
            .query(sql, &parameters.parameters(), safety)
            .await?;
        Ok(())
    }

    pub(super) async fn find_expired_untraced(
        &self,
        queue: QueueIndex,
        limit: usize,
    ) -> Result<(Vec<LeaseRef>, i64), StoreError> {
        let queue = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let sql = &queue.sql.trace.find_expired;
        let safety = RetrySafety::Idempotent;
        let results = self.pool.query(sql, &[&limit], safety).await?;
        let rows = decode::result_set(&results, 0)?.iter();
        let leases = rows.map(|row| queue.read_lease(row, 0));
        let time = decode::time(decode::single_row(&results, 1)?, 0)?;
        Ok((leases.collect::<Result<_, StoreError>>()?, time))
    }

    pub(super) async fn find_leased_untraced(
        &self,
        queue: QueueIndex,
        keys: &[Key],
    ) -> Result<Vec<LeaseRef>, StoreError> {
        let queue = self.queue(queue)?;
        let parameters = ListParameters::new(vec![queue.key_entries(keys)]);
        let sql = &queue.sql.trace.find_leased;
        let safety = RetrySafety::Idempotent;
        let results = self
            .pool
            .query(sql, &parameters.parameters(), safety)
            .await?;
        let rows = decode::result_set(&results, 0)?.iter();
        rows.map(|row| queue.read_lease(row, 0)).collect()
    }
}
