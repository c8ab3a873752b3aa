//! The SQL statements of one queue, and the columns whose values they take and return. Rendered once, when the store
//! opens.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use lease_broker_sql::LeaseSql;
use lease_broker_sql::sqlite::EPOCH;
use lease_broker_value::Value;
use rusqlite::Connection;

use super::catalogue::{Column, Table};
use super::column_value::read;
use super::placeholders;
use super::purge_statements::PurgeStatements;
use super::quote::{quote, quote_all};
use super::run_statements::{RunStatements, run_number};
use super::state_counts::CountStatements;
use super::state_index;
use super::suspect_statements::{PickStatements, SuspectStatements};
use super::turn_statements::TurnStatements;
use super::types::ColumnType;
use super::why_statements::WhyStatements;
use crate::adoption::{archive_columns, archive_name, with};
use crate::queue_columns::QueueColumns;
use crate::template::{Placeholders, plain, render};
use crate::{ItemSize, StoreError};

const STATS: &str = lease_broker_sql::sqlite::STATS;

/// A queue with its statements.
pub(super) struct QueueStatements {
    /// The configuration of the queue.
    pub(super) spec: QueueSpec,
    pub(super) key: Vec<Column>,
    /// The column that names groups. `None`: the queue has no groups.
    pub(super) group: Option<Column>,
    /// The columns that a claim returns.
    pub(super) data: Vec<Column>,
    /// The names of these columns.
    pub(super) columns: Arc<[String]>,
    /// The sizes of the items.
    pub(super) item_size: ItemSize,
    /// Whether a claim has met an item that exceeded its bytes. Later claims read the size of an item before they lease it.
    pub(super) has_large_items: AtomicBool,
    /// The columns that a new item can set, by name.
    pub(super) insertable: HashMap<String, ColumnType>,
    /// The columns that a settlement can write, by name.
    pub(super) writable: HashMap<String, ColumnType>,
    /// The columns by whose values operators can filter, by name.
    pub(super) filterable: HashMap<String, ColumnType>,
    /// The rendered statements.
    pub(super) sql: Statements,
    /// The templates of the statements. A settlement that writes columns is rendered later.
    pub(super) lease_sql: LeaseSql,
    /// The placeholders, kept for inserts. Their text depends on the columns that an item sets, so it is rendered
    /// later.
    pub(super) placeholders: Placeholders,
}

/// The SQL text of the statements. The fields have the names of the sections in `sql/sqlite`.
pub(super) struct Statements {
    pub(super) read_fence: String,
    pub(super) find_retried_leases: String,
    pub(super) pick_ready: PickStatements,
    pub(super) suspects: SuspectStatements,
    /// `None`: the queue has neither groups nor limits.
    pub(super) turn: Option<TurnStatements>,
    /// `None`: claims give no runs.
    pub(super) runs: Option<RunStatements>,
    pub(super) lease_row: String,
    pub(super) read_lease: String,
    pub(super) read_size: String,
    pub(super) set_aside: String,
    pub(super) set_full_aside: String,
    pub(super) extend: String,
    /// Extends and stores a checkpoint. `None` if the queue has no checkpoints.
    pub(super) extend_with_checkpoint: Option<String>,
    pub(super) read_lost: String,
    pub(super) find_held: String,
    pub(super) read_item: String,
    pub(super) cancel: String,
    pub(super) complete: String,
    pub(super) delete: String,
    /// `None` if the queue has no archive.
    pub(super) copy_to_archive: Option<String>,
    pub(super) delete_archived: String,
    pub(super) fail: String,
    pub(super) release: String,
    pub(super) find_owner: String,
    pub(super) find_earlier_settlement: String,
    pub(super) find_claim: String,
    pub(super) release_claim: String,
    pub(super) find_due: String,
    pub(super) expire: String,
    pub(super) promote: String,
    pub(super) next_due: String,
    pub(super) counts: CountStatements,
    pub(super) oldest_ready: String,
    pub(super) oldest_lease: String,
    /// One statement for each state, in the order of [`State::ALL`].
    pub(super) list: [String; 5],
    pub(super) why: WhyStatements,
    pub(super) purge: PurgeStatements,
}

impl QueueStatements {
    /// Reads the queue's table and renders the statements for it. The table has passed
    /// [`Schema::check`](crate::schema::Schema::check).
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the table has changed since that check and no longer fits the queue.
    pub(super) fn new(
        connection: &Connection,
        spec: &QueueSpec,
        sql: &LeaseSql,
    ) -> Result<Self, StoreError> {
        let missing =
            || StoreError::Misconfigured(format!("table {:?} does not exist", spec.table));
        let table = Table::read(connection, &spec.table)?.ok_or_else(missing)?;
        let queue_columns = QueueColumns::new(spec, &table, Vec::new())
            .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
        let archive = match archive_name(spec) {
            Some(name) => Table::read(connection, name)?,
            None => None,
        };
        let archive_columns = archive
            .as_ref()
            .map(|archive| archive_columns(spec, &queue_columns, archive))
            .unwrap_or_default();
        let has_archive = !archive_columns.is_empty();
        let mut placeholders = placeholders::of_table(spec, &table, &queue_columns);
        placeholders.insert(
            "archive_columns",
            quote_all(archive_columns.iter().map(String::as_str)),
        );
        let names = queue_columns.data.iter().map(|column| column.name.clone());
        let columns: Arc<[String]> = names.collect();
        let by_name = |columns: Vec<Column>| {
            let columns = columns.into_iter();
            columns.map(|column| (column.name, column.kind)).collect()
        };
        Ok(Self {
            spec: spec.clone(),
            item_size: ItemSize::new(&columns),
            has_large_items: AtomicBool::new(false),
            key: queue_columns.key,
            group: queue_columns.group,
            data: queue_columns.data,
            columns,
            insertable: by_name(queue_columns.insertable),
            writable: by_name(queue_columns.writable),
            filterable: by_name(queue_columns.filterable),
            sql: Statements::new(sql, spec, archive.as_ref(), has_archive, &placeholders),
            lease_sql: *sql,
            placeholders,
        })
    }

    /// Returns whether the key is the rowid of the table.
    pub(super) fn key_is_rowid(&self) -> bool {
        matches!(&*self.key, [only] if only.kind == ColumnType::RowNumber)
    }

    /// Returns whether the table can have a row with this key: the number of values fits, and none of them is NULL.
    pub(super) fn can_have_key(&self, key: &Key) -> bool {
        key.0.len() == self.key.len() && !key.0.contains(&Value::Null)
    }

    /// Reads the key of a row. Every statement returns the key columns first.
    pub(super) fn read_key(&self, row: &rusqlite::Row<'_>) -> rusqlite::Result<Key> {
        (0..self.key.len())
            .map(|index| Ok(read(row.get_ref(index)?)))
            .collect::<rusqlite::Result<Box<[Value]>>>()
            .map(Key)
    }
}

impl Statements {
    fn new(
        sql: &LeaseSql,
        spec: &QueueSpec,
        archive: Option<&Table>,
        has_archive: bool,
        placeholders: &Placeholders,
    ) -> Self {
        let text = |file, section| render(file, section, placeholders);
        let with = |placeholder, value: &str, file, section| {
            let placeholders = with(placeholders, [(placeholder, value.to_owned())]);
            render(file, section, &placeholders)
        };
        let checkpoint = quote(spec.soft_lock.name(SoftLockColumn::Checkpoint));
        let written_checkpoint = format!(", {checkpoint} = ?8");
        let item_columns = format!(
            ", {}, {}, {}{}{}",
            placeholders["lease_fence"],
            placeholders["lease_attempt"],
            placeholders["trace_parent"],
            placeholders["checkpoint_column"],
            placeholders["data_columns"],
        );
        let of_state =
            |state, file, section| state_index::render(spec, state, file, section, placeholders);
        Self {
            read_fence: plain(EPOCH, "read_fence"),
            find_retried_leases: with(
                "run_number",
                &run_number(sql, spec, placeholders),
                sql.claim,
                "find_retried_leases",
            ),
            pick_ready: PickStatements::new(sql.claim, "pick_ready", &item_columns, placeholders),
            suspects: SuspectStatements::new(sql, &item_columns, placeholders),
            turn: TurnStatements::new(sql, spec, &item_columns, placeholders),
            runs: RunStatements::new(sql, spec, placeholders),
            lease_row: text(sql.claim, "lease_row"),
            read_lease: text(sql.claim, "read_lease"),
            read_size: text(sql.claim, "read_size"),
            set_aside: text(sql.claim, "set_aside"),
            set_full_aside: text(sql.claim, "set_full_aside"),
            extend: text(sql.heartbeat, "extend"),
            extend_with_checkpoint: spec.max_checkpoint_bytes.map(|_| {
                with(
                    "written_checkpoint",
                    &written_checkpoint,
                    sql.heartbeat,
                    "extend",
                )
            }),
            read_lost: text(sql.heartbeat, "read_lost"),
            find_held: text(sql.heartbeat, "find_held"),
            read_item: text(sql.cancel, "read_item"),
            cancel: text(sql.cancel, "cancel"),
            complete: text(sql.settle, "complete"),
            delete: text(sql.settle, "delete"),
            copy_to_archive: has_archive.then(|| text(sql.settle, "copy_to_archive")),
            delete_archived: text(sql.settle, "delete_archived"),
            fail: text(sql.settle, "fail"),
            release: text(sql.settle, "release"),
            find_owner: text(sql.settle, "find_owner"),
            find_earlier_settlement: text(sql.settle, "find_earlier_settlement"),
            find_claim: text(sql.release_claims, "find_claim"),
            release_claim: text(sql.release_claims, "release_claim"),
            find_due: text(sql.reap, "find_due"),
            expire: text(sql.reap, "expire"),
            promote: text(sql.reap, "promote"),
            next_due: text(sql.reap, "next_due"),
            counts: CountStatements::new(spec, placeholders),
            oldest_ready: text(STATS, "oldest_ready"),
            oldest_lease: of_state(State::Leased, STATS, "oldest_lease"),
            list: State::ALL.map(|state| state_index::list(spec, state, placeholders)),
            why: WhyStatements::new(placeholders),
            purge: PurgeStatements::new(spec, archive, placeholders),
        }
    }
}
