//! The indexes of a queue on a server: which index of a table has which role, and the hints that name them. Also the names of
//! constraints, which follow the same rule.

use std::fmt::Write as _;

use lease_broker_model::queue::{Order, QueueSpec, SoftLockColumn};
use sha2::{Digest as _, Sha256};
use tiberius::ToSql;

use super::catalogue::{Column, Table};
use super::connection::Connection;
use super::decode;
use super::quote::{bare_table, quote, quote_table, text_literal};
use super::types::ColumnType;
use super::utf16::cut;
use crate::StoreError;
use crate::adoption::IndexStatus;
use crate::index_role::IndexRole;
use crate::queue_columns::{QueueColumns, sort_list};
use crate::table::{Filter, Index, sorts_by};
use crate::template::Placeholders;

/// Returns the roles of the queue's indexes. Without filtered indexes a queue has no index of dead items: it would hold all
/// rows, and updating it at every change of state would cost more than it saves.
pub(super) fn roles(queue: &QueueSpec) -> impl Iterator<Item = IndexRole> + use<> {
    let filtered = queue.filtered_indexes;
    IndexRole::of(queue).filter(move |role| filtered || *role != IndexRole::Dead)
}

/// The longest name that SQL Server accepts, in UTF-16 units.
const MAX_NAME_UNITS: usize = 128;

/// Returns the name of the index of `role`. A name that is too long keeps its beginning and its role. A hash of the whole name
/// between them keeps two long names apart.
pub(super) fn name(role: IndexRole, queue: &QueueSpec) -> String {
    let name = role.index_name(queue, &bare_table(&queue.table));
    shortened(&name, role.name())
}

/// Returns the name under which an index of `role` is built while another one still serves.
fn replacement_name(role: IndexRole, queue: &QueueSpec) -> String {
    let name = role.index_name(queue, &bare_table(&queue.table));
    shortened(&format!("{name}_new"), &format!("{}_new", role.name()))
}

/// Both names that an index of `role` can have: its own, and that of a replacement.
pub(super) fn both_names(role: IndexRole, queue: &QueueSpec) -> [String; 2] {
    [name(role, queue), replacement_name(role, queue)]
}

/// Returns the name of the index of `role` that the table has, and the other one of [`both_names`]. A replacement keeps its name
/// where the server cannot rename an index.
pub(super) fn present_and_other_name(
    role: IndexRole,
    queue: &QueueSpec,
    table: &Table,
) -> [String; 2] {
    let [own, replacement] = both_names(role, queue);
    let has_own = table.reports_filters && table.index(&own).is_some();
    if !has_own && named(table, &replacement).is_some() {
        [replacement, own]
    } else {
        [own, replacement]
    }
}

/// Returns the name of the archive's index on the time of completion.
pub(super) fn archive_name(queue: &QueueSpec, archive: &str) -> String {
    let time = queue.soft_lock.name(SoftLockColumn::StateTime);
    shortened(&format!("{}_{time}", bare_table(archive)), "time")
}

/// Sets the placeholders of the names that the default constraints of new soft-lock columns get.
pub(super) fn set_default_names(placeholders: &mut Placeholders, queue: &QueueSpec) {
    for (placeholder, name) in default_names(queue, "") {
        placeholders.insert(placeholder, quote(&name));
    }
}

/// Returns the name of each default constraint with its placeholder. `end` ends the name of the table.
fn default_names(queue: &QueueSpec, end: &str) -> [(&'static str, String); 4] {
    [
        (SoftLockColumn::State, "lease_state_default"),
        (SoftLockColumn::StateTime, "lease_state_time_default"),
        (SoftLockColumn::Fence, "lease_fence_default"),
        (SoftLockColumn::Attempt, "lease_attempt_default"),
    ]
    .map(|(column, placeholder)| {
        let name = queue.soft_lock.name(column);
        let name = format!("DF_{}{end}_{name}", bare_table(&queue.table));
        (placeholder, shortened(&name, column.default_name()))
    })
}

/// Reads the names among `@P2` to `@P5` that objects in the schema of the table `@P1` have, and the table's number.
const TAKEN_NAMES: &str = "SELECT CAST(o.name AS nvarchar(128)), t.object_id
FROM sys.objects AS t INNER JOIN sys.objects AS o ON o.schema_id = t.schema_id
WHERE t.object_id = OBJECT_ID(@P1) AND o.name IN (@P2, @P3, @P4, @P5)";

/// Gives default constraints whose names are taken other names, with the number of the table. The name can be that of a constraint of
/// an earlier table that was renamed.
pub(super) async fn avoid_taken_names(
    connection: &mut Connection,
    queue: &QueueSpec,
    placeholders: &mut Placeholders,
) -> Result<(), StoreError> {
    let names = default_names(queue, "");
    let object = quote_table(&queue.table);
    let mut parameters: Vec<&dyn ToSql> = vec![&object];
    parameters.extend(names.iter().map(|(_, name)| name as &dyn ToSql));
    let rows = connection.query(TAKEN_NAMES, &parameters).await?;
    for row in rows.iter().flatten() {
        let taken = decode::text(row, 0)?;
        let others = default_names(
            queue,
            &format!("_{}", decode::optional_integer(row, 1)?.unwrap_or_default()),
        );
        for ((placeholder, name), (_, other)) in names.iter().zip(&others) {
            if name.eq_ignore_ascii_case(&taken) {
                placeholders.insert(placeholder, quote(other));
            }
        }
    }
    Ok(())
}

/// Returns the name of the primary key of a managed queue's table.
pub(super) fn primary_key_name(queue: &QueueSpec) -> String {
    shortened(&format!("PK_{}", bare_table(&queue.table)), "key")
}

/// Returns `name`, or its beginning, a hash and `last_word` if it is too long.
fn shortened(name: &str, last_word: &str) -> String {
    if name.encode_utf16().count() <= MAX_NAME_UNITS {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let mut end = String::from("_");
    for byte in digest.iter().take(6) {
        let _ = write!(end, "{byte:02x}");
    }
    end.push('_');
    end.push_str(last_word);
    cut(name, MAX_NAME_UNITS - end.len()).to_owned() + &end
}

/// Returns the index `name` of `table`. Babelfish appends a hash to the names of indexes, so there the beginning decides.
pub(super) fn named<'a>(table: &'a Table, name: &str) -> Option<&'a Index> {
    if table.reports_filters {
        return table.index(name);
    }
    let name = name.to_ascii_lowercase();
    let mut indexes = table.indexes.iter();
    indexes.find(|index| index.name.to_ascii_lowercase().starts_with(&name))
}

/// Returns the index of each role with its status in `table`.
pub(super) fn all_with_status(
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) -> impl Iterator<Item = (IndexRole, IndexStatus)> {
    roles(queue).map(move |role| {
        let status = if find(role, queue, columns, table).is_some() {
            IndexStatus::Usable
        } else if named(table, &name(role, queue)).is_some() {
            IndexStatus::WrongOrder
        } else {
            IndexStatus::Missing
        };
        (role, status)
    })
}

/// Finds the index that serves `role`. Its columns decide and not its name, because an engine may store another name and an
/// administrator may have chosen one. The index has to be filtered by the state or led by it: another index of the table may
/// have the same columns, but holds every row. If the login may not see the filters, the name decides as well.
pub(super) fn find<'a>(
    role: IndexRole,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &'a Table,
) -> Option<&'a Index> {
    let state = queue.soft_lock.name(SoftLockColumn::State);
    let any_order = role == IndexRole::Ready && queue.order == Order::None;
    let expected = named(table, &name(role, queue));
    let sorted_by = role.columns(queue, columns);
    table.indexes.iter().find(|index| {
        let (led_by_state, rest) = match &*index.columns {
            [first, rest @ ..] if first.is(state) => (true, rest),
            all => (false, all),
        };
        let holds_states = match (&index.filter, queue.filtered_indexes) {
            // The index of the primary key may have the same columns, and it is unique.
            _ if !table.reports_filters => !index.unique,
            (Filter::Condition(filter), true) => {
                filter_matches(filter, &role.condition(queue, state))
            }
            (Filter::Hidden, true) => expected == Some(index),
            (Filter::None, false) => led_by_state,
            _ => false,
        };
        holds_states && (sorts_by(rest, &sorted_by) || any_order && expected == Some(index))
    })
}

/// Returns the indexes that the queue uses.
pub(super) fn used<'a>(
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &'a Table,
) -> impl Iterator<Item = &'a Index> {
    roles(queue).filter_map(move |role| find(role, queue, columns, table))
}

/// Returns whether the login may not see the filter of an index that the queue uses. SQL Server shows the text of a filter
/// only to a login with VIEW DEFINITION on the table (Microsoft's documentation of `sys.indexes`).
pub(super) fn has_hidden_filter(
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) -> bool {
    used(queue, columns, table).any(|index| index.filter == Filter::Hidden)
}

/// Returns whether `filter`, as the server writes it, is `condition`, a condition on the column of the state without brackets. The
/// server adds brackets and parentheses, and may write IN as OR.
fn filter_matches(filter: &str, condition: &str) -> bool {
    let normalize = |text: &str| -> String {
        let kept = text.chars().filter(|c| !"[]() ".contains(*c));
        kept.collect::<String>().to_ascii_lowercase()
    };
    let filter = normalize(filter);
    let as_or = condition.rsplit_once(" IN ").map(|(state, states)| {
        let states = states.trim_matches(['(', ')']).split(", ");
        let equal = states.map(|one| format!("{}={one}", normalize(state)));
        equal.collect::<Vec<_>>().join("or")
    });
    filter == normalize(condition) || Some(filter) == as_or
}

/// Returns the placeholders of a new index's columns and filter. If indexes cannot be filtered, the state is the first column instead.
pub(super) fn definition(
    role: IndexRole,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
) -> [(&'static str, String); 2] {
    let state = quote(queue.soft_lock.name(SoftLockColumn::State));
    let sorted_by = sort_list(&role.columns(queue, columns), "", quote);
    let indexed = if queue.filtered_indexes {
        sorted_by
    } else {
        format!("{state}, {sorted_by}")
    };
    [
        ("index_columns", indexed),
        ("index_filter", role.filter(queue, &state)),
    ]
}

/// Sets the placeholders of the hints and literals that name existing indexes.
pub(super) fn set_hints(
    placeholders: &mut Placeholders,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) {
    let seek = key_hint(&columns.key, table, true);
    placeholders.insert("by_key", format!("ROWLOCK{seek}"));
    placeholders.insert("next_walk_hint", seek.clone());
    placeholders.insert("key_hint", seek);
    placeholders.insert("first_walk_hint", key_hint(&columns.key, table, false));
    for role in IndexRole::ALL {
        let existing = find(role, queue, columns, table);
        let index = existing.map_or_else(|| name(role, queue), |index| index.name.clone());
        // A statement that asks only for a state has nothing to seek in an index filtered by that state: with FORCESEEK, SQL
        // Server refuses it with error 8622. Without filters the state leads each index.
        let by_state = hint(&index, !queue.filtered_indexes);
        let (hints, literal_name) = match role {
            IndexRole::Ready if queue.groups.is_some() => (vec![], "unused_literal"),
            IndexRole::Group | IndexRole::Busy if queue.groups.is_none() => {
                (vec![], "unused_literal")
            }
            // A queue with groups has its ready items in the group index.
            IndexRole::Group => {
                let mut hints = vec![
                    ("ready_hint", by_state),
                    ("group_hint", hint(&index, false)),
                    ("group_seek_hint", hint(&index, true)),
                ];
                if !queue.filtered_indexes {
                    hints.push(("busy_hint", hint(&index, true)));
                    hints.push(("busy_list_hint", hint(&index, false)));
                }
                (hints, "ready_literal")
            }
            IndexRole::Busy if !queue.filtered_indexes => (vec![], "unused_literal"),
            IndexRole::Busy => {
                let hints = vec![
                    ("busy_hint", hint(&index, true)),
                    ("busy_list_hint", hint(&index, false)),
                ];
                (hints, "unused_literal")
            }
            IndexRole::Ready => (vec![("ready_hint", by_state)], "ready_literal"),
            IndexRole::Due => (
                vec![
                    ("due_hint", hint(&index, true)),
                    ("due_walk_hint", hint(&index, false)),
                ],
                "due_literal",
            ),
            IndexRole::Token => (
                vec![
                    ("token_hint", hint(&index, true)),
                    ("leased_hint", by_state),
                ],
                "token_literal",
            ),
            IndexRole::Dead if !queue.filtered_indexes => (vec![], "dead_literal"),
            IndexRole::Dead => (
                vec![
                    ("dead_hint", by_state),
                    ("old_dead_hint", hint(&index, true)),
                ],
                "dead_literal",
            ),
            IndexRole::Completed => (
                vec![("old_completed_hint", hint(&index, true))],
                "completed_literal",
            ),
        };
        for (name, hint) in hints {
            placeholders.insert(name, hint);
        }
        placeholders.insert(literal_name, text_literal(&index));
    }
}

/// Renders the table hints of a join by key, or of a walk in the order of the key. They follow another hint. `seek`: for a join, or for
/// a walk that begins after a key.
///
/// Babelfish gets no hint: it looks for the index of a constraint under a name that the index does not have. A key of type
/// `money` gets none either: it is compared as a decimal, which SQL Server cannot seek, and then it refuses FORCESEEK.
pub(super) fn key_hint(key: &[Column], table: &Table, seek: bool) -> String {
    match key_index(key, table) {
        Some(index) => hint(&index.name, seek),
        None => String::new(),
    }
}

/// Renders the table hints that make a statement use the index `name`, and seek in it if `seek`. Babelfish turns the hint into a
/// comment, so a name that would end the comment gets no hint.
pub(super) fn hint(name: &str, seek: bool) -> String {
    if name.contains("/*") || name.contains("*/") {
        return String::new();
    }
    let seek = if seek { ", FORCESEEK" } else { "" };
    format!("{seek}, INDEX ({})", quote(name))
}

/// Returns the index of the key, if statements can name it and seek in it.
pub(super) fn key_index<'a>(key: &[Column], table: &'a Table) -> Option<&'a Index> {
    let seekable = key.iter().all(|column| column.kind != ColumnType::Money);
    let index = table.indexes.iter().find(|index| is_of_key(index, key));
    index.filter(|_| table.reports_filters && seekable)
}

/// Returns whether the index is unique and has exactly the columns of the key.
pub(super) fn is_of_key(index: &Index, key: &[Column]) -> bool {
    let is_part = |column: &Column| index.columns.iter().any(|part| part.is(&column.name));
    index.unique && index.columns.len() == key.len() && key.iter().all(is_part)
}
