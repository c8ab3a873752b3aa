//! The columns of a table by their use in a queue: key, order, data for workers, columns that new items may set.

use lease_broker_model::queue::{
    Mirror, MirrorValue, Order, OrderColumn, QueueSpec, SoftLock, SoftLockColumn,
};
use lease_broker_value::Value;

use super::table::{Column, Table};
use super::template::Placeholders;

/// The columns of a queue's table, by use. Names are spelled as in the catalogue.
#[derive(Debug)]
pub(super) struct QueueColumns<Kind> {
    /// The key: one to three columns that identify a row.
    pub(super) key: Vec<Column<Kind>>,
    /// The columns that workers receive with a lease.
    pub(super) data: Vec<Column<Kind>>,
    /// The columns that a new item may set.
    pub(super) insertable: Vec<Column<Kind>>,
    /// The columns that a settlement may write.
    pub(super) writable: Vec<Column<Kind>>,
    /// The columns by whose values operators can filter.
    pub(super) filterable: Vec<Column<Kind>>,
    /// The columns, other than soft-lock columns, that an archive keeps.
    pub(super) archived: Vec<Column<Kind>>,
    /// The column of the groups. `None`: the queue has no groups.
    pub(super) group: Option<Column<Kind>>,
    /// The queue's order. The key comes last and breaks ties. A queue without order has the key alone.
    pub(super) order: Vec<OrderColumn>,
}

impl<Kind: Clone> QueueColumns<Kind> {
    /// Finds the columns that `queue` uses in `table`. `type_problems` are problems with column types that the store has
    /// found; they are reported with those found here.
    ///
    /// # Errors
    /// One sentence for each column that the configuration names and the table lacks, and for each type problem. If there
    /// are none of these: one sentence if the key does not identify a row.
    pub(super) fn new(
        queue: &QueueSpec,
        table: &Table<Kind>,
        type_problems: Vec<String>,
    ) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut find = |name: &str, setting: &str| {
            let found = table.column(name);
            if found.is_none() && !queue.soft_lock.contains(name) {
                problems.push(format!(
                    "table {:?} has no column {name:?}, which the setting {setting} of queue {:?} names",
                    queue.table, queue.name
                ));
            }
            found.cloned()
        };
        let primary_key = || table.unique.first().cloned().unwrap_or_default();
        let key_names = match &*queue.key {
            [] => primary_key(),
            names => names.to_vec(),
        };
        let key = key_names.iter().filter_map(|name| find(name, "key"));
        let key: Vec<Column<Kind>> = key.collect();
        if let Order::By(order) = &queue.order {
            for part in order {
                find(&part.column, "order");
            }
        }
        for mirror in &queue.mirror {
            find(&mirror.column, "mirror");
        }
        if let Some(groups) = &queue.groups {
            find(&groups.column, "group");
        }
        let others = || {
            let columns = table.columns.iter();
            columns.filter(|column| !queue.soft_lock.is_of_any_queue(&column.name))
        };
        let data = match &queue.columns {
            None => others().filter(|column| column.readable).cloned().collect(),
            Some(names) => {
                let columns = names.iter().filter_map(|name| find(name, "columns"));
                columns.collect()
            }
        };
        let writable = queue.writable.iter();
        let writable: Vec<Column<Kind>> =
            writable.filter_map(|name| find(name, "writable")).collect();
        let filterable = queue.filterable.iter();
        let filterable: Vec<Column<Kind>> = filterable
            .filter_map(|name| find(name, "filterable"))
            .collect();
        for (setting, columns) in [
            ("key", &key),
            ("columns", &data),
            ("filterable", &filterable),
        ] {
            problems.extend(unreadable_problems(queue, setting, columns));
        }
        problems.extend(writable_problems(queue, &key, &writable));
        problems.extend(mirror_problems(queue, table, &key));
        problems.extend(group_key_problem(queue, &key));
        problems.extend(type_problems);
        if problems.is_empty() {
            problems.extend(key_problem(queue, table, &key));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let group = queue.groups.as_ref();
        let group = group.and_then(|groups| table.column(&groups.column).cloned());
        let is_mirror = |column: &Column<Kind>| {
            let mut mirrors = queue.mirror.iter();
            mirrors.any(|mirror| mirror.column.eq_ignore_ascii_case(&column.name))
        };
        let can_insert = |column: &&Column<Kind>| column.readable && !column.generated;
        let insertable = others().filter(|column| can_insert(column) && !is_mirror(column));
        let archived = others().filter(|column| column.archivable);
        Ok(Self {
            data,
            insertable: insertable.cloned().collect(),
            writable,
            filterable,
            archived: archived.cloned().collect(),
            group,
            order: order(queue, &key),
            key,
        })
    }
}

impl<Kind> QueueColumns<Kind> {
    /// Returns the queue's order as it counts inside a group. The column of the groups orders nothing there.
    pub(super) fn order_in_group(&self) -> Vec<OrderColumn> {
        let is_group = |part: &OrderColumn| {
            let group = self.group.as_ref();
            group.is_some_and(|group| group.name.eq_ignore_ascii_case(&part.column))
        };
        let order = self.order.iter().filter(|part| !is_group(part));
        order.cloned().collect()
    }
}

/// Returns a sentence about the column of the groups if its values cannot name groups. `fits`: whether its type can.
pub(super) fn group_problem<Kind>(
    queue: &QueueSpec,
    table: &Table<Kind>,
    fits: impl Fn(&Column<Kind>) -> bool,
) -> Option<String> {
    let groups = queue.groups.as_ref()?;
    let column = table.column(&groups.column)?;
    (!fits(column)).then(|| {
        let declared = match &*column.declared {
            "" => "without a declared type",
            declared => declared,
        };
        format!(
            "the column {:?} of table {:?} is {declared}, which the setting group of queue {:?} cannot use: name a column of an integer, text, \
             uuid, date, time or decimal type that an index can have",
            column.name, queue.table, queue.name
        )
    })
}

/// Returns a warning if rows can have NULL in the column of the groups.
pub(super) fn group_warning<Kind>(queue: &QueueSpec, table: &Table<Kind>) -> Option<String> {
    let groups = queue.groups.as_ref()?;
    let column = table.column(&groups.column)?;
    column.nullable.then(|| {
        format!(
            "the column {:?} of table {:?}, which the setting group of queue {:?} names, can be NULL. Rows with NULL belong to no group: \
             they keep no order and have no limit, and all of them together get one turn per round",
            column.name, queue.table, queue.name
        )
    })
}

/// Returns the warning about rows with NULL in a column of the key.
pub(super) fn null_key_warning(queue: &QueueSpec) -> String {
    format!(
        "table {:?} has rows with NULL in a column of the key of queue {:?}. They are no items: no worker can get them until the column \
         has a value",
        queue.table, queue.name
    )
}

/// Returns one sentence for each column that a setting names and whose values the driver cannot read.
fn unreadable_problems<Kind>(
    queue: &QueueSpec,
    setting: &str,
    columns: &[Column<Kind>],
) -> Vec<String> {
    let unreadable = columns.iter().filter(|column| !column.readable);
    let problems = unreadable.map(|column| {
        format!(
            "the column {:?} of table {:?} has the type {}, which the broker cannot read: name another column in the setting {setting} \
             of queue {:?}",
            column.name, queue.table, column.declared, queue.name
        )
    });
    problems.collect()
}

/// Returns one sentence for each column that the setting `writable` names and that a settlement must not write.
fn writable_problems<Kind>(
    queue: &QueueSpec,
    key: &[Column<Kind>],
    writable: &[Column<Kind>],
) -> Vec<String> {
    let reason = |column: &Column<Kind>| {
        if key.iter().any(|part| part.name == column.name) {
            Some("is part of the key")
        } else if column.generated {
            Some("gets its value from the database")
        } else if !column.readable {
            Some("has a type that the broker cannot write")
        } else {
            None
        }
    };
    let problems = writable.iter().filter_map(|column| {
        let reason = reason(column)?;
        Some(format!(
            "the column {:?} of table {:?} {reason}: remove it from the setting writable of queue {:?}",
            column.name, queue.table, queue.name
        ))
    });
    problems.collect()
}

/// Returns one sentence for each value of the setting `mirror` that a row cannot have, or that would make it another row.
fn mirror_problems<Kind>(
    queue: &QueueSpec,
    table: &Table<Kind>,
    key: &[Column<Kind>],
) -> Vec<String> {
    let problem = |mirror: &Mirror| {
        let column = table.column(&mirror.column)?;
        let reason = if key.iter().any(|part| part.name == column.name) {
            "is part of the key"
        } else if column.generated {
            "gets its value from the database"
        } else if !column.nullable && mirror.value == MirrorValue::Literal(Value::Null) {
            "cannot be NULL"
        } else {
            return None;
        };
        Some(format!(
            "the column {:?} of table {:?} {reason}: correct mirror.{} of queue {:?}",
            column.name,
            queue.table,
            mirror.state.name(),
            queue.name
        ))
    };
    queue.mirror.iter().filter_map(problem).collect()
}

/// Returns a sentence if the column of the groups is the whole key.
fn group_key_problem<Kind>(queue: &QueueSpec, key: &[Column<Kind>]) -> Option<String> {
    let groups = queue.groups.as_ref()?;
    let [part] = key else { return None };
    part.name.eq_ignore_ascii_case(&groups.column).then(|| {
        format!(
            "the column {:?} of table {:?} is the key, so each row would be a group of its own: name another column in the setting \
             group of queue {:?}",
            part.name, queue.table, queue.name
        )
    })
}

fn key_problem<Kind>(
    queue: &QueueSpec,
    table: &Table<Kind>,
    key: &[Column<Kind>],
) -> Option<String> {
    let names: Vec<String> = key.iter().map(|column| column.name.clone()).collect();
    match key.len() {
        0 => Some(format!(
            "table {:?} has no primary key: set key of queue {:?} to one to three columns that have a unique index",
            queue.table, queue.name
        )),
        1..=3 if table.is_unique(&names) => None,
        1..=3 => Some(format!(
            "the key of queue {:?} ({}) does not identify a row: add a unique index on these columns, without a condition or a \
             collation of its own",
            queue.name,
            names.join(", ")
        )),
        count => Some(format!(
            "the key of queue {:?} has {count} columns; three is the most",
            queue.name
        )),
    }
}

/// Returns the queue's order, followed by the columns of the key that it does not name.
fn order<Kind>(queue: &QueueSpec, key: &[Column<Kind>]) -> Vec<OrderColumn> {
    let mut order = match &queue.order {
        Order::None => Vec::new(),
        Order::By(order) => order.clone(),
    };
    for column in key {
        let mut named = order.iter();
        if !named.any(|part| part.column.eq_ignore_ascii_case(&column.name)) {
            order.push(OrderColumn {
                column: column.name.clone(),
                descending: false,
            });
        }
    }
    order
}

/// Returns the quoted name of each soft-lock column, for the placeholder with the column's default name.
pub(super) fn soft_lock_placeholders(
    soft_lock: &SoftLock,
    quote: fn(&str) -> String,
) -> Placeholders {
    let quoted = |column: SoftLockColumn| (column.default_name(), quote(soft_lock.name(column)));
    SoftLockColumn::ALL.into_iter().map(quoted).collect()
}

/// Returns the opposite of an order.
pub(super) fn reversed(order: &[OrderColumn]) -> Vec<OrderColumn> {
    let reversed = order.iter().map(|part| OrderColumn {
        column: part.column.clone(),
        descending: !part.descending,
    });
    reversed.collect()
}

/// Renders columns to sort by, each with `prefix` before its quoted name.
pub(super) fn sort_list(order: &[OrderColumn], prefix: &str, quote: fn(&str) -> String) -> String {
    let parts = order.iter().map(|part| {
        let direction = if part.descending { " DESC" } else { "" };
        format!("{prefix}{}{direction}", quote(&part.column))
    });
    parts.collect::<Vec<_>>().join(", ")
}
