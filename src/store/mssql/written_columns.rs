//! The columns and checkpoints that settlements write into their items' rows: checks, values, and the sections of the batch.
//!
//! A batch has one UPDATE for all of its settlements, and they can write different columns. So the UPDATE sets each column
//! that any of them writes, and keeps the stored value in the rows of the others.

use lease_broker_value::Value;
use serde_json::{Value as Json, json};

use super::catalogue::Column;
use super::list_parameters::{EntryValue, ListEntry};
use super::new_item::{has_unsupported_characters, json_declaration, value_from_json};
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::statement_parts::with_lease_list;
use crate::template::render;
use crate::{Ending, Refusal, Rejection, Settlement, StoreError, written_columns};

const ENQUEUE: &str = lease_broker_sql::mssql::ENQUEUE;

/// The number of the list of leases in a batch.
const LEASE_LIST: usize = 0;

impl QueueStatements {
    /// Returns the refusal of the first column that the settlement cannot write, or `None`.
    pub(super) fn refused_column_of(&self, settlement: &Settlement) -> Option<Refusal> {
        let check = |name: &str, column: &Column, value: &Value| {
            self.encode_value(name, column, value).map(drop)
        };
        written_columns::refusal(&self.spec.name, settlement, &self.writable, check)
    }

    /// Returns the columns that any of these settlements writes, sorted by name, so that equal sets of columns give equal
    /// batches.
    pub(super) fn columns_written_by<'a>(
        &self,
        settlements: impl Iterator<Item = &'a Settlement> + Clone,
    ) -> Vec<&Column> {
        let checkpoint = self.checkpoint_written_by(settlements.clone());
        let names = settlements.flat_map(|settlement| &settlement.columns);
        let mut columns: Vec<&Column> = names
            .filter_map(|(name, _)| self.writable.get(name))
            .chain(checkpoint)
            .collect();
        columns.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        columns.dedup_by(|one, other| one.name == other.name);
        columns
    }

    /// Returns the column of the checkpoint if any of these settlements stores one.
    pub(super) fn checkpoint_written_by<'a>(
        &self,
        mut settlements: impl Iterator<Item = &'a Settlement>,
    ) -> Option<&Column> {
        let column = self.checkpoint.as_ref()?;
        let stores = settlements.any(|settlement| settlement.checkpoint.is_some());
        stores.then_some(column)
    }

    /// Adds the values that the settlement writes to its entry in the list of leases. `written` are the columns of the
    /// batch.
    ///
    /// # Errors
    /// [`StoreError::Bug`] if [`Self::refused_column_of`] refuses one of them.
    pub(super) fn insert_columns(
        &self,
        written: &[&Column],
        settlement: &Settlement,
        entry: &mut ListEntry,
    ) -> Result<(), StoreError> {
        for (name, value) in &settlement.columns {
            let index = written.iter().position(|column| column.name == *name);
            let index =
                index.ok_or_else(|| StoreError::Bug(format!("{name:?} is not writable")))?;
            let value = self.encode_value(name, written[index], value);
            entry.insert(format!("h{index}"), json!(1));
            entry.insert(format!("c{index}"), value.map_err(StoreError::Bug)?);
        }
        if let Some(index) = written.iter().position(|column| self.is_checkpoint(column)) {
            let completes = matches!(settlement.ending, Ending::Complete { .. });
            let removed = completes.then_some(&[][..]);
            if let Some(checkpoint) = settlement.checkpoint.as_deref().or(removed) {
                entry.insert(format!("h{index}"), json!(1));
                entry.insert(format!("c{index}"), stored_checkpoint(checkpoint));
            }
        }
        Ok(())
    }

    fn is_checkpoint(&self, column: &Column) -> bool {
        let mut checkpoint = self.checkpoint.iter();
        checkpoint.any(|checkpoint| checkpoint.name == column.name)
    }

    /// Renders `update_ended` so that it also writes these columns, after the sections that it needs.
    pub(super) fn render_update_writing(&self, written: &[&Column]) -> String {
        let columns = || written.iter().copied().enumerate();
        let sql = &self.lease_sql;
        let mut placeholders = with_lease_list(sql, sql.settle, &self.placeholders);
        if written.iter().any(|column| self.is_checkpoint(column)) {
            placeholders.insert("clear_checkpoint", String::new());
        }
        let mut add = |placeholder: &'static str, rendered: Vec<String>| {
            let text = placeholders.entry(placeholder).or_default();
            text.push_str(&rendered.concat());
        };
        let value = |(index, column)| {
            let value = value_from_json(index, column, LEASE_LIST);
            format!(", j.h{index} AS lb_h{index}, {value} AS lb_c{index}")
        };
        add("extra_columns", columns().map(value).collect());
        let field = |(index, column)| {
            let value = json_declaration(index, column);
            format!(", h{index} tinyint '$.h{index}', {value}")
        };
        add("extra_json", columns().map(field).collect());
        let set = |(index, column): (usize, &Column)| {
            let name = quote(&column.name);
            format!(", {name} = CASE l.lb_h{index} WHEN 1 THEN l.lb_c{index} ELSE t.{name} END")
        };
        add("written_columns", columns().map(set).collect());
        let values =
            columns().map(|(index, column)| format!(", {}", json_declaration(index, column)));
        add("item_json_schema", values.collect());
        placeholders.insert("list_parameter", "@P6".to_owned());
        placeholders.insert("list_number", LEASE_LIST.to_string());
        let lease_list = render(sql.leases, "lease_list", &placeholders);
        placeholders.insert("lease_list", lease_list);
        let mut sections = Vec::new();
        if written.iter().any(|column| column.has_long_texts()) {
            sections.push(render(ENQUEUE, "read_long_texts", &placeholders));
        }
        let bad_character = columns().filter_map(|(index, column)| {
            let collation = column.character_set()?;
            let is_bad = has_unsupported_characters(index, column, LEASE_LIST, collation);
            Some(format!(", CASE WHEN {is_bad} THEN {index} END"))
        });
        let bad_character: String = bad_character.collect();
        if !bad_character.is_empty() {
            let index = format!("COALESCE(NULL{bad_character})");
            placeholders.insert("bad_character_index", index);
            sections.push(render(ENQUEUE, "check_characters", &placeholders));
        }
        sections.push(render(sql.settle, "update_ended", &placeholders));
        sections.join("\n")
    }

    /// Returns the refusal of the item's row, with the written column that the server's message names.
    pub(super) fn name_written_column(
        &self,
        rejection: Rejection,
        settlement: &Settlement,
    ) -> Refusal {
        let mut columns = settlement.columns.clone();
        columns.sort_by(|(one, _), (other, _)| one.cmp(other));
        let problem = rejection.problem.clone();
        let named = self.name_refused_column(StoreError::Rejected(rejection), &columns);
        if let StoreError::Rejected(Rejection {
            column: Some(column),
            ..
        }) = named
            && columns.iter().any(|(name, _)| *name == column)
        {
            return Refusal::of_column(&column, problem);
        }
        Refusal::of_row(problem)
    }
}

/// Returns the value of the checkpoint column: NULL for an empty checkpoint, which removes the stored one.
pub(super) fn stored_checkpoint(checkpoint: &[u8]) -> EntryValue {
    if checkpoint.is_empty() {
        Json::Null.into()
    } else {
        EntryValue::Bytes(checkpoint.to_vec())
    }
}
