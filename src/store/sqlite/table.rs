//! A queue's table with its statements, rendered once when the store is opened.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::types::Value as Sql;

use super::adopt::SqliteSchema;
use super::by_state;
use super::catalogue::Table;
use super::count::Counts;
use super::placeholders::QueueColumns;
use super::quote::{quote, quote_all};
use super::types::{self, ColumnType};
use crate::item_state::State;
use crate::queue::QueueSpec;
use crate::store::template::{Placeholders, render};
use crate::store::{NewItem, StoreError, why_not_writable};
use crate::value::{Key, Value};

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../sql/sqlite/", $name, ".sql"))
    };
}

/// A queue over its table.
pub(super) struct QueueTable {
    pub(super) spec: QueueSpec,
    pub(super) key_len: usize,
    pub(super) key: Vec<String>,
    pub(super) columns: Arc<[String]>,
    pub(super) kinds: Vec<ColumnType>,
    pub(super) sql: Statements,
    writable: HashMap<String, ColumnType>,
    placeholders: Placeholders,
}

/// The queue's statements, named as the sections of their files.
pub(super) struct Statements {
    pub(super) held: String,
    pub(super) pick: String,
    pub(super) take: String,
    pub(super) leased: String,
    pub(super) extend: String,
    pub(super) complete: String,
    pub(super) delete: String,
    pub(super) archive: Option<String>,
    pub(super) archived: String,
    pub(super) fail: String,
    pub(super) release: String,
    pub(super) settled: String,
    pub(super) due: String,
    pub(super) expire: String,
    pub(super) promote: String,
    pub(super) next: String,
    pub(super) counts: Counts,
    pub(super) oldest_ready: String,
    pub(super) oldest_lease: String,
    /// By state.
    pub(super) list: [String; 5],
    pub(super) dead: String,
    pub(super) redrive: String,
}

impl QueueTable {
    /// Lays the queue over its table, which has been checked.
    pub(super) fn new(connection: &Connection, spec: &QueueSpec) -> Result<Self, StoreError> {
        let changed = || StoreError::Misconfigured(format!("table {:?} is gone", spec.table));
        let table = Table::read(connection, &spec.table)?.ok_or_else(changed)?;
        let shape = QueueColumns::new(spec, &table)
            .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
        let archived = SqliteSchema::archive_columns(connection, spec, &shape)?;
        let mut placeholders = shape.placeholders;
        placeholders.insert(
            "archive_columns",
            quote_all(archived.iter().map(String::as_str)),
        );
        let sql = Statements {
            held: render(file!("claim"), "held", &placeholders),
            pick: render(file!("claim"), "pick", &placeholders),
            take: render(file!("claim"), "take", &placeholders),
            leased: render(file!("claim"), "leased", &placeholders),
            extend: render(file!("heartbeat"), "extend", &placeholders),
            complete: render(file!("settle"), "complete", &placeholders),
            delete: render(file!("settle"), "delete", &placeholders),
            archive: (!archived.is_empty())
                .then(|| render(file!("settle"), "archive", &placeholders)),
            archived: render(file!("settle"), "archived", &placeholders),
            fail: render(file!("settle"), "fail", &placeholders),
            release: render(file!("settle"), "release", &placeholders),
            settled: render(file!("settle"), "settled", &placeholders),
            due: render(file!("reap"), "due", &placeholders),
            expire: render(file!("reap"), "expire", &placeholders),
            promote: render(file!("reap"), "promote", &placeholders),
            next: render(file!("reap"), "next", &placeholders),
            counts: Counts::new(spec, &placeholders),
            oldest_ready: render(file!("stats"), "oldest_ready", &placeholders),
            oldest_lease: by_state::render(
                spec,
                State::Leased,
                file!("stats"),
                "oldest_lease",
                &placeholders,
            ),
            list: State::ALL.map(|state| by_state::list(spec, state, &placeholders)),
            dead: render(file!("redrive"), "pick", &placeholders),
            redrive: render(file!("redrive"), "redrive", &placeholders),
        };
        Ok(Self {
            spec: spec.clone(),
            key_len: shape.key.len(),
            key: shape.key,
            columns: shape.columns.iter().map(|(name, _)| name.clone()).collect(),
            kinds: shape.columns.iter().map(|(_, kind)| *kind).collect(),
            sql,
            writable: shape.writable.into_iter().collect(),
            placeholders,
        })
    }

    /// Reads the key, which stands first in every row that a statement returns.
    pub(super) fn read_key(&self, row: &rusqlite::Row<'_>) -> rusqlite::Result<Key> {
        (0..self.key_len)
            .map(|at| Ok(types::read(row.get_ref(at)?)))
            .collect::<rusqlite::Result<Box<[Value]>>>()
            .map(Key)
    }

    /// Turns an item's values into what its columns store.
    ///
    /// # Errors
    /// The column to blame and what is wrong with it.
    pub(super) fn accept(&self, item: &NewItem) -> Result<Vec<Sql>, (String, String)> {
        item.columns
            .iter()
            .enumerate()
            .map(|(at, (name, value))| {
                if item.columns[..at]
                    .iter()
                    .any(|(earlier, _)| earlier == name)
                {
                    return Err((name.clone(), format!("the column {name:?} is named twice")));
                }
                let kind = self.writable.get(name).ok_or_else(|| {
                    let names = self.writable.keys();
                    (name.clone(), why_not_writable(&self.spec.name, name, names))
                })?;
                types::store(value, *kind).map_err(|problem| (name.clone(), problem))
            })
            .collect()
    }

    /// Returns the column that the message of a broken constraint blames: "NOT NULL constraint failed: table.column", or
    /// "cannot store TEXT value in BLOB column table.column".
    pub(super) fn blamed(&self, problem: &str) -> Option<String> {
        let problem = problem.to_ascii_lowercase();
        let is_blamed = |column: &&String| {
            let place = format!("{}.{column}", self.spec.table).to_ascii_lowercase();
            problem.strip_suffix(&place).is_some_and(|before| {
                before.ends_with("constraint failed: ") || before.ends_with(" column ")
            })
        };
        self.writable.keys().find(is_blamed).cloned()
    }

    fn insert(&self, item: &NewItem) -> String {
        let mut placeholders = self.placeholders.clone();
        let (columns, values) = if item.delay.is_zero() {
            ("mirror_columns_ready", "mirror_values_ready")
        } else {
            ("mirror_columns_delayed", "mirror_values_delayed")
        };
        placeholders.insert("mirror_columns", self.placeholders[columns].clone());
        placeholders.insert("mirror_values", self.placeholders[values].clone());
        let mut named = String::new();
        let mut values = String::new();
        for (at, (name, _)) in (5..).zip(&item.columns) {
            named.extend([", ", &quote(name)]);
            values.extend([", ?", &at.to_string()]);
        }
        placeholders.insert("named", named);
        placeholders.insert("named_values", values);
        render(file!("enqueue"), "insert", &placeholders)
    }
}

/// The queue, whether the item is ready at once, and the columns that it names.
type ItemShape = (usize, bool, Vec<String>);

/// The insert statements that a writer has rendered.
#[derive(Default)]
pub(super) struct Inserts {
    by_shape: RefCell<HashMap<ItemShape, Arc<str>>>,
}

impl Inserts {
    /// Returns the statement that adds an item with these columns, which [`QueueTable::accept`] has let pass.
    pub(super) fn get(&self, queue: usize, table: &QueueTable, item: &NewItem) -> Arc<str> {
        /// Items of very many shapes render anew rather than fill the memory.
        const MOST: usize = 1_024;

        let columns = item.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut by_shape = self.by_shape.borrow_mut();
        if by_shape.len() >= MOST {
            by_shape.clear();
        }
        let statement = by_shape.entry((queue, item.delay.is_zero(), columns));
        statement
            .or_insert_with(|| table.insert(item).into())
            .clone()
    }
}
