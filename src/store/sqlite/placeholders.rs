//! A queue laid over its table: which columns are its key, its order and its data, and what the templates' placeholders hold.

use super::catalogue::{Column, Index, Table};
use super::mirror;
use super::quote::{quote, quote_all};
use super::types::ColumnType;
use crate::queue::{OnComplete, Order, QueueSpec, SoftLockColumn};
use crate::store::template::Placeholders;

/// The parts of a table that a queue uses, with the names as the catalogue spells them.
#[derive(Debug)]
pub(super) struct QueueColumns {
    pub(super) key: Vec<String>,
    pub(super) columns: Vec<(String, ColumnType)>,
    /// The columns that a new item may set.
    pub(super) writable: Vec<(String, ColumnType)>,
    /// Every column that is not a soft-lock column nor computed: what an archive keeps.
    pub(super) own: Vec<(String, String)>,
    /// The queue's order, and whether each column descends; none for a queue without order.
    order: Option<Vec<(String, bool)>>,
    pub(super) placeholders: Placeholders,
}

impl QueueColumns {
    /// Lays `queue` over `table`.
    ///
    /// # Errors
    /// One sentence for each thing that configuration asks for and the table does not have.
    pub(super) fn new(queue: &QueueSpec, table: &Table) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut column = |name: &str, role: &str| {
            let found = table.column(name);
            if found.is_none() && !queue.soft_lock.contains(name) {
                problems.push(format!(
                    "table {:?} has no column {name:?}, which the queue's {role} names",
                    queue.table
                ));
            }
            found
        };
        let key: Vec<&Column> = if queue.key.is_empty() {
            let primary = table.unique.first().cloned().unwrap_or_default();
            primary
                .iter()
                .filter_map(|name| table.column(name))
                .collect()
        } else {
            let named = queue.key.iter();
            named.filter_map(|name| column(name, "key")).collect()
        };
        if let Order::By(order) = &queue.order {
            for part in order {
                column(&part.column, "order");
            }
        }
        for mirror in &queue.mirror {
            column(&mirror.column, "mirror");
        }
        let own = || {
            table
                .columns
                .iter()
                .filter(|column| !queue.soft_lock.contains(&column.name))
        };
        let columns: Vec<&Column> = match &queue.columns {
            None => own().collect(),
            Some(names) => names
                .iter()
                .filter_map(|name| column(name, "columns"))
                .collect(),
        };
        let key_names: Vec<String> = key.iter().map(|column| column.name.clone()).collect();
        if problems.is_empty() {
            match key_names.len() {
                0 => problems.push(format!(
                    "table {:?} has no primary key: name one to three columns with a unique index as the queue's key",
                    queue.table
                )),
                1..=3 if table.is_unique(&key_names) => {}
                1..=3 => problems.push(format!(
                    "the key of queue {:?} ({}) does not identify a row: it needs a unique index that is not partial",
                    queue.name,
                    key_names.join(", ")
                )),
                _ => problems.push(format!(
                    "the key of queue {:?} has {} columns; three is the most",
                    queue.name,
                    key_names.len()
                )),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let named = |column: &Column| (column.name.clone(), column.kind);
        let mirrored = |column: &Column| {
            let mut mirrors = queue.mirror.iter();
            mirrors.any(|mirror| mirror.column.eq_ignore_ascii_case(&column.name))
        };
        Ok(Self {
            columns: columns.iter().map(|column| named(column)).collect(),
            writable: own()
                .filter(|column| !column.generated && !mirrored(column))
                .map(named)
                .collect(),
            own: own()
                .filter(|column| !column.generated)
                .map(|column| (column.name.clone(), column.declared.clone()))
                .collect(),
            placeholders: placeholders(queue, table, &key, &columns),
            order: order(queue, &key),
            key: key_names,
        })
    }

    /// Returns whether the index of this role serves the queue. A ready index in another order would be sorted anew at
    /// each claim; whether the state leads it or filters it is all the same.
    pub(super) fn is_usable(&self, queue: &QueueSpec, role: &str, index: &Index) -> bool {
        let Some(order) = self.order.as_ref().filter(|_| role == "ready") else {
            return true;
        };
        let state = queue.soft_lock.name(SoftLockColumn::State);
        let is = |column: &Option<String>, name: &str| {
            column
                .as_ref()
                .is_some_and(|column| column.eq_ignore_ascii_case(name))
        };
        let in_order = |columns: &[(Option<String>, bool)]| {
            let mut pairs = columns.iter().zip(order);
            columns.len() == order.len()
                && pairs
                    .all(|((column, descends), (name, down))| is(column, name) && descends == down)
        };
        match &*index.columns {
            [(first, _), rest @ ..] if is(first, state) && in_order(rest) => true,
            all => in_order(all),
        }
    }
}

/// Fills the placeholders that depend on the queue alone; enough to create its table.
pub(super) fn queue_placeholders(queue: &QueueSpec) -> Placeholders {
    let mut placeholders: Placeholders = SoftLockColumn::ALL
        .into_iter()
        .map(|column| (column.default_name(), quote(queue.soft_lock.name(column))))
        .collect();
    placeholders.insert("table", quote(&queue.table));
    for (placeholder, role) in INDEXES {
        placeholders.insert(placeholder, quote(&index_name(queue, role)));
    }
    if let OnComplete::Archive(archive) = &queue.on_complete {
        placeholders.insert("archive", quote(archive));
    }
    placeholders
}

/// The placeholder of each index and the role in its name.
pub(super) const INDEXES: [(&str, &str); 4] = [
    ("ready_index", "ready"),
    ("due_index", "due"),
    ("token_index", "token"),
    ("dead_index", "dead"),
];

/// Names an index so that queues with soft-lock columns of their own share a table and no index.
pub(super) fn index_name(queue: &QueueSpec, role: &str) -> String {
    let state = queue.soft_lock.name(SoftLockColumn::State);
    if state == SoftLockColumn::State.default_name() {
        format!("{}_lease_{role}", queue.table)
    } else {
        format!("{}_{state}_{role}", queue.table)
    }
}

fn placeholders(
    queue: &QueueSpec,
    table: &Table,
    key: &[&Column],
    columns: &[&Column],
) -> Placeholders {
    let mut placeholders = queue_placeholders(queue);
    let state = quote(queue.soft_lock.name(SoftLockColumn::State));
    let due = quote(queue.soft_lock.name(SoftLockColumn::DueTime));
    let token = quote(queue.soft_lock.name(SoftLockColumn::Token));
    let since = quote(queue.soft_lock.name(SoftLockColumn::StateTime));
    let key_list = quote_all(key.iter().map(|column| column.name.as_str()));
    let order = order_list(queue, key);

    let matches: Vec<String> = (1..)
        .zip(key)
        .map(|(at, column)| format!("{} = ?{at}", quote(&column.name)))
        .collect();
    let present: Vec<String> = key
        .iter()
        .filter(|column| column.nullable)
        .map(|column| format!(" AND {} IS NOT NULL", quote(&column.name)))
        .collect();
    let data: Vec<String> = columns
        .iter()
        .map(|column| format!(", {}", quote(&column.name)))
        .collect();
    placeholders.insert("key_match", matches.join(" AND "));
    placeholders.insert("key_not_null", present.concat());
    placeholders.insert("data_columns", data.concat());
    placeholders.insert("queue_order", order.clone().unwrap_or(key_list.clone()));
    placeholders.insert(
        "order_by",
        order
            .as_ref()
            .map(|order| format!("ORDER BY {order}"))
            .unwrap_or_default(),
    );

    // The state leads where the index can't be filtered by it; with no order, the filtered index needs some column.
    let (ready, due_columns, token_columns, dead_columns) = if queue.filtered_indexes {
        (order.unwrap_or(key_list.clone()), due, token, since)
    } else {
        let ready = order.map_or_else(|| state.clone(), |order| format!("{state}, {order}"));
        (
            ready,
            format!("{state}, {due}"),
            format!("{token}, {state}"),
            format!("{state}, {since}"),
        )
    };
    let filter = |condition: &str| {
        if queue.filtered_indexes {
            format!(" WHERE {state} {condition}")
        } else {
            String::new()
        }
    };
    placeholders.insert("ready_columns", ready);
    placeholders.insert("ready_filter", filter("= 0"));
    placeholders.insert("due_columns", due_columns);
    placeholders.insert("due_filter", filter("IN (1, 2)"));
    placeholders.insert("token_columns", token_columns);
    placeholders.insert("token_filter", filter("= 1"));
    placeholders.insert("dead_columns", dead_columns);
    placeholders.insert("dead_filter", filter("= 4"));
    placeholders.insert("key", key_list);

    mirror::fill(&mut placeholders, queue, table);
    placeholders
}

/// Returns the queue's order with its tie-breaker, the key, and whether each column descends; none for a queue without
/// order.
fn order(queue: &QueueSpec, key: &[&Column]) -> Option<Vec<(String, bool)>> {
    let Order::By(order) = &queue.order else {
        return None;
    };
    let named = |column: &Column| {
        let mut parts = order.iter();
        parts.any(|part| part.column.eq_ignore_ascii_case(&column.name))
    };
    let parts = order
        .iter()
        .map(|part| (part.column.clone(), part.descending));
    let ties = key.iter().filter(|column| !named(column));
    Some(
        parts
            .chain(ties.map(|column| (column.name.clone(), false)))
            .collect(),
    )
}

fn order_list(queue: &QueueSpec, key: &[&Column]) -> Option<String> {
    let parts: Vec<String> = order(queue, key)?
        .iter()
        .map(|(column, descends)| {
            format!("{}{}", quote(column), if *descends { " DESC" } else { "" })
        })
        .collect();
    Some(parts.join(", "))
}
