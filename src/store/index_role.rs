//! The indexes of a queue: their purposes, names and columns.
//!
//! The statements that workers and the reaper cause find their rows by one of these indexes or by the key. Each index serves
//! the rows of some states. If the queue has `filtered_indexes`, the index contains only those rows. Otherwise it contains all
//! rows, and the state is one of its columns.

use lease_broker_model::queue::{OrderColumn, QueueSpec, SoftLockColumn};

use super::queue_columns::QueueColumns;

/// The purpose of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexRole {
    /// Ready items in the queue's order. Claims use it.
    Ready,
    /// Leased and delayed items by due time. The reaper uses it.
    Due,
    /// Leased items by token. A claim reads the items that it leased by it, and a retried claim those that it leased before.
    Token,
    /// Dead items by the time at which they became dead. They are counted and listed without reading other rows.
    Dead,
    /// Completed items by the time of their completion, and then by key. Retention finds old ones. Only queues with
    /// `completed_index` have it.
    Completed,
}

impl IndexRole {
    pub(super) const ALL: [Self; 5] = [
        Self::Ready,
        Self::Due,
        Self::Token,
        Self::Dead,
        Self::Completed,
    ];

    /// Returns the roles of the queue's indexes.
    pub(super) fn of(queue: &QueueSpec) -> impl Iterator<Item = Self> + use<> {
        let completed = queue.completed_index;
        let all = Self::ALL.into_iter();
        all.filter(move |role| completed || *role != Self::Completed)
    }

    /// Returns the role's name, which is part of the index's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Due => "due",
            Self::Token => "token",
            Self::Dead => "dead",
            Self::Completed => "completed",
        }
    }

    /// Returns the section of `adopt.sql` that creates the index. The placeholder of the index's name is called the same.
    pub(super) const fn section(self) -> &'static str {
        match self {
            Self::Ready => "ready_index",
            Self::Due => "due_index",
            Self::Token => "token_index",
            Self::Dead => "dead_index",
            Self::Completed => "completed_index",
        }
    }

    /// Returns the names of the placeholders for the index's columns and for its filter.
    pub(super) const fn placeholders(self) -> [&'static str; 2] {
        match self {
            Self::Ready => ["ready_columns", "ready_filter"],
            Self::Due => ["due_columns", "due_filter"],
            Self::Token => ["token_columns", "token_filter"],
            Self::Dead => ["dead_columns", "dead_filter"],
            Self::Completed => ["completed_columns", "completed_filter"],
        }
    }

    /// Returns the states in the index, as a condition that follows the state column.
    pub(super) const fn states(self) -> &'static str {
        match self {
            Self::Ready => "= 0",
            Self::Due => "IN (1, 2)",
            Self::Token => "= 1",
            Self::Dead => "= 4",
            Self::Completed => "= 3",
        }
    }

    /// Returns the columns that sort the index.
    pub(super) fn columns<Kind>(
        self,
        queue: &QueueSpec,
        columns: &QueueColumns<Kind>,
    ) -> Vec<OrderColumn> {
        let ascending = |name: &str| OrderColumn {
            column: name.to_owned(),
            descending: false,
        };
        let by = |column| vec![ascending(queue.soft_lock.name(column))];
        match self {
            Self::Ready => columns.order.clone(),
            Self::Due => by(SoftLockColumn::DueTime),
            Self::Token => by(SoftLockColumn::Token),
            Self::Dead => by(SoftLockColumn::StateTime),
            Self::Completed => {
                let mut sorted_by = by(SoftLockColumn::StateTime);
                sorted_by.extend(columns.key.iter().map(|column| ascending(&column.name)));
                sorted_by
            }
        }
    }

    /// Returns the name of the index on `table`, a name without its schema. If the queue renames the state column, that
    /// column's name is part of it, so that queues which share a table do not share an index.
    pub(super) fn index_name(self, queue: &QueueSpec, table: &str) -> String {
        let (state, role) = (queue.soft_lock.name(SoftLockColumn::State), self.name());
        if state == SoftLockColumn::State.default_name() {
            format!("{table}_lease_{role}")
        } else {
            format!("{table}_{state}_{role}")
        }
    }
}
