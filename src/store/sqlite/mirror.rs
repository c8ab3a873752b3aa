//! Mirror columns as `SQLite` sets them.

use super::catalogue::Table;
use super::quote::quote;
use super::types::ColumnType;
use crate::item_state::State;
use crate::queue::{Mirror, MirrorValue, QueueSpec, SoftLockColumn};
use crate::store::mirror::Mirrors;
use crate::store::template::Placeholders;
use crate::value::Value;

/// Fills the placeholders of the mirror columns. The parameters that they name are those of the statements' files.
pub(super) fn fill(placeholders: &mut Placeholders, queue: &QueueSpec, table: &Table) {
    use State::{Completed, Dead, Delayed, Leased, Ready};

    let mirrors = mirrors(queue);
    let owner = quote(queue.soft_lock.name(SoftLockColumn::Owner));
    for (placeholder, states, switch, worker) in [
        ("mirror_leased", &[Leased][..], "", "?7"),
        ("mirror_complete", &[Completed, Delayed], "?8", &*owner),
        ("mirror_fail", &[Delayed, Dead], "?8", &*owner),
        ("mirror_release", &[Ready, Delayed], "?8", &*owner),
        ("mirror_expire", &[Ready, Dead], "?6", &*owner),
        ("mirror_promote", &[Ready], "", &*owner),
        ("mirror_redrive", &[Ready], "", &*owner),
    ] {
        let value = |mirror: &Mirror| value(table, mirror, "?5", worker);
        placeholders.insert(placeholder, mirrors.sets(states, switch, &value));
    }
    let value = |mirror: &Mirror| value(table, mirror, "?2", "NULL");
    let (names, values) = mirrors.inserts(&[Ready], &value);
    placeholders.insert("mirror_columns_ready", names);
    placeholders.insert("mirror_values_ready", values);
    // A delayed item that has no value of its own looks like a ready one.
    let (names, values) = mirrors.inserts(&[Delayed, Ready], &value);
    placeholders.insert("mirror_columns_delayed", names);
    placeholders.insert("mirror_values_delayed", values);
}

/// Returns the queue's mirror columns.
pub(super) fn mirrors(queue: &QueueSpec) -> Mirrors<'_> {
    Mirrors {
        all: &queue.mirror,
        quote,
        own: "",
    }
}

fn value(table: &Table, mirror: &Mirror, now: &str, worker: &str) -> String {
    let column = table.column(&mirror.column);
    match &mirror.value {
        MirrorValue::Literal(value) => literal(value),
        MirrorValue::Worker => worker.to_owned(),
        MirrorValue::Now if column.is_some_and(|c| c.kind == ColumnType::Integer) => {
            format!("{now} / 1000")
        }
        MirrorValue::Now => {
            format!("strftime('%Y-%m-%d %H:%M:%f', {now} / 1000.0, 'unixepoch')")
        }
    }
}

/// Renders a value of the configuration as a literal.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Bool(bool) => i64::from(*bool).to_string(),
        Value::Int(int) => int.to_string(),
        Value::Double(double) => format!("{double:?}"),
        Value::Text(text) | Value::Decimal(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Bytes(bytes) => format!("x'{}'", crate::value::hex(bytes)),
        Value::Null | Value::Timestamp { .. } => "NULL".to_owned(),
    }
}
