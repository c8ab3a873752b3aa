//! Keeps the traces of leases in their rows.

use serde_json::json;

use super::MssqlOperations;
use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::queue_statements::{
    ALL_DUE, QueueStatements, roll_back_on_error, with_key_list, with_lease_list,
};
use crate::key::Key;
use crate::lease_id::LeaseRef;
use crate::queue::QueueSpec;
use crate::store::template::{Placeholders, render};
use crate::store::{QueueIndex, StoreError, TraceNote};

const TRACE: &str = include_str!("../../../sql/mssql/trace.sql");

/// The rendered statements of `trace.sql`.
pub(super) struct TraceStatements {
    pub(super) note: String,
    pub(super) find_expired: String,
    pub(super) find_leased: String,
}

impl TraceStatements {
    pub(super) fn new(spec: &QueueSpec, placeholders: &Placeholders, has_triggers: bool) -> Self {
        let note = render(TRACE, "note_traces", &with_lease_list(TRACE, placeholders));
        let states = if spec.filtered_indexes {
            ALL_DUE
        } else {
            "= 1"
        };
        let mut with_states = placeholders.clone();
        with_states.insert("states", states.to_owned());
        let with_keys = with_key_list(placeholders);
        Self {
            note: roll_back_on_error(note, has_triggers),
            find_expired: render(TRACE, "find_expired_untraced", &with_states),
            find_leased: render(TRACE, "find_leased_untraced", &with_keys),
        }
    }
}

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
    ) -> Result<Vec<LeaseRef>, StoreError> {
        let queue = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let sql = &queue.sql.trace.find_expired;
        let safety = RetrySafety::Idempotent;
        let results = self.pool.query(sql, &[&limit], safety).await?;
        let rows = decode::result_set(&results, 0)?.iter();
        rows.map(|row| queue.read_lease(row, 0)).collect()
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
