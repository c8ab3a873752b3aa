//! The indexes that a queue's statements seek on: what each is for, what it is called, and which one of a table it is.

use super::catalogue::{Index, Table};
use super::quote::{bare_table, literal, quote};
use crate::queue::{Order, QueueSpec, SoftLockColumn};
use crate::store::template::Placeholders;
use crate::value::Value;

/// What an index is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexRole {
    /// Ready items in the queue's order: the claim's.
    Ready,
    /// Leased and delayed items by due time: the reaper's.
    Due,
    /// Leased items by token: what a call has got, and what a repeated call had got.
    Token,
    /// Dead items, the longest dead first: so that they are counted and listed without a look at the others.
    Dead,
}

impl IndexRole {
    const ALL: [Self; 4] = [Self::Ready, Self::Due, Self::Token, Self::Dead];

    /// Returns the roles of a queue's indexes. Where they can't be filtered, the dead have no index to themselves: one of all
    /// rows would cost every change of state more than it is worth.
    pub(super) fn of(queue: &QueueSpec) -> impl Iterator<Item = Self> + use<> {
        let filtered = queue.filtered_indexes;
        Self::ALL
            .into_iter()
            .filter(move |role| filtered || *role != Self::Dead)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Due => "due",
            Self::Token => "token",
            Self::Dead => "dead",
        }
    }

    /// The section of `adopt.sql` that makes it, which is the placeholder with its name too.
    pub(super) const fn section(self) -> &'static str {
        match self {
            Self::Ready => "ready_index",
            Self::Due => "due_index",
            Self::Token => "token_index",
            Self::Dead => "dead_index",
        }
    }

    /// Names the index so that queues with soft-lock columns of their own share a table and no index.
    pub(super) fn index_name(self, queue: &QueueSpec) -> String {
        let state = queue.soft_lock.name(SoftLockColumn::State);
        let (table, role) = (bare_table(&queue.table), self.name());
        if state == SoftLockColumn::State.default_name() {
            format!("{table}_lease_{role}")
        } else {
            format!("{table}_{state}_{role}")
        }
    }

    /// Returns the columns that the rows are sorted by, and the states that are in it.
    fn shape(
        self,
        queue: &QueueSpec,
        order: &[(String, bool)],
    ) -> (Vec<(String, bool)>, &'static str) {
        let by = |column| vec![(queue.soft_lock.name(column).to_owned(), false)];
        match self {
            Self::Ready => (order.to_vec(), "= 0"),
            Self::Due => (by(SoftLockColumn::DueTime), "IN (1, 2)"),
            Self::Token => (by(SoftLockColumn::Token), "= 1"),
            Self::Dead => (by(SoftLockColumn::StateTime), "= 4"),
        }
    }

    /// Finds the index of this role, by its columns: an engine may keep another name for it, or somebody has given it one. It
    /// is filtered, or the state leads it: an index of the table's own on the same columns holds every row.
    pub(super) fn find<'a>(
        self,
        queue: &QueueSpec,
        order: &[(String, bool)],
        table: &'a Table,
    ) -> Option<&'a Index> {
        let state = queue.soft_lock.name(SoftLockColumn::State);
        let name = self.index_name(queue);
        let any_order = self == Self::Ready && queue.order == Order::None;
        let (wanted, states) = self.shape(queue, order);
        let fits = |columns: &[(String, bool)]| {
            let mut pairs = columns.iter().zip(&wanted);
            columns.len() == wanted.len()
                && pairs.all(|((one, down), (other, descends))| {
                    one.eq_ignore_ascii_case(other) && down == descends
                })
        };
        table.indexes.iter().find(|index| {
            let (led, rest) = match &*index.columns {
                [(first, _), rest @ ..] if first == state => (true, rest),
                all => (false, all),
            };
            let of_states = match (&index.filter, queue.filtered_indexes) {
                // Not the key's own, which may be on the same columns.
                _ if !table.reports_filters => !index.unique,
                (Some(filter), true) => filter_matches(filter, state, states),
                (None, false) => led,
                _ => false,
            };
            of_states && (fits(rest) || any_order && table.index_named(&name) == Some(index))
        })
    }
}

/// Returns whether a filter, as the server writes it, is the condition `states` on the column `state`.
fn filter_matches(filter: &str, state: &str, states: &str) -> bool {
    let bare = |text: &str| -> String {
        let kept = text.chars().filter(|c| !"[]() ".contains(*c));
        kept.collect::<String>().to_ascii_lowercase()
    };
    let (filter, state) = (bare(filter), bare(state));
    let either = states
        .trim_start_matches("IN ")
        .trim_matches(['(', ')'])
        .split(", ")
        .map(|one| format!("{state}={one}"))
        .collect::<Vec<_>>()
        .join("or");
    filter == bare(&format!("{state}{states}")) || filter == either
}

/// Fills the placeholders of the indexes' names, columns and filters.
pub(super) fn fill(
    placeholders: &mut Placeholders,
    queue: &QueueSpec,
    order: &[(String, bool)],
    table: &Table,
) {
    let state = quote(queue.soft_lock.name(SoftLockColumn::State));
    for (role, columns, filter, hint, name) in [
        (
            IndexRole::Ready,
            "ready_columns",
            "ready_filter",
            "ready_hint",
            "ready_literal",
        ),
        (
            IndexRole::Due,
            "due_columns",
            "due_filter",
            "due_hint",
            "due_literal",
        ),
        (
            IndexRole::Token,
            "token_columns",
            "token_filter",
            "token_hint",
            "token_literal",
        ),
        (
            IndexRole::Dead,
            "dead_columns",
            "dead_filter",
            "dead_hint",
            "dead_literal",
        ),
    ] {
        let (sorted_by, states) = role.shape(queue, order);
        let sorted_by = ordered(&sorted_by, "");
        let (sorted_by, condition) = if queue.filtered_indexes {
            (sorted_by, format!(" WHERE {state} {states}"))
        } else {
            (format!("{state}, {sorted_by}"), String::new())
        };
        placeholders.insert(columns, sorted_by);
        placeholders.insert(filter, condition);
        let found = role.find(queue, order, table);
        let known = found.map(|index| index.name.clone());
        let known = known.unwrap_or_else(|| role.index_name(queue));
        placeholders.insert(name, literal(&Value::Text(known.clone())));
        let is_there = IndexRole::of(queue).any(|of_queue| of_queue == role);
        let known = is_there.then(|| hint_of(&known));
        placeholders.insert(hint, known.unwrap_or_default());
    }
}

/// Fills the placeholders of the names that new indexes get.
pub(super) fn fill_names(placeholders: &mut Placeholders, queue: &QueueSpec) {
    for role in IndexRole::ALL {
        placeholders.insert(role.section(), quote(&role.index_name(queue)));
    }
}

/// Names the index that a statement must seek on, among the hints of a table. Not where the name would end a comment:
/// Babelfish makes one of the hint.
fn hint_of(name: &str) -> String {
    if name.contains("/*") || name.contains("*/") {
        String::new()
    } else {
        format!(", INDEX ({})", quote(name))
    }
}

/// Writes columns to sort by.
pub(super) fn ordered(order: &[(String, bool)], prefix: &str) -> String {
    let parts = order.iter().map(|(column, descends)| {
        let direction = if *descends { " DESC" } else { "" };
        format!("{prefix}{}{direction}", quote(column))
    });
    parts.collect::<Vec<_>>().join(", ")
}
