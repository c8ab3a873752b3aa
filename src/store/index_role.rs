//! The indexes of a queue: their purposes, names and columns.
//!
//! The statements that workers and the reaper cause find their rows by one of these indexes or by the key. Each index serves
//! the rows of some states. If the queue has `filtered_indexes`, the index contains only those rows. Otherwise it contains all
//! rows, and the state is one of its columns.

use lease_broker_model::group::Groups;
use lease_broker_model::named_enum;
use lease_broker_model::queue::{OrderColumn, QueueSpec, SoftLockColumn};

use super::queue_columns::QueueColumns;

/// The last word of the name of the index [`IndexRole::Busy`] if the queue halts at dead items. The index then has other rows.
const HALTING: &str = "halt";

named_enum! {
    /// The purpose of an index. Its name is part of the index's name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum IndexRole {
        /// Ready items in the queue's order. Claims use it.
        Ready = "ready",
        /// Ready items by group, and then in the queue's order. Claims of a queue with groups use it in place of [`Self::Ready`].
        /// Without filters it holds all rows, and serves in place of [`Self::Busy`] too.
        Group = "group",
        /// Items that can hold their group back, by group: leased and delayed ones, and dead ones if the queue halts at them.
        Busy = "busy",
        /// Leased and delayed items by due time. The reaper uses it.
        Due = "due",
        /// Leased items by token. A claim reads the items that it leased by it, and a retried claim those that it leased before.
        Token = "token",
        /// Dead items by the time at which they became dead. They are counted and listed without reading other rows.
        Dead = "dead",
        /// Completed items by the time of their completion, and then by key. Retention finds old ones. Only queues with
        /// `completed_index` have it.
        Completed = "completed",
    }
}

impl IndexRole {
    /// Returns the roles of the queue's indexes.
    pub(super) fn of(queue: &QueueSpec) -> impl Iterator<Item = Self> + use<> {
        let completed = queue.completed_index;
        let has_groups = queue.groups.is_some();
        let has_busy = has_groups && queue.filtered_indexes;
        let all = Self::ALL.into_iter();
        all.filter(move |role| match role {
            Self::Ready => !has_groups,
            Self::Group => has_groups,
            Self::Busy => has_busy,
            Self::Completed => completed,
            Self::Due | Self::Token | Self::Dead => true,
        })
    }

    /// Returns the roles of indexes that decide which items are claimed and that the queue does not use, with their names on `table`.
    /// While such an index exists, a broker with other settings could use it and claim items that this queue's rules hold back.
    pub(super) fn unused(queue: &QueueSpec, table: &str) -> Vec<(Self, String)> {
        let used: Vec<String> = Self::of(queue)
            .map(|role| role.index_name(queue, table))
            .collect();
        let halting = Self::name_on(queue, table, HALTING);
        let deciding = [Self::Ready, Self::Group, Self::Busy];
        let all = deciding.map(|role| (role, Self::name_on(queue, table, role.name())));
        let all = all.into_iter().chain([(Self::Busy, halting)]);
        all.filter(|(_, name)| !used.contains(name)).collect()
    }

    /// Returns the placeholder of the index's name.
    pub(super) const fn placeholder(self) -> &'static str {
        match self {
            Self::Ready => "ready_index",
            Self::Group => "group_index",
            Self::Busy => "busy_index",
            Self::Due => "due_index",
            Self::Token => "token_index",
            Self::Dead => "dead_index",
            Self::Completed => "completed_index",
        }
    }

    /// Returns the WHERE clause of the index. `state`: the quoted column. The clause is empty if the queue's indexes are not filtered.
    pub(super) fn filter(self, queue: &QueueSpec, state: &str) -> String {
        if queue.filtered_indexes {
            format!(" WHERE {}", self.condition(queue, state))
        } else {
            String::new()
        }
    }

    /// Returns the condition on the column `state` that selects the rows of the index.
    ///
    /// The condition of [`Self::Busy`] is written so that no other index implies it. Otherwise a planner whose statistics know of no
    /// leases could choose another index and read all of it for each group.
    pub(super) fn condition(self, queue: &QueueSpec, state: &str) -> String {
        match self {
            Self::Ready | Self::Group => format!("{state} = 0"),
            Self::Busy if queue.groups.as_ref().is_some_and(Groups::halts) => {
                format!("{state} > 0 AND {state} <> 3")
            }
            Self::Busy => format!("{state} > 0 AND {state} < 3"),
            Self::Due => format!("{state} IN (1, 2)"),
            Self::Token => format!("{state} = 1"),
            Self::Dead => format!("{state} = 4"),
            Self::Completed => format!("{state} = 3"),
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
            Self::Group | Self::Busy => {
                let group = columns.group.as_ref().map(|column| ascending(&column.name));
                let mut sorted_by: Vec<OrderColumn> = group.into_iter().collect();
                if self == Self::Busy {
                    sorted_by.extend(by(SoftLockColumn::State));
                }
                sorted_by.extend(columns.order_in_group());
                sorted_by
            }
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
        let halts = queue.groups.as_ref().is_some_and(Groups::halts);
        let role = if self == Self::Busy && halts {
            HALTING
        } else {
            self.name()
        };
        Self::name_on(queue, table, role)
    }

    /// Returns the name of the index on `table` if the last word of the name is `role`.
    fn name_on(queue: &QueueSpec, table: &str, role: &str) -> String {
        let state = queue.soft_lock.name(SoftLockColumn::State);
        if state == SoftLockColumn::State.default_name() {
            format!("{table}_lease_{role}")
        } else {
            format!("{table}_{state}_{role}")
        }
    }
}
