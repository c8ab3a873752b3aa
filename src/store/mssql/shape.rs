//! A queue laid over its table: which columns are its key, its order and its data, and what the templates' holes hold.

use super::catalogue::{Column, Index, Table};
use super::mirror;
use super::quote::{bare_table, literal, quote, quote_table};
use super::soft_lock;
use super::types::ColumnType;
use crate::queue::{OnComplete, Order, QueueSpec, SoftLockColumn};
use crate::store::template::Holes;
use crate::value::Value;

/// The parts of a table that a queue uses, with the names as the catalogue spells them.
pub(super) struct Shape {
    pub(super) key: Vec<Column>,
    pub(super) columns: Vec<Column>,
    /// The columns that a new item may set.
    pub(super) writable: Vec<Column>,
    /// Every column that is not a soft-lock column: what an archive keeps.
    pub(super) own: Vec<Column>,
    /// The queue's order with its tie-breaker, and whether each column descends.
    order: Vec<(String, bool)>,
    pub(super) holes: Holes,
}

impl Shape {
    /// Lays `queue` over `table`.
    ///
    /// # Errors
    /// One sentence for each thing that configuration asks for and the table does not have.
    pub(super) fn new(queue: &QueueSpec, table: &Table) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut column = |name: &str, role: &str| {
            let found = table.column(name).cloned();
            if found.is_none() && !queue.soft_lock.contains(name) {
                problems.push(format!(
                    "table {:?} has no column {name:?}, which the queue's {role} names",
                    queue.table
                ));
            }
            found
        };
        let key_names = if queue.key.is_empty() {
            table.unique.first().cloned().unwrap_or_default()
        } else {
            queue.key.clone()
        };
        let key: Vec<Column> = key_names
            .iter()
            .filter_map(|name| column(name, "key"))
            .collect();
        if let Order::By(order) = &queue.order {
            for part in order {
                column(&part.column, "order");
            }
        }
        for mirror in &queue.mirror {
            column(&mirror.column, "mirror");
        }
        let own = || {
            let columns = table.columns.iter();
            columns.filter(|column| !queue.soft_lock.contains(&column.name))
        };
        let columns: Vec<Column> = match &queue.columns {
            None => own().cloned().collect(),
            Some(names) => names
                .iter()
                .filter_map(|name| column(name, "columns"))
                .collect(),
        };
        problems.extend(soft_lock::problems(queue, table));
        if problems.is_empty() {
            problems.extend(problem_of_key(queue, table, &key));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mirrored = |column: &&Column| {
            let mut mirrors = queue.mirror.iter();
            mirrors.any(|mirror| mirror.column.eq_ignore_ascii_case(&column.name))
        };
        let order = order(queue, &key);
        Ok(Self {
            writable: own()
                .filter(|column| !column.generated && !mirrored(column))
                .cloned()
                .collect(),
            own: own()
                .filter(|column| column.kind != ColumnType::RowVersion)
                .cloned()
                .collect(),
            holes: holes(queue, table, &key, &columns, &order),
            key,
            columns,
            order,
        })
    }

    /// Finds the index of this role, by its columns: an engine may keep another name for it. Whether the state leads it or
    /// filters it is all the same; the primary key's own index is none.
    pub(super) fn find_index<'a>(
        &self,
        queue: &QueueSpec,
        role: &str,
        table: &'a Table,
    ) -> Option<&'a Index> {
        let soft = |column| vec![(queue.soft_lock.name(column).to_owned(), false)];
        let wanted = match role {
            "ready" => self.order.clone(),
            "due" => soft(SoftLockColumn::DueTime),
            _ => soft(SoftLockColumn::Token),
        };
        let state = queue.soft_lock.name(SoftLockColumn::State);
        let own_name = index_name(queue, role).to_ascii_lowercase();
        let any_order = role == "ready" && queue.order == Order::None;
        let fits = |columns: &[(String, bool)]| {
            let mut pairs = columns.iter().zip(&wanted);
            columns.len() == wanted.len()
                && pairs.all(|((one, down), (other, descends))| {
                    one.eq_ignore_ascii_case(other) && down == descends
                })
        };
        let primary = |index: &Index| {
            let names: Vec<&String> = index.columns.iter().map(|(name, _)| name).collect();
            let unique = table.unique.first();
            unique.is_some_and(|unique| unique.iter().eq(names.iter().copied()))
                && table.indexes.first() == Some(index)
        };
        table.indexes.iter().find(|index| {
            let without_state = match &*index.columns {
                [(first, _), rest @ ..] if first == state => rest,
                all => all,
            };
            let named = index.name.to_ascii_lowercase().starts_with(&own_name);
            !primary(index) && (fits(without_state) || any_order && named)
        })
    }
}

fn problem_of_key(queue: &QueueSpec, table: &Table, key: &[Column]) -> Option<String> {
    let names: Vec<String> = key.iter().map(|column| column.name.clone()).collect();
    match key.len() {
        0 => Some(format!(
            "table {:?} has no primary key: name one to three columns with a unique index as the queue's key",
            queue.table
        )),
        1..=3 if table.is_unique(&names) => None,
        1..=3 => Some(format!(
            "the key of queue {:?} ({}) does not identify a row: it needs a unique index that is not filtered",
            queue.name,
            names.join(", ")
        )),
        many => Some(format!(
            "the key of queue {:?} has {many} columns; three is the most",
            queue.name
        )),
    }
}

/// The hole of each index and the role in its name.
pub(super) const INDEXES: [(&str, &str); 3] = [
    ("ready_index", "ready"),
    ("due_index", "due"),
    ("token_index", "token"),
];

/// Names an index so that queues with soft-lock columns of their own share a table and no index.
pub(super) fn index_name(queue: &QueueSpec, role: &str) -> String {
    let state = queue.soft_lock.name(SoftLockColumn::State);
    let table = bare_table(&queue.table);
    if state == SoftLockColumn::State.default_name() {
        format!("{table}_lease_{role}")
    } else {
        format!("{table}_{state}_{role}")
    }
}

/// Fills the holes that depend on the queue alone; enough to create its table.
pub(super) fn queue_holes(queue: &QueueSpec) -> Holes {
    let mut holes: Holes = SoftLockColumn::ALL
        .into_iter()
        .map(|column| (column.default_name(), quote(queue.soft_lock.name(column))))
        .collect();
    let literal = |name: String| literal(&Value::Text(name));
    holes.insert("table", quote_table(&queue.table));
    holes.insert("table_literal", literal(quote_table(&queue.table)));
    for (hole, role) in INDEXES {
        holes.insert(hole, quote(&index_name(queue, role)));
    }
    if let OnComplete::Archive(archive) = &queue.on_complete {
        holes.insert("archive", quote_table(archive));
        holes.insert("archive_literal", literal(quote_table(archive)));
    }
    holes
}

impl Column {
    /// Returns whether a text in this column may have more than 4,000 characters.
    pub(super) fn has_long_texts(&self) -> bool {
        match self.kind {
            ColumnType::Text => {
                // char and varchar have room for up to 8,000.
                let declared = &self.declared;
                declared.ends_with("(max)")
                    || declared.ends_with("text")
                    || !declared.starts_with('n')
            }
            kind => kind == ColumnType::Xml,
        }
    }
}

/// Declares a column of a table variable like a column of the table, with its collation: to join two is an error.
pub(super) fn declaration(name: &str, column: &Column, null: &str) -> String {
    let collation = column.collation.as_ref();
    let collation = collation.map(|collation| format!(" COLLATE {collation}"));
    let collation = collation.unwrap_or_default();
    format!("{name} {}{collation} {null}", column.declared)
}

fn holes(
    queue: &QueueSpec,
    table: &Table,
    key: &[Column],
    columns: &[Column],
    order: &[(String, bool)],
) -> Holes {
    let mut holes = queue_holes(queue);
    let list = |render: &dyn Fn(usize, &Column) -> String| -> String {
        let parts: Vec<String> = (1..)
            .zip(key)
            .map(|(at, column)| render(at, column))
            .collect();
        parts.join(", ")
    };
    holes.insert(
        "key_declarations",
        list(&|at, column| declaration(&format!("lb_k{at}"), column, "NOT NULL")),
    );
    holes.insert("key_names", list(&|at, _| format!("lb_k{at}")));
    holes.insert(
        "key_as_names",
        list(&|at, column| format!("t.{} AS lb_k{at}", quote(&column.name))),
    );
    holes.insert(
        "key_of_t",
        list(&|_, column| format!("t.{}", quote(&column.name))),
    );
    holes.insert("key_of_d", list(&|at, _| format!("d.lb_k{at}")));
    holes.insert("key_of_k", list(&|at, _| format!("k.lb_k{at}")));
    holes.insert(
        "key_of_j",
        list(&|at, column| column.kind.of_json(&format!("j.k{at}"))),
    );
    holes.insert(
        "key_json",
        list(&|at, column| {
            let kind = column.kind;
            kind.json_declaration(&format!("k{at}"), &column.declared)
        }),
    );
    holes.insert(
        "inserted_key",
        list(&|_, column| format!("inserted.{}", quote(&column.name))),
    );
    holes.insert(
        "deleted_key",
        list(&|_, column| format!("deleted.{}", quote(&column.name))),
    );
    for (hole, left, right) in [
        ("t_is_p", "t", "p"),
        ("t_is_l", "t", "l"),
        ("t_is_d", "t", "d"),
        ("e_is_l", "e", "l"),
        ("e_is_d", "e", "d"),
    ] {
        let side = |alias: &str, at: usize, column: &Column| match alias {
            "t" => format!("t.{}", quote(&column.name)),
            alias => format!("{alias}.lb_k{at}"),
        };
        let equal = (1..).zip(key).map(|(at, column)| {
            format!("{} = {}", side(left, at, column), side(right, at, column))
        });
        holes.insert(hole, equal.collect::<Vec<_>>().join(" AND "));
    }
    let present = key.iter().filter(|column| column.nullable);
    let present = present.map(|column| format!(" AND t.{} IS NOT NULL", quote(&column.name)));
    holes.insert("key_present", present.collect::<Vec<_>>().concat());
    // Names of the statement's own: they cost less to send, and Babelfish counts those beyond Unicode's first plane wrong.
    let data = columns.iter().enumerate();
    let data = data.map(|(at, column)| format!(", t.{} AS lb_c{at}", quote(&column.name)));
    holes.insert("columns_of_t", data.collect::<Vec<_>>().concat());
    let deletes = queue.on_complete == OnComplete::Delete;
    holes.insert(
        "not_deleted",
        if deletes { "l.lb_kind <> 0" } else { "1 = 1" }.to_owned(),
    );
    holes.insert("ready_hint", index_hint(queue, "ready"));
    holes.insert("due_hint", index_hint(queue, "due"));
    holes.insert("pick_order", ordered(order, "t."));
    holes.insert("held_order", ordered(order, "t."));
    index_holes(&mut holes, queue, order);
    mirror::fill(&mut holes, queue, table);
    holes
}

/// Names the index that a statement must seek on, among the hints of a table. Not where the name would end a comment:
/// Babelfish makes one of the hint.
fn index_hint(queue: &QueueSpec, role: &str) -> String {
    let name = index_name(queue, role);
    if name.contains("/*") || name.contains("*/") {
        String::new()
    } else {
        format!(", INDEX ({})", quote(&name))
    }
}

/// Fills what the indexes are on: filtered by the state, or led by it.
fn index_holes(holes: &mut Holes, queue: &QueueSpec, order: &[(String, bool)]) {
    let state = quote(queue.soft_lock.name(SoftLockColumn::State));
    let due = quote(queue.soft_lock.name(SoftLockColumn::DueTime));
    let token = quote(queue.soft_lock.name(SoftLockColumn::Token));
    for (columns, filter, on, condition) in [
        ("ready_columns", "ready_filter", ordered(order, ""), "= 0"),
        ("due_columns", "due_filter", due, "IN (1, 2)"),
        ("token_columns", "token_filter", token, "= 1"),
    ] {
        let (on, condition) = if queue.filtered_indexes {
            (on, format!(" WHERE {state} {condition}"))
        } else {
            (format!("{state}, {on}"), String::new())
        };
        holes.insert(columns, on);
        holes.insert(filter, condition);
    }
}

fn ordered(order: &[(String, bool)], prefix: &str) -> String {
    let parts = order.iter().map(|(column, descends)| {
        let direction = if *descends { " DESC" } else { "" };
        format!("{prefix}{}{direction}", quote(column))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn order(queue: &QueueSpec, key: &[Column]) -> Vec<(String, bool)> {
    let mut parts: Vec<(String, bool)> = match &queue.order {
        Order::None => Vec::new(),
        Order::By(order) => {
            let parts = order.iter();
            parts
                .map(|part| (part.column.clone(), part.descending))
                .collect()
        }
    };
    for column in key {
        let mut named = parts.iter();
        if !named.any(|(name, _)| name.eq_ignore_ascii_case(&column.name)) {
            parts.push((column.name.clone(), false));
        }
    }
    parts
}
