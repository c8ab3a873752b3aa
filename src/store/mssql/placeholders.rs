//! The values of the placeholders in `sql/mssql/*.sql` for one queue.

use lease_broker_model::queue::{ClaimStrategy, OnComplete, Order, QueueSpec, SoftLockColumn};

use super::catalogue::{Column, Table, UTF_8, collate, of_column, variable_type};
use super::quote::{quote, quote_table, text_literal};
use super::statement_parts::queue_comment;
use super::types::ColumnType;
use super::value_limits::split_sizes;
use super::{index, mirror, pause_parts, turn_parts};
use crate::Stats;
use crate::index_role::IndexRole;
use crate::queue_columns::{QueueColumns, reversed, soft_lock_placeholders, sort_list};
use crate::template::Placeholders;

/// Returns the values that depend only on the queue. They suffice to create its table and to remove its parts.
pub(super) fn of_queue(queue: &QueueSpec) -> Placeholders {
    let mut placeholders = soft_lock_placeholders(&queue.soft_lock, quote);
    placeholders.insert("queue_comment", queue_comment(&queue.name));
    placeholders.insert("queue_literal", text_literal(&queue.name));
    pause_parts::set_placeholders(&mut placeholders);
    let table = quote_table(&queue.table);
    placeholders.insert("table_literal", text_literal(&table));
    placeholders.insert("table", table);
    index::set_default_names(&mut placeholders, queue);
    set_checkpoint_placeholders(&mut placeholders, queue);
    let trace = quote(queue.soft_lock.name(SoftLockColumn::TraceParent));
    let clear_trace = match queue.on_complete {
        OnComplete::Recur(_) => {
            format!(", {trace} = CASE WHEN l.lb_kind <> 0 THEN t.{trace} END")
        }
        _ => String::new(),
    };
    placeholders.insert("clear_trace", clear_trace);
    if let OnComplete::Archive(archive) = &queue.on_complete {
        let archive = quote_table(archive);
        placeholders.insert("archive_literal", text_literal(&archive));
        placeholders.insert("archive", archive);
    }
    placeholders
}

/// Sets the placeholders of the checkpoint. They are empty if the queue has no checkpoints.
fn set_checkpoint_placeholders(placeholders: &mut Placeholders, queue: &QueueSpec) {
    let column = quote(queue.soft_lock.name(SoftLockColumn::Checkpoint));
    let clear = format!(", {column} = CASE WHEN l.lb_kind <> 0 THEN t.{column} END");
    for (placeholder, text) in [
        (
            "checkpoint_definition",
            format!(",\n    {column} varbinary(max) NULL"),
        ),
        ("t_checkpoint", format!(", t.{column} AS lb_checkpoint")),
        ("clear_checkpoint", clear),
    ] {
        let text = queue.max_checkpoint_bytes.map(|_| text);
        placeholders.insert(placeholder, text.unwrap_or_default());
    }
    // A batch that stores checkpoints sets these.
    for placeholder in [
        "written_checkpoint",
        "checkpoint_of_json",
        "checkpoint_json",
    ] {
        placeholders.insert(placeholder, String::new());
    }
}

/// Returns the values for a queue and its table.
pub(super) fn of_table(
    queue: &QueueSpec,
    table: &Table,
    columns: &QueueColumns<ColumnType>,
) -> Placeholders {
    let mut placeholders = of_queue(queue);
    set_key_placeholders(&mut placeholders, &columns.key);
    // The aliases cost fewer bytes than the names, and Babelfish miscounts names with characters beyond Unicode's first plane.
    let data = columns.data.iter().enumerate();
    let data = data.map(|(index, column)| format!(", {} AS lb_c{index}", read_column(column)));
    placeholders.insert("t_data_columns", data.collect::<Vec<_>>().concat());
    let deletes = queue.on_complete == OnComplete::Delete;
    let except_deleted = if deletes { " AND l.lb_kind <> 0" } else { "" };
    placeholders.insert("except_deleted", except_deleted.to_owned());
    let order = sort_list(&columns.order, "t.", quote);
    turn_parts::set_table_placeholders(&mut placeholders, queue, columns);
    // Reads of ready items follow their index.
    let ready_order = match columns.group {
        Some(_) => IndexRole::Group.columns(queue, columns),
        None => columns.order.clone(),
    };
    let pick_order = match queue.order {
        // Any order: the order of the index that the server chooses.
        Order::None => "(SELECT NULL)".to_owned(),
        Order::By(_) => sort_list(&ready_order, "t.", quote),
    };
    let (reverse_order, last_sample) = match queue.order {
        Order::None => (pick_order.clone(), 0),
        Order::By(_) => {
            let reverse = reversed(&ready_order);
            (sort_list(&reverse, "t.", quote), Stats::READY_SAMPLE)
        }
    };
    placeholders.insert("reverse_order", reverse_order);
    placeholders.insert("last_sample", last_sample.to_string());
    placeholders.insert("queue_order", order);
    placeholders.insert("pick_order", pick_order);
    index::set_hints(&mut placeholders, queue, columns, table);
    let state = queue.soft_lock.name(SoftLockColumn::State);
    placeholders.insert("state_column_literal", text_literal(state));
    let skip_locked = match queue.claim_strategy {
        ClaimStrategy::SkipLocked => ", READPAST, READCOMMITTEDLOCK",
        ClaimStrategy::AppLock => "",
    };
    placeholders.insert("skip_locked", skip_locked.to_owned());
    let can_use_statistics = if queue.filtered_indexes {
        "1 = 1"
    } else {
        "1 = 0"
    };
    placeholders.insert("can_use_statistics", can_use_statistics.to_owned());
    mirror::set_placeholders(&mut placeholders, queue, table);
    // A batch that writes columns is rendered when it is needed.
    placeholders.insert("written_columns", String::new());
    placeholders
}

/// Renders the columns of a key, each with its number from 1, as a list.
pub(super) fn key_list(key: &[Column], render: impl Fn(usize, &Column) -> String) -> String {
    let parts = (1..).zip(key);
    let parts = parts.map(|(number, column)| render(number, column));
    parts.collect::<Vec<_>>().join(", ")
}

/// Sets the placeholders of the key: declarations, lists of its columns, and conditions that join on it.
fn set_key_placeholders(placeholders: &mut Placeholders, key: &[Column]) {
    let list = |render: &dyn Fn(usize, &Column) -> String| key_list(key, render);
    placeholders.insert(
        "key_declarations",
        list(&|number, column| declaration(&format!("lb_k{number}"), column, "NOT NULL")),
    );
    placeholders.insert("key_numbers", list(&|number, _| format!("k{number}")));
    placeholders.insert(
        "s_key_as_names",
        list(&|number, column| {
            let value = format!("CONVERT({}, s.k{number})", variable_type(column));
            format!("{} AS lb_k{number}", of_column(column, &value))
        }),
    );
    placeholders.insert("key_names", list(&|number, _| format!("lb_k{number}")));
    let same_key = (1..=key.len()).map(|number| format!("w.lb_k{number} = d.lb_k{number}"));
    let same_key: Vec<String> = same_key.collect();
    placeholders.insert("same_key_as_waiting", same_key.join(" AND "));
    placeholders.insert(
        "t_key_as_names",
        list(&|number, column| format!("{} AS lb_k{number}", read_column(column))),
    );
    placeholders.insert(
        "t_key_as_stored",
        list(&|number, column| format!("t.{} AS lb_k{number}", quote(&column.name))),
    );
    placeholders.insert(
        "t_key_columns",
        list(&|_, column| format!("t.{}", quote(&column.name))),
    );
    for (placeholder, alias) in [
        ("d_key_columns", "d"),
        ("k_key_columns", "k"),
        ("s_key_columns", "s"),
    ] {
        placeholders.insert(
            placeholder,
            list(&|number, _| format!("{alias}.lb_k{number}")),
        );
    }
    // A converted value has no name of its own, and only results whose first name begins with `lb_` are read.
    for (placeholder, alias) in [("d_key_values", "d"), ("k_key_values", "k")] {
        placeholders.insert(
            placeholder,
            list(&|number, column| {
                let value = as_read(&format!("{alias}.lb_k{number}"), column);
                format!("{value} AS lb_k{number}")
            }),
        );
    }
    placeholders.insert(
        "key_from_json",
        list(&|number, column| format!("{} AS lb_k{number}", key_of_json(number, column))),
    );
    placeholders.insert(
        "key_json_schema",
        list(&|number, column| {
            let kind = column.kind;
            kind.json_declaration(&format!("k{number}"), &column.declared)
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
        ("join_run_on_key", "t", "o"),
    ] {
        let side = |alias: &str, number: usize, column: &Column| match alias {
            "t" => format!("t.{}", quote(&column.name)),
            alias => format!("{alias}.lb_k{number}"),
        };
        let equal = (1..).zip(key).map(|(number, column)| {
            format!(
                "{} = {}",
                side(left, number, column),
                side(right, number, column)
            )
        });
        placeholders.insert(placeholder, equal.collect::<Vec<_>>().join(" AND "));
    }
    // After an outer join. A key that a lease names has no NULL, so a row that was found has none either.
    let first = key
        .first()
        .map(|column| format!("t.{} IS NULL", quote(&column.name)));
    placeholders.insert("has_no_row", first.unwrap_or_default());
    let present = key.iter().filter(|column| column.nullable);
    let present = present.map(|column| format!(" AND t.{} IS NOT NULL", quote(&column.name)));
    placeholders.insert("key_not_null", present.collect::<Vec<_>>().concat());
    let null = key.iter().filter(|column| column.nullable);
    let null: Vec<String> = null
        .map(|column| format!("t.{} IS NULL", quote(&column.name)))
        .collect();
    let key_is_null = match &*null {
        [] => "1 = 0".to_owned(),
        null => null.join(" OR "),
    };
    placeholders.insert("key_is_null", key_is_null);
}

/// Declares a column of a table variable with the type and the collation of `column`. Comparing columns of two collations is an
/// error.
pub(super) fn declaration(name: &str, column: &Column, null: &str) -> String {
    format!("{name} {}{} {null}", column.declared, collate(column))
}

/// Renders a column of the key, read from a JSON list, with the type and the collation of the table's column. With any other
/// type the server converts the table's column and scans its index.
fn key_of_json(number: usize, column: &Column) -> String {
    let value = column.kind.of_json(&format!("j.k{number}"));
    match column.kind {
        ColumnType::Text | ColumnType::Binary => {
            let collate = collate(column);
            // A conversion to char or varchar uses the code page of its input. The column's collation therefore stands within
            // the conversion too. Otherwise letters outside the database's code page would become question marks.
            let has_code_page = column.code_page.is_some_and(|page| page != 1252);
            let code_page = if has_code_page { &*collate } else { "" };
            format!("CONVERT({}, {value}{code_page}){collate}", column.declared)
        }
        _ => value,
    }
}

/// Renders a column of the table as the statements read it.
fn read_column(column: &Column) -> String {
    as_read(&format!("t.{}", quote(&column.name)), column)
}

/// Renders `value`, a value of `column`, as the driver can read it. The driver reads texts of code page 1252 and of Unicode. The
/// server converts all others to Unicode, because the driver lacks some code pages and refuses bytes that are invalid in theirs.
fn as_read(value: &str, column: &Column) -> String {
    match column.kind {
        ColumnType::Money => format!("CONVERT({}, {value})", column.declared),
        // Without it the server would send a type that the driver does not know.
        ColumnType::Json => format!("CONVERT(nvarchar(max), {value})"),
        ColumnType::Text if column.code_page.is_some_and(|page| page != 1252) => {
            let (_, [length, _]) = split_sizes(&column.declared);
            // Babelfish counts characters in varchar and UTF-16 units in nvarchar.
            let units = if column.code_page == Some(UTF_8) {
                2
            } else {
                1
            };
            // nvarchar has at most 4,000 units, or `max`.
            match length.map(|length| length * units) {
                Some(length @ 1..=4_000) => format!("CONVERT(nvarchar({length}), {value})"),
                _ => format!("CONVERT(nvarchar(max), {value})"),
            }
        }
        _ => value.to_owned(),
    }
}
