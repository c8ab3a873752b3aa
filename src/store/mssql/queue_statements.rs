//! A queue's table with its statements, rendered once when the store is opened.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use tiberius::Row;

use super::catalogue::{Column, Table};
use super::connection::Connection;
use super::decode::unexpected;
use super::list_parameters::ListEntry;
use super::new_item::KeySource;
use super::placeholders::QueueColumns;
use super::quote::quote;
use super::types;
use crate::item_state::State;
use crate::lease_id::LeaseRef;
use crate::queue::{ClaimStrategy, OnComplete, QueueSpec, SoftLockColumn};
use crate::store::StoreError;
use crate::store::template::{Placeholders, render};
use crate::value::{Key, Value};

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../sql/mssql/", $name, ".sql"))
    };
}

/// A queue over its table.
pub(super) struct QueueStatements {
    pub(super) spec: QueueSpec,
    pub(super) key: Vec<Column>,
    pub(super) key_source: KeySource,
    pub(super) columns: Arc<[String]>,
    pub(super) sql: Statements,
    /// Every column's.
    pub(super) names: Vec<String>,
    pub(super) writable: HashMap<String, Column>,
    /// The unique indexes of one column, by name.
    pub(super) unique: Vec<(String, String)>,
    pub(super) placeholders: Placeholders,
}

/// The queue's statements, named as the sections of their files.
pub(super) struct Statements {
    pub(super) claim: String,
    /// A claim with calls that may be repeated.
    pub(super) claim_repeated: String,
    pub(super) extend: String,
    pub(super) settle: Settle,
    pub(super) reap: String,
    pub(super) stats: String,
    pub(super) exact_stats: String,
    /// By state.
    pub(super) list: [String; 5],
    pub(super) redrive: String,
}

/// The parts of a settlement.
pub(super) struct Settle {
    pub(super) begin: String,
    pub(super) note: String,
    pub(super) end: String,
    /// Of a queue that deletes.
    pub(super) delete: Option<String>,
    pub(super) sure: String,
    /// Of a queue that archives.
    pub(super) archive: Option<String>,
}

impl Settle {
    fn new(spec: &QueueSpec, placeholders: &Placeholders) -> Self {
        let part = |section| render(file!("settle"), section, placeholders);
        let delete = spec.on_complete == OnComplete::Delete;
        let archive = matches!(spec.on_complete, OnComplete::Archive(_));
        Self {
            begin: part("begin"),
            note: part("remember_ended"),
            end: part("update_ended"),
            delete: delete.then(|| part("delete_completed")),
            sure: part("verify_count"),
            archive: archive.then(|| part("move_to_archive")),
        }
    }
}

impl QueueStatements {
    /// Reads the queue's table, which has been checked, and lays the queue over it.
    pub(super) async fn read(
        connection: &mut Connection,
        spec: &QueueSpec,
    ) -> Result<Self, StoreError> {
        let gone = |name: &str| StoreError::Misconfigured(format!("table {name:?} is gone"));
        let table = Table::read(connection, &spec.table).await?;
        let table = table.ok_or_else(|| gone(&spec.table))?;
        let archive = match &spec.on_complete {
            OnComplete::Archive(name) => {
                let archive = Table::read(connection, name).await?;
                Some(archive.ok_or_else(|| gone(name))?)
            }
            _ => None,
        };
        let shape = QueueColumns::new(spec, &table)
            .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
        let key_source = KeySource::read(connection, spec, &shape.key).await?;
        Ok(Self::new(spec, &table, archive.as_ref(), shape, key_source))
    }

    /// Lays the queue over its table.
    pub(super) fn new(
        spec: &QueueSpec,
        table: &Table,
        archive: Option<&Table>,
        shape: QueueColumns,
        key_source: KeySource,
    ) -> Self {
        let mut placeholders = shape.placeholders;
        if let Some(archive) = archive {
            let kept = archive_columns(spec, &shape.own, archive);
            let names: Vec<String> = kept.iter().map(|name| quote(name)).collect();
            let of_t: Vec<String> = names.iter().map(|name| format!("t.{name}")).collect();
            placeholders.insert("archive_columns", names.join(", "));
            placeholders.insert("t_archive_columns", of_t.join(", "));
        }
        let turn = match spec.claim_strategy {
            ClaimStrategy::SkipLocked => String::new(),
            ClaimStrategy::AppLock => render(file!("claim"), "claim_lock", &placeholders) + "\n",
        };
        placeholders.insert("claim_lock", turn);
        let lease = render(file!("claim"), "lease_columns", &placeholders);
        placeholders.insert("lease_columns", lease);
        let list = |state: State| {
            let mut placeholders = placeholders.clone();
            placeholders.insert("state", state.code().to_string());
            render(file!("list"), "list", &placeholders)
        };
        let sql = Statements {
            list: State::ALL.map(list),
            claim: claim(&placeholders, false),
            claim_repeated: claim(&placeholders, true),
            extend: render(
                file!("heartbeat"),
                "extend",
                &with_leases(file!("heartbeat"), &placeholders),
            ),
            settle: Settle::new(spec, &with_leases(file!("settle"), &placeholders)),
            reap: reap(spec, &placeholders),
            stats: render(file!("stats"), "stats", &placeholders),
            exact_stats: exact_stats(&placeholders),
            redrive: render(file!("redrive"), "redrive", &placeholders),
        };
        let writable = shape.writable.into_iter();
        let columns = shape.columns.iter();
        Self {
            spec: spec.clone(),
            columns: columns.map(|column| column.name.clone()).collect(),
            names: table
                .columns
                .iter()
                .map(|column| column.name.clone())
                .collect(),
            key: shape.key,
            key_source,
            sql,
            unique: table
                .indexes
                .iter()
                .filter_map(|index| match &*index.columns {
                    [(column, _)] => Some((index.name.clone(), column.clone())),
                    _ => None,
                })
                .collect(),
            writable: writable
                .map(|column| (column.name.clone(), column))
                .collect(),
            placeholders,
        }
    }

    /// Returns whether a lease's key can be one of this table's.
    pub(super) fn can_have_key(&self, key: &Key) -> bool {
        key.0.len() == self.key.len() && !key.0.contains(&Value::Null)
    }

    /// Reads the key, whose columns stand in the row from `first` on.
    pub(super) fn read_key(&self, row: &Row, first: usize) -> Result<Key, StoreError> {
        let values = (first..).zip(&self.key).map(|(at, column)| {
            let value = types::decode(row.get_column_data(at)?)?;
            if column.kind.reads_as(&value) {
                return Ok(value);
            }
            Err(unexpected(format!(
                "{value:?} is no key of {}",
                column.name
            )))
        });
        Ok(Key(values.collect::<Result<_, StoreError>>()?))
    }

    /// Writes what names a lease in a statement's list.
    pub(super) fn lease_entry(place: usize, lease: &LeaseRef) -> ListEntry {
        let mut entry = ListEntry::default();
        entry.insert("i", json!(place));
        for (at, value) in (1..).zip(&lease.key.0) {
            entry.insert(format!("k{at}"), types::encode_key(value));
        }
        entry.insert("t", json!(lease.token.to_string()));
        entry.insert("f", json!(lease.fence));
        entry
    }
}

/// Renders a claim; `repeated`, with what calls need that may be repeated.
fn claim(placeholders: &Placeholders, repeated: bool) -> String {
    let mut placeholders = placeholders.clone();
    for part in ["find_retried_claims", "except_answered"] {
        let text = if repeated {
            render(file!("claim"), part, &placeholders) + "\n"
        } else {
            String::new()
        };
        placeholders.insert(part, text);
    }
    render(file!("claim"), "claim", &placeholders)
}

/// Fills the placeholders of `leases.sql`, with what a file adds to the list.
fn with_leases(file: &str, placeholders: &Placeholders) -> Placeholders {
    let mut placeholders = placeholders.clone();
    for (from, parts) in [
        (file, &["extra_columns", "extra_json"][..]),
        (file!("leases"), &["lease_list", "is_same_lease", "is_held"]),
    ] {
        for part in parts {
            let text = render(from, part, &placeholders);
            placeholders.insert(part, text);
        }
    }
    placeholders
}

/// Renders the statement that counts row by row, as where the server keeps no numbers.
fn exact_stats(placeholders: &Placeholders) -> String {
    let mut placeholders = placeholders.clone();
    placeholders.insert("can_use_statistics", "1 = 0".to_owned());
    render(file!("stats"), "stats", &placeholders)
}

/// Puts the reaper's batch together.
fn reap(spec: &QueueSpec, placeholders: &Placeholders) -> String {
    let (picks, next): (&[&str], _) = if spec.filtered_indexes {
        (&["IN (1, 2)"], "next_due")
    } else {
        (&["= 1", "= 2"], "next_due_unfiltered")
    };
    let pick = |states: &&str| {
        let mut placeholders = placeholders.clone();
        placeholders.insert("states", (*states).to_owned());
        render(file!("reap"), "pick_due", &placeholders)
    };
    let part = |section| render(file!("reap"), section, placeholders);
    let mut parts = vec![part("begin")];
    parts.extend(picks.iter().map(pick));
    if !spec.filtered_indexes {
        parts.push(part("keep_first_due"));
    }
    parts.extend([part("update_due"), part(next)]);
    parts.join("\n")
}

/// Returns the columns that a table and its archive share.
fn archive_columns(queue: &QueueSpec, own: &[Column], archive: &Table) -> Vec<String> {
    let own = own.iter().map(|column| column.name.as_str());
    let soft_lock = SoftLockColumn::ALL.map(|column| queue.soft_lock.name(column));
    let takes = |name: &&str| archive.column(name).is_some_and(|column| !column.generated);
    own.chain(soft_lock)
        .filter(takes)
        .map(str::to_owned)
        .collect()
}
