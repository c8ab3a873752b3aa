//! A queue laid over its table: which columns are its key, its order and its data, and what the templates' placeholders hold.

use super::catalogue::{Column, Table};
use super::index::{self, ordered};
use super::mirror;
use super::quote::{literal, quote, quote_table};
use super::soft_lock_types;
use super::types::ColumnType;
use crate::queue::{ClaimStrategy, OnComplete, Order, QueueSpec, SoftLockColumn};
use crate::store::template::Placeholders;
use crate::value::Value;

/// The parts of a table that a queue uses, with the names as the catalogue spells them.
pub(super) struct QueueColumns {
    pub(super) key: Vec<Column>,
    pub(super) columns: Vec<Column>,
    /// The columns that a new item may set.
    pub(super) writable: Vec<Column>,
    /// Every column that is not a soft-lock column: what an archive keeps.
    pub(super) own: Vec<Column>,
    /// The queue's order with its tie-breaker, and whether each column descends.
    pub(super) order: Vec<(String, bool)>,
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
            // Not what no driver can read: a type of a CLR assembly, or sql_variant.
            None => own()
                .filter(|column| column.kind != ColumnType::Other)
                .cloned()
                .collect(),
            Some(names) => names
                .iter()
                .filter_map(|name| column(name, "columns"))
                .collect(),
        };
        problems.extend(soft_lock_types::problems(queue, table));
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
            placeholders: placeholders(queue, table, &key, &columns, &order),
            key,
            columns,
            order,
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

/// Fills the placeholders that depend on the queue alone; enough to create its table.
pub(super) fn queue_placeholders(queue: &QueueSpec) -> Placeholders {
    let mut placeholders: Placeholders = SoftLockColumn::ALL
        .into_iter()
        .map(|column| (column.default_name(), quote(queue.soft_lock.name(column))))
        .collect();
    let literal = |name: String| literal(&Value::Text(name));
    placeholders.insert("table", quote_table(&queue.table));
    placeholders.insert("table_literal", literal(quote_table(&queue.table)));
    index::fill_names(&mut placeholders, queue);
    if let OnComplete::Archive(archive) = &queue.on_complete {
        placeholders.insert("archive", quote_table(archive));
        placeholders.insert("archive_literal", literal(quote_table(archive)));
    }
    placeholders
}

impl Column {
    /// Returns the collation that tells this column's character set, if that is smaller than Unicode.
    pub(super) fn character_set(&self) -> Option<&str> {
        let name = self.declared.split('(').next().unwrap_or_default();
        let collation = self.collation.as_deref()?;
        let utf8 = collation.to_ascii_uppercase().ends_with("_UTF8");
        (["char", "varchar", "text"].contains(&name) && !utf8).then_some(collation)
    }

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
    format!("{name} {}{} {null}", column.declared, collate(column))
}

fn collate(column: &Column) -> String {
    let collation = column.collation.as_ref();
    let collate = collation.map(|collation| format!(" COLLATE {collation}"));
    collate.unwrap_or_default()
}

/// Writes a part of a key from a list, of the column's own type and collation, so that the column's index is sought.
fn key_of_json(at: usize, column: &Column) -> String {
    let value = column.kind.of_json(&format!("j.k{at}"));
    match column.kind {
        ColumnType::Text | ColumnType::Binary => {
            format!("CONVERT({}, {value}){}", column.declared, collate(column))
        }
        _ => value,
    }
}

/// Writes a column as it is read.
fn read_of_t(column: &Column) -> String {
    let name = format!("t.{}", quote(&column.name));
    match column.kind {
        ColumnType::Money => format!("CONVERT({}, {name})", column.declared),
        _ => name,
    }
}

fn placeholders(
    queue: &QueueSpec,
    table: &Table,
    key: &[Column],
    columns: &[Column],
    order: &[(String, bool)],
) -> Placeholders {
    let mut placeholders = queue_placeholders(queue);
    let list = |render: &dyn Fn(usize, &Column) -> String| -> String {
        let parts: Vec<String> = (1..)
            .zip(key)
            .map(|(at, column)| render(at, column))
            .collect();
        parts.join(", ")
    };
    placeholders.insert(
        "key_declarations",
        list(&|at, column| declaration(&format!("lb_k{at}"), column, "NOT NULL")),
    );
    placeholders.insert("key_names", list(&|at, _| format!("lb_k{at}")));
    placeholders.insert(
        "t_key_as_names",
        list(&|at, column| format!("{} AS lb_k{at}", read_of_t(column))),
    );
    placeholders.insert(
        "t_key_columns",
        list(&|_, column| format!("t.{}", quote(&column.name))),
    );
    placeholders.insert("d_key_columns", list(&|at, _| format!("d.lb_k{at}")));
    placeholders.insert("k_key_columns", list(&|at, _| format!("k.lb_k{at}")));
    placeholders.insert(
        "key_from_json",
        list(&|at, column| format!("{} AS lb_k{at}", key_of_json(at, column))),
    );
    placeholders.insert(
        "key_json_schema",
        list(&|at, column| {
            let kind = column.kind;
            kind.json_declaration(&format!("k{at}"), &column.declared)
        }),
    );
    placeholders.insert(
        "inserted_key_columns",
        list(&|_, column| format!("inserted.{}", quote(&column.name))),
    );
    for (placeholder, left, right) in [
        ("join_picked_on_key", "t", "p"),
        ("join_list_on_key", "t", "l"),
        ("join_due_on_key", "t", "d"),
    ] {
        let side = |alias: &str, at: usize, column: &Column| match alias {
            "t" => format!("t.{}", quote(&column.name)),
            alias => format!("{alias}.lb_k{at}"),
        };
        let equal = (1..).zip(key).map(|(at, column)| {
            format!("{} = {}", side(left, at, column), side(right, at, column))
        });
        placeholders.insert(placeholder, equal.collect::<Vec<_>>().join(" AND "));
    }
    let present = key.iter().filter(|column| column.nullable);
    let present = present.map(|column| format!(" AND t.{} IS NOT NULL", quote(&column.name)));
    placeholders.insert("key_not_null", present.collect::<Vec<_>>().concat());
    // Names of the statement's own: they cost less to send, and Babelfish counts those beyond Unicode's first plane wrong.
    let data = columns.iter().enumerate();
    let data = data.map(|(at, column)| format!(", {} AS lb_c{at}", read_of_t(column)));
    placeholders.insert("t_data_columns", data.collect::<Vec<_>>().concat());
    let deletes = queue.on_complete == OnComplete::Delete;
    placeholders.insert(
        "except_deleted",
        if deletes { " AND l.lb_kind <> 0" } else { "" }.to_owned(),
    );
    placeholders.insert("queue_order", ordered(order, "t."));
    let pick_order = match queue.order {
        // As the index has them, whatever it is sorted by.
        Order::None => "(SELECT NULL)".to_owned(),
        Order::By(_) => ordered(order, "t."),
    };
    placeholders.insert("pick_order", pick_order);
    index::fill(&mut placeholders, queue, order, table);
    turns(&mut placeholders, queue);
    let kept = if queue.filtered_indexes {
        "1 = 1"
    } else {
        "1 = 0"
    };
    placeholders.insert("can_use_statistics", kept.to_owned());
    mirror::fill(&mut placeholders, queue, table);
    placeholders
}

/// Fills how claims that run at the same time keep apart.
fn turns(placeholders: &mut Placeholders, queue: &QueueSpec) {
    let state = queue.soft_lock.name(SoftLockColumn::State);
    placeholders.insert(
        "state_column_literal",
        literal(&Value::Text(state.to_owned())),
    );
    let skip = match queue.claim_strategy {
        ClaimStrategy::SkipLocked => ", READPAST",
        ClaimStrategy::AppLock => "",
    };
    placeholders.insert("skip_locked", skip.to_owned());
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
