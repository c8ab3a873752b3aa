//! The values of the placeholders in `sql/sqlite/*.sql` for one queue.

use lease_broker_model::queue::{OnComplete, Order, QueueSpec, SoftLockColumn};

use super::catalogue::Table;
use super::quote::{quote, quote_all, text_literal};
use super::types::ColumnType;
use super::{index, mirror};
use crate::Stats;
use crate::index_role::IndexRole;
use crate::queue_columns::{QueueColumns, reversed, soft_lock_placeholders, sort_list};
use crate::template::Placeholders;

/// Returns the values that depend only on the queue. They suffice to create its table and to remove its parts.
pub(super) fn of_queue(queue: &QueueSpec) -> Placeholders {
    let mut placeholders = soft_lock_placeholders(&queue.soft_lock, quote);
    placeholders.insert("table", quote(&queue.table));
    placeholders.insert("queue_literal", text_literal(&queue.name));
    let checkpoint = quote(queue.soft_lock.name(SoftLockColumn::Checkpoint));
    for (placeholder, text) in [
        ("checkpoint_definition", format!(",\n    {checkpoint} BLOB")),
        ("checkpoint_column", format!(", {checkpoint}")),
        ("clear_checkpoint", format!(", {checkpoint} = NULL")),
    ] {
        let text = queue.max_checkpoint_bytes.map(|_| text);
        placeholders.insert(placeholder, text.unwrap_or_default());
    }
    let trace = quote(queue.soft_lock.name(SoftLockColumn::TraceParent));
    let clear_trace = match queue.on_complete {
        OnComplete::Recur(_) => format!(", {trace} = NULL"),
        _ => String::new(),
    };
    placeholders.insert("clear_trace", clear_trace);
    index::set_names(&mut placeholders, queue);
    if let OnComplete::Archive(archive) = &queue.on_complete {
        placeholders.insert("archive", quote(archive));
    }
    placeholders
}

/// Returns the values for a queue and its table.
pub(super) fn of_table(
    queue: &QueueSpec,
    table: &Table,
    columns: &QueueColumns<ColumnType>,
) -> Placeholders {
    let mut placeholders = of_queue(queue);
    let key = &columns.key;
    let key_list = quote_all(key.iter().map(|column| column.name.as_str()));
    let matches: Vec<String> = (1..)
        .zip(key)
        .map(|(number, column)| format!("{} = ?{number}", quote(&column.name)))
        .collect();
    let not_null: Vec<String> = key
        .iter()
        .filter(|column| column.nullable)
        .map(|column| format!(" AND {} IS NOT NULL", quote(&column.name)))
        .collect();
    let null: Vec<String> = key
        .iter()
        .filter(|column| column.nullable)
        .map(|column| format!("{} IS NULL", quote(&column.name)))
        .collect();
    let data: Vec<String> = columns
        .data
        .iter()
        .map(|column| format!(", {}", quote(&column.name)))
        .collect();
    let order = sort_list(&columns.order, "", quote);
    set_group_placeholders(&mut placeholders, queue, columns);
    // Reads of ready items follow their index.
    let ready_order = match columns.group {
        Some(_) => IndexRole::Group.columns(queue, columns),
        None => columns.order.clone(),
    };
    let order_by = match queue.order {
        Order::None => String::new(),
        Order::By(_) => format!("ORDER BY {}", sort_list(&ready_order, "", quote)),
    };
    let reverse = sort_list(&reversed(&ready_order), "", quote);
    let (reverse_order_by, last_sample) = match queue.order {
        Order::None => (String::new(), 0),
        Order::By(_) => (format!("ORDER BY {reverse}"), Stats::READY_SAMPLE),
    };
    placeholders.insert("reverse_order_by", reverse_order_by);
    placeholders.insert("last_sample", last_sample.to_string());
    let returning = match key[..] {
        [ref column] if column.kind == ColumnType::RowNumber => String::new(),
        _ => format!("RETURNING {key_list}"),
    };
    placeholders.insert("returning_key", returning);
    placeholders.insert("key", key_list);
    placeholders.insert("key_match", matches.join(" AND "));
    let t_key = key
        .iter()
        .map(|column| format!("t.{}", quote(&column.name)));
    placeholders.insert("t_key", t_key.collect::<Vec<_>>().join(", "));
    let of_suspect = (1..).zip(key);
    let of_suspect =
        of_suspect.map(|(number, column)| format!("t.{} = s.k{number}", quote(&column.name)));
    let of_suspect: Vec<String> = of_suspect.collect();
    placeholders.insert("suspect_match", of_suspect.join(" AND "));
    let numbers: Vec<String> = (1..=key.len()).map(|number| format!("k{number}")).collect();
    placeholders.insert("key_numbers", numbers.join(", "));
    let parameters: Vec<String> = (1..=key.len()).map(|number| format!("?{number}")).collect();
    placeholders.insert("key_parameters", parameters.join(", "));
    placeholders.insert("key_not_null", not_null.concat());
    let key_is_null = match &*null {
        [] => "0".to_owned(),
        null => null.join(" OR "),
    };
    placeholders.insert("key_is_null", key_is_null);
    placeholders.insert("data_columns", data.concat());
    let checkpoint = queue.max_checkpoint_bytes;
    let checkpoint = checkpoint.map(|_| queue.soft_lock.name(SoftLockColumn::Checkpoint));
    let data = columns.data.iter().map(|column| column.name.as_str());
    let sizes = data
        .chain(checkpoint)
        .map(|name| format!("COALESCE(octet_length({}), 0)", quote(name)));
    let sizes: Vec<String> = std::iter::once("0".to_owned()).chain(sizes).collect();
    placeholders.insert("data_bytes", sizes.join(" + "));
    placeholders.insert("queue_order", order);
    placeholders.insert("order_by", order_by);
    mirror::set_placeholders(&mut placeholders, queue, table);
    // A statement that writes columns or a checkpoint is rendered when it is needed.
    placeholders.insert("written_columns", String::new());
    placeholders.insert("except_suspects", String::new());
    placeholders.insert("run_number", String::new());
    placeholders.insert("written_checkpoint", String::new());
    placeholders
}

/// Sets the placeholders of the groups (`groups.sql`), if the queue has groups.
fn set_group_placeholders(
    placeholders: &mut Placeholders,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
) {
    let (Some(groups), Some(group)) = (&queue.groups, &columns.group) else {
        return;
    };
    let of_key = (1..).zip(&columns.key);
    let of_key = of_key.map(|(number, column)| format!("g.{} = ?{number}", quote(&column.name)));
    placeholders.insert("g_key_match", of_key.collect::<Vec<_>>().join(" AND "));
    let order = columns.order_in_group();
    let names = order.iter().map(|part| quote(&part.column));
    let state = format!("b.{}", quote(queue.soft_lock.name(SoftLockColumn::State)));
    let busy_states = if queue.filtered_indexes {
        IndexRole::Busy.condition(queue, &state)
    } else {
        "1".to_owned()
    };
    let behind_states = if groups.halts() { "2, 4" } else { "2" };
    for (placeholder, text) in [
        ("group", quote(&group.name)),
        ("group_order", sort_list(&order, "", quote)),
        ("t_group_order", sort_list(&order, "t.", quote)),
        ("order_columns", names.collect::<Vec<_>>().join(", ")),
        ("busy_states", busy_states),
        ("behind_states", behind_states.to_owned()),
    ] {
        placeholders.insert(placeholder, text);
    }
}
