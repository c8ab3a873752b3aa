//! Turns a new item into an insert statement and its parameters.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::types::Value as SqlValue;

use super::column_value::store;
use super::queue_statements::QueueStatements;
use super::quote::quote;
use crate::new_item::{check_item_size, check_key_length, insertable_column};
use crate::template::render;
use crate::{NewItem, Problem};

const ENQUEUE: &str = lease_broker_sql::sqlite::ENQUEUE;

impl QueueStatements {
    /// Returns the values to bind for the item's columns, in the item's order.
    ///
    /// # Errors
    /// The name of the first bad column and the reason.
    pub(super) fn encode_item(&self, item: &NewItem) -> Result<Vec<SqlValue>, (String, Problem)> {
        let is_key = |name: &str| self.key.iter().any(|key| key.name == name);
        let is_data = |name: &str| self.columns.iter().any(|column| column == name);
        check_key_length(item, is_key)?;
        check_item_size(item, self.item_size, &self.spec, is_key, is_data)?;
        item.columns
            .iter()
            .enumerate()
            .map(|(index, (name, value))| {
                let column = insertable_column(&self.spec.name, item, index, &self.insertable)?;
                let stored = store(value, *column);
                stored.map_err(|text| (name.clone(), Problem::unfit(text)))
            })
            .collect()
    }

    /// Returns the column that SQLite names in the message of a broken constraint, if it can be set by a new item.
    ///
    /// The two forms are "NOT NULL constraint failed: table.column" and "cannot store TEXT value in BLOB column
    /// table.column".
    pub(super) fn refused_column(&self, message: &str) -> Option<String> {
        let message = message.to_ascii_lowercase();
        let is_named = |column: &&String| {
            let name = format!("{}.{column}", self.spec.table).to_ascii_lowercase();
            message.strip_suffix(&name).is_some_and(|before| {
                before.ends_with("constraint failed: ") || before.ends_with(" column ")
            })
        };
        self.insertable.keys().find(is_named).cloned()
    }

    fn render_insert(&self, item: &NewItem) -> String {
        let mut placeholders = self.placeholders.clone();
        let (mirror_columns, mirror_values) = if item.delay.is_zero() {
            ("mirror_columns_ready", "mirror_values_ready")
        } else {
            ("mirror_columns_delayed", "mirror_values_delayed")
        };
        placeholders.insert("mirror_columns", self.placeholders[mirror_columns].clone());
        placeholders.insert("mirror_values", self.placeholders[mirror_values].clone());
        let mut columns = String::new();
        let mut values = String::new();
        for (parameter, (name, _)) in (5..).zip(&item.columns) {
            columns.extend([", ", &quote(name)]);
            values.extend([", ?", &parameter.to_string()]);
        }
        placeholders.insert("item_columns", columns);
        placeholders.insert("item_values", values);
        render(ENQUEUE, "insert", &placeholders)
    }
}

/// The inputs that decide the text of an insert: the queue's index, true if the item is ready immediately, and the
/// columns that the item sets.
type InsertKey = (usize, bool, Vec<String>);

/// A cache of rendered insert statements.
#[derive(Default)]
pub(super) struct InsertStatements {
    rendered: RefCell<HashMap<InsertKey, Arc<str>>>,
}

impl InsertStatements {
    /// Returns the statement that inserts the item. [`QueueStatements::encode_item`] has checked its columns.
    pub(super) fn get(
        &self,
        queue: usize,
        statements: &QueueStatements,
        item: &NewItem,
    ) -> Arc<str> {
        /// The maximum number of cached statements. Callers choose the columns, so without a limit the cache could fill
        /// the memory. A full cache is cleared.
        const MAX_STATEMENTS: usize = 1_024;

        let columns = item.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut rendered = self.rendered.borrow_mut();
        if rendered.len() >= MAX_STATEMENTS {
            rendered.clear();
        }
        rendered
            .entry((queue, item.delay.is_zero(), columns))
            .or_insert_with(|| statements.render_insert(item).into())
            .clone()
    }
}
