//! The batches of operations on many items.

use std::collections::HashSet;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_sql::LeaseSql;
use serde_json::json;
use tiberius::ToSql;

use super::cancel::entry_of;
use super::decode;
use super::error::{into_refusal, into_rejection};
use super::list_parameters::{ListEntry, ListParameters};
use super::new_item::insert_delay;
use super::operation_rows::millis;
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::run_parts;
use super::settle::MAX_ERROR_UNITS;
use super::statement_parts::{roll_back_on_error, with_key_list};
use super::utf16::cut;
use crate::adoption::with;
use crate::contract::ready_after;
use crate::template::{Placeholders, render};
use crate::{
    AppliedBatch, Checkpoints, ItemChange, OperationBatch, OperationState, QueueIndex, StoreError,
};

/// The parameters of a batch.
pub(super) struct BatchParameters<'a> {
    lists: ListParameters,
    id: String,
    holder: String,
    hold: i32,
    position: &'a str,
    error: &'a str,
    end: i32,
    batch: &'a OperationBatch,
}

impl<'a> BatchParameters<'a> {
    pub(super) fn new(queue: &QueueStatements, batch: &'a OperationBatch) -> Self {
        let error = batch.error.as_deref().unwrap_or_default();
        let end = batch.end.map_or(0, OperationState::code);
        Self {
            lists: ListParameters::new(vec![
                item_entries(queue, batch),
                vec![change_entry(queue, &batch.change)],
            ]),
            id: batch.id.to_string(),
            holder: batch.holder.to_string(),
            hold: millis(batch.hold_for),
            position: batch.position.as_deref().unwrap_or_default(),
            error: cut(error, MAX_ERROR_UNITS),
            end: i32::try_from(end).unwrap_or_default(),
            batch,
        }
    }

    pub(super) fn all(&self) -> Vec<&dyn ToSql> {
        self.lists.and(&[
            &self.id,
            &self.holder,
            &self.batch.number,
            &self.hold,
            &self.position,
            &self.batch.examined,
            &self.batch.refused,
            &self.error,
            &self.end,
        ])
    }
}

impl MssqlOperations {
    pub(super) async fn apply_batch(
        &self,
        queue: QueueIndex,
        batch: &OperationBatch,
    ) -> Result<AppliedBatch, StoreError> {
        let queue = self.queue(queue)?;
        let parameters = BatchParameters::new(queue, batch);
        let sql = queue.render_apply(&batch.change);
        // A second run finds that the batch has counted, unless the first was rolled back.
        // The caller divides a batch that is refused, and sends one without items at last.
        let convert = if batch.items.is_empty() {
            into_rejection
        } else {
            into_refusal
        };
        let results = self
            .query_idempotent(&sql, &parameters.all())
            .await
            .map_err(convert)?;
        let Some(changed) = results.first().and_then(|rows| rows.first()) else {
            return Ok(AppliedBatch::default());
        };
        let mut applied = AppliedBatch {
            changed: Some(decode::integer_as(changed, 0)?),
            ..AppliedBatch::default()
        };
        for row in results.iter().skip(1).flatten() {
            if let Some(released) = queue.read_later(row)? {
                applied.released.push(released);
                continue;
            }
            let state = decode::state(row, 1)?;
            applied.ended.push(queue.read_ended(row, 2, state)?);
        }
        Ok(applied)
    }
}

/// Returns the entries of the items of a batch. A statement may name a row only once.
fn item_entries(queue: &QueueStatements, batch: &OperationBatch) -> Vec<ListEntry> {
    let mut seen = HashSet::new();
    let items = batch.items.iter();
    let items = items.filter(|(key, _)| queue.can_have_key(key) && seen.insert(key.to_string()));
    let entry = |(index, (key, fence)): (usize, &(Key, i64))| {
        QueueStatements::cancelled_entry(index, key, Some(*fence))
    };
    items.enumerate().map(entry).collect()
}

/// Returns the entry that describes the change (operation.sql names the fields).
fn change_entry(queue: &QueueStatements, change: &ItemChange) -> ListEntry {
    let (state, delay) = match change {
        ItemChange::Cancel(cancellation) => return entry_of(queue, cancellation),
        ItemChange::Purge(state) => (*state, None),
        ItemChange::Redrive { delay, .. } => ready_after(*delay),
    };
    let mut entry = ListEntry::default();
    entry.insert("n", json!(state.code()));
    insert_delay(&mut entry, delay);
    entry
}

impl QueueStatements {
    /// Renders the batch that makes a change.
    pub(super) fn render_apply(&self, change: &ItemChange) -> String {
        let sql = &self.lease_sql;
        let mut placeholders = with_key_list(sql, &self.placeholders);
        let state_time = &self.placeholders["lease_state_time"];
        // As `fits_not_since` in search.sql.
        let not_since = format!(
            " AND (t.{state_time} IS NULL OR t.{state_time} <= @created OR t.{state_time} > @now)"
        );
        placeholders.insert("held_since", not_since);
        run_parts::set_in_cancellation(&mut placeholders, sql, &self.spec);
        let (change_items, read_ended) = match change {
            ItemChange::Cancel(_) => (
                render(sql.cancel, "end_held", &placeholders),
                render(sql.cancel, "read_ended", &placeholders),
            ),
            ItemChange::Redrive {
                keep_attempts,
                checkpoints,
                ..
            } => {
                let attempt = &self.placeholders["lease_attempt"];
                let attempt = Some(format!(", {attempt} = 0")).filter(|_| !keep_attempts);
                let clear = *checkpoints == Checkpoints::Clear;
                let checkpoint = self.checkpoint.as_ref().filter(|_| clear);
                let checkpoint =
                    checkpoint.map(|column| format!(", {} = NULL", quote(&column.name)));
                placeholders.insert("redriven_attempt", attempt.unwrap_or_default());
                placeholders.insert("redriven_checkpoint", checkpoint.unwrap_or_default());
                (
                    change_of(sql, &placeholders, "redrive_items", State::Dead),
                    String::new(),
                )
            }
            ItemChange::Purge(state) => (
                change_of(sql, &placeholders, "purge_items", *state),
                String::new(),
            ),
        };
        let placeholders = with(
            &placeholders,
            [
                (
                    "read_cancellation",
                    render(sql.cancel, "read_cancellation", &placeholders),
                ),
                ("change_items", change_items),
                ("read_ended", read_ended),
            ],
        );
        roll_back_on_error(
            render(sql.operation, "apply", &placeholders),
            self.has_triggers,
        )
    }
}

/// Renders a section that changes items of `state`.
fn change_of(sql: &LeaseSql, placeholders: &Placeholders, section: &str, state: State) -> String {
    let mut placeholders = with(placeholders, [("state", state.code().to_string())]);
    let find = render(sql.operation, "find_items", &placeholders);
    placeholders.insert("find_items", find);
    render(sql.operation, section, &placeholders)
}
