//! The indexes of a queue in `SQLite`: their columns, and whether the indexes of a table serve.

use lease_broker_model::queue::{Order, QueueSpec, SoftLockColumn};

use super::catalogue::Table;
use super::quote::quote;
use super::types::ColumnType;
use crate::adoption::IndexStatus;
use crate::index_role::IndexRole;
use crate::queue_columns::{QueueColumns, sort_list};
use crate::table::{Filter, sorts_by};
use crate::template::Placeholders;

/// Returns the index of each role with its status in `table`.
pub(super) fn all_with_status(
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) -> impl Iterator<Item = (IndexRole, IndexStatus)> {
    IndexRole::of(queue).map(move |role| (role, status(role, queue, columns, table)))
}

/// Returns the status of the index with the role's name. Only the order of the indexes that claims read matters: with another order,
/// each claim would sort all ready items. The state may lead the index or filter it. An index with a filter serves no statement of a
/// queue without filtered indexes.
fn status(
    role: IndexRole,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) -> IndexStatus {
    let Some(index) = table.index(&role.index_name(queue, &queue.table)) else {
        return IndexStatus::Missing;
    };
    if !queue.filtered_indexes && index.filter != Filter::None {
        return IndexStatus::WrongOrder;
    }
    let decides = match role {
        IndexRole::Ready => queue.order != Order::None,
        IndexRole::Group | IndexRole::Busy => true,
        _ => false,
    };
    if !decides {
        return IndexStatus::Usable;
    }
    let state = queue.soft_lock.name(SoftLockColumn::State);
    let sorted_by = role.columns(queue, columns);
    let in_order = match &*index.columns {
        [first, rest @ ..] if first.is(state) && sorts_by(rest, &sorted_by) => true,
        all => sorts_by(all, &sorted_by),
    };
    if in_order {
        IndexStatus::Usable
    } else {
        IndexStatus::WrongOrder
    }
}

/// Returns the name of the archive's index on the time of completion.
pub(super) fn archive_name(queue: &QueueSpec, archive: &str) -> String {
    format!(
        "{archive}_{}",
        queue.soft_lock.name(SoftLockColumn::StateTime)
    )
}

/// Sets the placeholders of the indexes' names.
pub(super) fn set_names(placeholders: &mut Placeholders, queue: &QueueSpec) {
    for role in IndexRole::ALL {
        let name = role.index_name(queue, &queue.table);
        placeholders.insert(role.placeholder(), quote(&name));
    }
    if queue.groups.is_some() {
        // Ready items are in this index.
        let group_index = placeholders[IndexRole::Group.placeholder()].clone();
        placeholders.insert(IndexRole::Ready.placeholder(), group_index.clone());
        if !queue.filtered_indexes {
            placeholders.insert(IndexRole::Busy.placeholder(), group_index);
        }
    }
}

/// Returns the placeholders of a new index's columns and filter. If indexes cannot be filtered, the state is a column instead.
pub(super) fn definition(
    role: IndexRole,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
) -> [(&'static str, String); 2] {
    let state = quote(queue.soft_lock.name(SoftLockColumn::State));
    let sorted_by = sort_list(&role.columns(queue, columns), "", quote);
    let indexed = match role {
        _ if queue.filtered_indexes => sorted_by,
        // Without an order, a claim may take any ready item.
        IndexRole::Ready if queue.order == Order::None => state.clone(),
        // A token alone selects few rows, so it comes first.
        IndexRole::Token => format!("{sorted_by}, {state}"),
        _ => format!("{state}, {sorted_by}"),
    };
    [
        ("index_columns", indexed),
        ("index_filter", role.filter(queue, &state)),
    ]
}
