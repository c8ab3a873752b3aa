//! The statements of one queue. They are rendered from the templates in `sql/mssql` once, when the store is opened.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::{ClaimStrategy, OnComplete, QueueSpec, SoftLockColumn};
use lease_broker_sql::LeaseSql;
use lease_broker_value::Value;
use serde_json::json;
use tiberius::Row;

use super::catalogue::{Column, Table};
use super::connection::Connection;
use super::decode::unexpected;
use super::item_bytes::ItemBytes;
use super::key_source::KeySource;
use super::left_out::LeftOut;
use super::list_parameters::{ListEntry, ListParameters};
use super::purge_statements::PurgeStatements;
use super::quote::quote;
use super::server_info::TextBytes;
use super::soft_lock_types::queue_columns;
use super::statement_parts::{ALL_DUE, render_cancel, roll_back_on_error, with_lease_list};
use super::types::{self, ColumnType};
use super::why_statements::WhyStatements;
use super::{index, partitions, placeholders, run_parts, suspects, turn_parts};
use crate::adoption::archive_columns;
use crate::item_size::{FULL_COUNTER_TEXT, set_aside_text};
use crate::queue_columns::QueueColumns;
use crate::template::{Placeholders, render};
use crate::{ItemSize, MAX_PASSED_OVER, MAX_TOO_LARGE, StoreError};

const LIST: &str = lease_broker_sql::mssql::LIST;
const STATS: &str = lease_broker_sql::mssql::STATS;

/// The statements of a queue, and the parts of its table that they use.
pub(super) struct QueueStatements {
    pub(super) spec: QueueSpec,
    pub(super) key: Vec<Column>,
    pub(super) key_source: KeySource,
    /// The column that names groups. `None`: the queue has no groups.
    pub(super) group: Option<Column>,
    /// The names of the data columns that a claim returns.
    pub(super) columns: Arc<[String]>,
    pub(super) sql: Statements,
    /// The rows that claims leave out.
    pub(super) left_out: LeftOut,
    /// The templates of the statements. A settlement that writes columns is rendered later.
    pub(super) lease_sql: LeaseSql,
    /// The sizes of the items.
    pub(super) item_size: ItemSize,
    /// The largest size of an item that the types of its columns allow, in bytes. `None`: a column has no limit.
    pub(super) max_row_bytes: Option<usize>,
    /// The names of all columns of the table.
    pub(super) column_names: Vec<String>,
    /// The columns that a new item may set, by name.
    pub(super) insertable: HashMap<String, Column>,
    /// The columns that a settlement may write, by name.
    pub(super) writable: HashMap<String, Column>,
    /// The columns by whose values operators can filter, by name.
    pub(super) filterable: HashMap<String, Column>,
    /// The columns whose type is exactly that of the broker's times.
    pub(super) exact_times: Vec<String>,
    /// The column of the checkpoint. `None`: the queue has no checkpoints.
    pub(super) checkpoint: Option<Column>,
    /// Name and column of each index that has only one column.
    pub(super) single_column_indexes: Vec<(String, String)>,
    pub(super) placeholders: Placeholders,
    /// Whether a change can run triggers of the queue's table, of its archive or of tables that refer to it (`triggers.sql`).
    pub(super) has_triggers: bool,
    /// Whether an index of the table drops duplicates instead of refusing them.
    pub(super) drops_duplicates: bool,
    /// Texts can contain NUL. Babelfish stores none.
    pub(super) stores_nul: bool,
}

/// The rendered statements.
pub(super) struct Statements {
    /// The claim that gives no new leases if the queue has suspects.
    pub(super) claim: ClaimForms,
    /// The claim for one call if the queue has suspects.
    pub(super) claim_of_share: ClaimForms,
    /// The claim for one call that names groups. `None`: the queue has no groups.
    pub(super) claim_of_groups: Option<ClaimForms>,
    /// Makes ready items whose counters are full dead.
    pub(super) set_full_aside: String,
    pub(super) extend: String,
    /// Extends and stores checkpoints. `None`: the queue has no checkpoints.
    pub(super) extend_with_checkpoints: Option<String>,
    pub(super) settle: SettleSections,
    pub(super) release_claims: String,
    pub(super) cancel: String,
    pub(super) reap: String,
    /// Reaps behind rows that a constraint or a trigger refuses.
    pub(super) reap_behind: String,
    /// Returns the keys of the rows that are due longest.
    pub(super) read_due: String,
    pub(super) stats: String,
    pub(super) exact_stats: String,
    /// The listing of each state, in the order of [`State::ALL`].
    pub(super) list: [String; 5],
    pub(super) why: WhyStatements,
    pub(super) purge: PurgeStatements,
}

/// A claim in two forms.
pub(super) struct ClaimForms {
    /// For items that are so small that all of them fit.
    pub(super) small: ClaimBatches,
    /// Leases only items that fit.
    pub(super) within_bytes: ClaimBatches,
    /// Returns the item that the claim would lease to a call for one item. `None`: the claim leaves no rows out.
    pub(super) pick_one: Option<String>,
}

/// The calls of a claim, and what it does if the queue has suspects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimKind {
    /// For several calls. If there are suspects, they get no new leases.
    All,
    /// For one call. If there are suspects, the claim chooses the items that the call may lease.
    Share,
    /// The same for a call that names groups.
    Groups,
}

/// The two forms of a claim.
pub(super) struct ClaimBatches {
    pub(super) new: String,
    /// The claim for a list in which the token of at least one call may already hold leases.
    pub(super) with_retries: String,
}

/// The sections of `settle.sql`. Each settlement joins the sections that its list needs.
pub(super) struct SettleSections {
    pub(super) begin: String,
    pub(super) remember_ended: String,
    pub(super) update_ended: String,
    /// `None`: the queue does not delete completed rows.
    pub(super) delete_completed: Option<String>,
    pub(super) verify_count: String,
    /// `None`: the queue has no archive.
    pub(super) move_to_archive: Option<String>,
}

impl SettleSections {
    fn new(sql: &LeaseSql, spec: &QueueSpec, placeholders: &Placeholders) -> Self {
        let mut placeholders = with_lease_list(sql, sql.settle, placeholders);
        run_parts::set_in_settlement(&mut placeholders, sql, spec);
        let section = |name| render(sql.settle, name, &placeholders);
        let deletes = spec.on_complete == OnComplete::Delete;
        let archives = matches!(spec.on_complete, OnComplete::Archive(_));
        Self {
            begin: section("begin"),
            remember_ended: section("remember_ended"),
            update_ended: section("update_ended"),
            delete_completed: deletes.then(|| section("delete_completed")),
            verify_count: section("verify_count"),
            move_to_archive: archives.then(|| section("move_to_archive")),
        }
    }
}

impl QueueStatements {
    /// Reads the queue's table, which the caller has checked before, and renders the statements.
    pub(super) async fn read(
        connection: &mut Connection,
        spec: &QueueSpec,
        sql: &LeaseSql,
    ) -> Result<Self, StoreError> {
        let missing = |name: &str| {
            StoreError::Misconfigured(format!("table {name:?} does not exist any more"))
        };
        let table = Table::read(connection, &spec.table).await?;
        let table = table.ok_or_else(|| missing(&spec.table))?;
        let archive = match &spec.on_complete {
            OnComplete::Archive(name) => {
                let archive = Table::read(connection, name).await?;
                Some(archive.ok_or_else(|| missing(name))?)
            }
            _ => None,
        };
        let columns = queue_columns(spec, &table)
            .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
        if index::has_hidden_filter(spec, &columns, &table) {
            tracing::warn!(
                queue = spec.name,
                table = spec.table,
                "login may not see the filters of indexes: grant VIEW DEFINITION on the table. Until then the indexes are \
                 recognised by their names"
            );
        }
        for warning in partitions::warnings(connection, spec, &table).await? {
            tracing::warn!(queue = spec.name, warning, "slow index");
        }
        let key_source = KeySource::read(connection, spec, &columns.key).await?;
        Ok(Self::new(
            spec,
            &table,
            archive.as_ref(),
            columns,
            key_source,
            connection.server_info.text_bytes(),
            sql,
        ))
    }

    /// Renders the statements for a table whose columns and archive are known.
    pub(super) fn new(
        spec: &QueueSpec,
        table: &Table,
        archive: Option<&Table>,
        columns: QueueColumns<ColumnType>,
        key_source: KeySource,
        text_bytes: TextBytes,
        sql: &LeaseSql,
    ) -> Self {
        let mut placeholders = placeholders::of_table(spec, table, &columns);
        let names: Arc<[String]> = columns
            .data
            .iter()
            .map(|column| column.name.clone())
            .collect();
        let item_size = ItemSize::new(&names);
        let bytes = ItemBytes::new(&columns, item_size, text_bytes);
        let max_row_bytes = bytes.max;
        set_size_placeholders(&mut placeholders, spec, bytes);
        if let Some(archive) = archive {
            let shared = archive_columns(spec, &columns, archive);
            let names: Vec<String> = shared.iter().map(|name| quote(name)).collect();
            let t_names: Vec<String> = names.iter().map(|name| format!("t.{name}")).collect();
            placeholders.insert("archive_columns", names.join(", "));
            placeholders.insert("t_archive_columns", t_names.join(", "));
        }
        let claim_lock = match spec.claim_strategy {
            ClaimStrategy::SkipLocked => String::new(),
            ClaimStrategy::AppLock => render(sql.claim, "claim_lock", &placeholders) + "\n",
        };
        placeholders.insert("claim_lock", claim_lock);
        let lock_wait = render(sql.leases, "lock_wait", &placeholders);
        placeholders.insert("lock_wait", lock_wait);
        run_parts::set_placeholders(&mut placeholders, sql, spec);
        suspects::set_placeholders(&mut placeholders, sql, spec);
        turn_parts::set_placeholders(&mut placeholders, sql, spec);
        let lease_columns = render(sql.claim, "lease_columns", &placeholders);
        placeholders.insert("lease_columns", lease_columns);
        let has_triggers = table.has_triggers
            || table.cascades_to_triggers
            || archive.is_some_and(|archive| archive.has_triggers);
        let guard = |batch: String| roll_back_on_error(batch, table.has_triggers);
        let checkpoint = spec.max_checkpoint_bytes;
        let checkpoint =
            checkpoint.and_then(|_| table.column(spec.soft_lock.name(SoftLockColumn::Checkpoint)));
        let claims = |kind| claim_forms(sql, spec, &placeholders, (kind, table.has_triggers));
        let statements = Statements {
            list: State::ALL.map(|state| render_list(&placeholders, state)),
            why: WhyStatements::new(&placeholders),
            claim: claims(ClaimKind::All),
            claim_of_share: claims(ClaimKind::Share),
            claim_of_groups: spec.groups.as_ref().map(|_| claims(ClaimKind::Groups)),
            set_full_aside: guard(render_set_full_aside(sql, &placeholders)),
            extend: guard(render_extend(sql, &placeholders)),
            extend_with_checkpoints: checkpoint
                .map(|column| guard(render_extend(sql, &with_checkpoints(&placeholders, column)))),
            settle: SettleSections::new(sql, spec, &placeholders),
            release_claims: guard(render(sql.release_claims, "release_claims", &placeholders)),
            cancel: guard(render_cancel(sql, spec, &placeholders)),
            reap: guard(render_reap(sql, spec, &placeholders, Reap::All)),
            reap_behind: guard(render_reap(sql, spec, &placeholders, Reap::Behind)),
            read_due: render_reap(sql, spec, &placeholders, Reap::Read),
            stats: render(STATS, "stats", &placeholders),
            exact_stats: render_exact_stats(&placeholders),
            purge: PurgeStatements::new(spec, &columns.key, table, archive, &placeholders),
        };
        let by_name = |columns: Vec<Column>| {
            let columns = columns.into_iter();
            columns
                .map(|column| (column.name.clone(), column))
                .collect()
        };
        let names_of = |is_wanted: &dyn Fn(&Column) -> bool| {
            let wanted = table.columns.iter().filter(|column| is_wanted(column));
            wanted.map(|column| column.name.clone()).collect()
        };
        Self {
            spec: spec.clone(),
            columns: names,
            item_size,
            max_row_bytes,
            column_names: names_of(&|_| true),
            key: columns.key,
            key_source,
            group: columns.group,
            sql: statements,
            left_out: LeftOut::default(),
            lease_sql: *sql,
            single_column_indexes: table
                .indexes
                .iter()
                .filter_map(|index| match &*index.columns {
                    [column] => Some((index.name.clone(), column.name.clone()?)),
                    _ => None,
                })
                .collect(),
            insertable: by_name(columns.insertable),
            writable: by_name(columns.writable),
            filterable: by_name(columns.filterable),
            exact_times: names_of(&|column| column.declared == "datetime2(3)"),
            checkpoint: checkpoint.cloned(),
            placeholders,
            has_triggers,
            drops_duplicates: table.indexes.iter().any(|index| index.drops_duplicates),
            stores_nul: !matches!(text_bytes, TextBytes::Length),
        }
    }

    /// Returns whether the table can have a row with this key: the number of values fits, and none of them is NULL.
    pub(super) fn can_have_key(&self, key: &Key) -> bool {
        key.0.len() == self.key.len() && !key.0.contains(&Value::Null)
    }

    /// Reads the key from the columns that begin at index `first`.
    pub(super) fn read_key(&self, row: &Row, first: usize) -> Result<Key, StoreError> {
        let values = (first..).zip(&self.key).map(|(index, column)| {
            let value = types::decode(row.get_column_data(index)?)?;
            if column.kind.can_return(&value) {
                return Ok(value);
            }
            Err(unexpected(format!(
                "{value:?} is not a value of key column {}",
                column.name
            )))
        });
        Ok(Key(values.collect::<Result<_, StoreError>>()?))
    }

    /// Returns the list that has only the row after which a page begins: its key and, in a walk by time, its time. It is empty
    /// without a key.
    pub(super) fn position_list(key: Option<&Key>, time: Option<&str>) -> ListParameters {
        let entry = key.map(|key| {
            let mut entry = ListEntry::default();
            Self::insert_key(&mut entry, key);
            if let Some(time) = time {
                entry.insert("t", json!(time));
            }
            entry
        });
        ListParameters::new(vec![entry.into_iter().collect()])
    }

    /// Adds the values of a key to an entry.
    pub(super) fn insert_key(entry: &mut ListEntry, key: &Key) {
        for (number, value) in (1..).zip(&key.0) {
            entry.insert(format!("k{number}"), types::encode_key(value));
        }
    }

    /// Returns the list of the rows that a claim leaves out.
    pub(super) fn left_out_list(&self) -> Vec<ListEntry> {
        let rows = self.left_out.rows().into_iter().map(|row| {
            let mut entry = ListEntry::default();
            Self::insert_key(&mut entry, &row.key);
            entry.insert("f", json!(row.fence));
            entry
        });
        rows.collect()
    }

    /// Returns the list of rows of `cancel.sql`. A statement may name a row only once, so a key that is in the list twice has
    /// the entry of its first index.
    pub(super) fn key_entries(&self, keys: &[Key]) -> Vec<ListEntry> {
        let mut seen = HashSet::new();
        let mut entries = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            if seen.insert(key.to_string()) && self.can_have_key(key) {
                let mut entry = ListEntry::default();
                entry.insert("i", json!(index));
                Self::insert_key(&mut entry, key);
                entries.push(entry);
            }
        }
        entries
    }

    /// Returns the entry of a lease in the list of `leases.sql`. `index` is the index of its request.
    pub(super) fn lease_entry(index: usize, lease: &LeaseRef) -> ListEntry {
        let mut entry = ListEntry::default();
        entry.insert("i", json!(index));
        Self::insert_key(&mut entry, &lease.key);
        entry.insert("t", json!(lease.token.to_string()));
        entry.insert("f", json!(lease.fence));
        entry
    }
}

/// The sections of `claim.sql` for items that may be too large. `fit_items` contains the first ones.
const SIZE_SECTIONS: [&str; 8] = [
    "size_columns",
    "size_name",
    "size_value",
    "leased_items",
    "measure_items",
    "pick_more",
    "fit_items",
    "read_passed_over",
];

/// Sets the placeholders of the sizes of items.
fn set_size_placeholders(placeholders: &mut Placeholders, spec: &QueueSpec, bytes: ItemBytes) {
    for (placeholder, value) in [
        ("bytes_bound", bytes.bound),
        ("bytes_exact", bytes.exact.unwrap_or_default()),
        ("max_item_bytes", spec.max_leased_bytes().to_string()),
        ("set_aside_text", set_aside_text(spec)),
        ("passed_over", MAX_PASSED_OVER.to_string()),
        ("named", MAX_TOO_LARGE.to_string()),
    ] {
        placeholders.insert(placeholder, value);
    }
}

/// Renders all forms of a claim.
fn claim_forms(
    sql: &LeaseSql,
    queue: &QueueSpec,
    placeholders: &Placeholders,
    (kind, has_triggers): (ClaimKind, bool),
) -> ClaimForms {
    let render = |within_bytes, with_retries| {
        let parts = (within_bytes, with_retries);
        let batch = render_claim(CLAIM, sql, queue, placeholders, kind, parts);
        roll_back_on_error(batch, has_triggers)
    };
    let batches = |within_bytes| ClaimBatches {
        new: render(within_bytes, false),
        with_retries: render(within_bytes, true),
    };
    let pick_one = (kind != ClaimKind::All)
        .then(|| render_claim(PICK_ONE, sql, queue, placeholders, kind, (false, false)));
    ClaimForms {
        small: batches(false),
        within_bytes: batches(true),
        pick_one,
    }
}

/// A batch that picks items, and maybe leases them.
type PickingBatch = (fn(&LeaseSql) -> &'static str, &'static str);

const CLAIM: PickingBatch = (|sql| sql.claim, "claim");
const PICK_ONE: PickingBatch = (|sql| sql.left_out, "pick_one");

/// Renders the claim. `within_bytes` adds the sections that lease only items that fit, and `with_retries` those for calls whose
/// tokens may already hold leases.
fn render_claim(
    (file, section): PickingBatch,
    sql: &LeaseSql,
    queue: &QueueSpec,
    placeholders: &Placeholders,
    kind: ClaimKind,
    (within_bytes, with_retries): (bool, bool),
) -> String {
    let mut placeholders = placeholders.clone();
    match kind {
        ClaimKind::All => suspects::set_in_claim(&mut placeholders, sql),
        ClaimKind::Share | ClaimKind::Groups => {
            suspects::set_in_claim_of_share(&mut placeholders, sql);
        }
    }
    if kind == ClaimKind::Groups {
        turn_parts::set_given_groups(&mut placeholders, sql);
    }
    let pick = |placeholders: &Placeholders| {
        let pick = match queue.groups {
            Some(_) => turn_parts::walk(placeholders, sql, queue),
            None => render(sql.claim, "pick_ready", placeholders),
        };
        match kind {
            ClaimKind::All => pick,
            ClaimKind::Share | ClaimKind::Groups => suspects::pick_share(placeholders, sql, pick),
        }
    };
    for section in [
        "find_retried_claims",
        "except_answered",
        "read_retried_claims",
    ] {
        let text = if with_retries {
            render(sql.claim, section, &placeholders) + "\n"
        } else {
            String::new()
        };
        placeholders.insert(section, text);
    }
    let slot = if within_bytes {
        "COALESCE(i.lb_slot, i.lb_p)"
    } else {
        "i.lb_p"
    };
    placeholders.insert("slot", slot.to_owned());
    placeholders.insert("pick_count", "@pick".to_owned());
    for section in SIZE_SECTIONS {
        let is_exact = placeholders["bytes_exact"].is_empty();
        let text = match section {
            _ if !within_bytes => String::new(),
            "measure_items" if is_exact => String::new(),
            "pick_more" => pick(&placeholders) + "\n",
            "measure_items" | "fit_items" => render(sql.claim, section, &placeholders) + "\n",
            "read_passed_over" => "\n".to_owned() + &render(sql.claim, section, &placeholders),
            _ => render(sql.claim, section, &placeholders),
        };
        placeholders.insert(section, text);
    }
    placeholders.insert("pick_count", "@total".to_owned());
    run_parts::set_cut(&mut placeholders, sql, queue);
    turn_parts::set_end(&mut placeholders, sql, queue);
    let mut pick_ready = pick(&placeholders);
    if kind != ClaimKind::All {
        suspects::set_fits(&mut placeholders, sql, within_bytes);
        let left_out_list = match kind {
            ClaimKind::Groups => "@P8",
            ClaimKind::All | ClaimKind::Share => "@P7",
        };
        placeholders.insert("left_out_list", left_out_list.to_owned());
        for part in ["leave_out", "is_left_out"] {
            let text = render(sql.left_out, part, &placeholders);
            placeholders.insert(part, text);
        }
        let choose = render(sql.suspects, "choose_share", &placeholders);
        pick_ready = format!("{choose}\n{pick_ready}");
        let note = render(sql.suspects, "note_lease", &placeholders);
        placeholders.insert("note_lease", note + "\n");
    }
    placeholders.insert("pick_ready", pick_ready);
    render(file(sql), section, &placeholders)
}

/// Renders the batch that makes items with full counters dead.
fn render_set_full_aside(sql: &LeaseSql, placeholders: &Placeholders) -> String {
    let mut placeholders = placeholders.clone();
    placeholders.insert("pick_count", "@P1".to_owned());
    for section in ["size_name", "size_value"] {
        placeholders.insert(section, String::new());
    }
    let pick = render(sql.claim, "pick_ready", &placeholders);
    placeholders.insert("pick_ready", pick);
    placeholders.insert("full_counter_text", FULL_COUNTER_TEXT.to_owned());
    render(sql.claim, "set_full_aside", &placeholders)
}

/// Renders the listing of the items in a state.
fn render_list(placeholders: &Placeholders, state: State) -> String {
    let mut placeholders = placeholders.clone();
    placeholders.insert("state", state.code().to_string());
    render(LIST, "list", &placeholders)
}

/// Renders the batch of a heartbeat.
fn render_extend(sql: &LeaseSql, placeholders: &Placeholders) -> String {
    let placeholders = with_lease_list(sql, sql.heartbeat, placeholders);
    render(sql.heartbeat, "extend", &placeholders)
}

/// Returns the placeholders of a heartbeat whose renewals store checkpoints.
fn with_checkpoints(placeholders: &Placeholders, column: &Column) -> Placeholders {
    let name = quote(&column.name);
    let value = column.kind.of_json("j.c");
    let field = column.kind.json_declaration("c", &column.declared);
    let written = format!(", {name} = CASE l.lb_h WHEN 1 THEN l.lb_c ELSE t.{name} END");
    let mut placeholders = placeholders.clone();
    placeholders.insert("written_checkpoint", written);
    placeholders.insert(
        "checkpoint_of_json",
        format!(", j.h AS lb_h, {value} AS lb_c"),
    );
    placeholders.insert("checkpoint_json", format!(", h tinyint '$.h', {field}"));
    placeholders
}

/// Renders the statistics that count every row.
fn render_exact_stats(placeholders: &Placeholders) -> String {
    let mut placeholders = placeholders.clone();
    placeholders.insert("can_use_statistics", "1 = 0".to_owned());
    render(STATS, "stats", &placeholders)
}

/// The batches of the reaper (`reap.sql`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reap {
    All,
    /// Leaves the first rows as they are.
    Behind,
    /// Changes nothing.
    Read,
}

/// Renders a batch of the reaper (`reap.sql` explains its two forms).
fn render_reap(
    sql: &LeaseSql,
    spec: &QueueSpec,
    placeholders: &Placeholders,
    kind: Reap,
) -> String {
    let mut placeholders = placeholders.clone();
    run_parts::set_in_reaper(&mut placeholders, sql, spec);
    let after_now = match kind {
        Reap::Behind => format!(" AND t.{} > @now", placeholders["lease_due_time"]),
        Reap::All | Reap::Read => String::new(),
    };
    placeholders.insert("after_now", after_now);
    let placeholders = &placeholders;
    let section = |name| render(sql.reap, name, placeholders);
    let pick_due = |states: &str| {
        let mut placeholders = placeholders.clone();
        placeholders.insert("states", states.to_owned());
        render(sql.reap, "pick_due", &placeholders)
    };
    let mut sections = vec![section("begin")];
    if spec.filtered_indexes {
        sections.push(pick_due(ALL_DUE));
    } else {
        sections.extend([pick_due("= 1"), pick_due("= 2"), section("keep_first_due")]);
    }
    if kind == Reap::Behind {
        sections.push(section("skip_refused"));
    }
    if kind == Reap::Read {
        sections.push(section("read_due"));
    } else {
        let next_due = if spec.filtered_indexes {
            "next_due"
        } else {
            "next_due_unfiltered"
        };
        sections.extend([section("update_due"), section(next_due)]);
    }
    sections.join("\n")
}
