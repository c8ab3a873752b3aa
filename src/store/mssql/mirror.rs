//! Mirror columns as T-SQL sets them.

use super::catalogue::Table;
use super::quote::{literal, quote};
use super::types::ColumnType;
use crate::item_state::State;
use crate::queue::{Mirror, MirrorValue, QueueSpec, SoftLockColumn};
use crate::store::mirror::Mirrors;
use crate::store::template::Placeholders;

/// Fills the placeholders of the mirror columns.
pub(super) fn fill(placeholders: &mut Placeholders, queue: &QueueSpec, table: &Table) {
    use State::{Delayed, Leased, Ready};

    let mirrors = mirrors(queue);
    let owner = format!("t.{}", quote(queue.soft_lock.name(SoftLockColumn::Owner)));
    for (placeholder, states, switch, worker) in [
        ("mirror_leased", &[Leased][..], "", "p.lb_w"),
        ("mirror_ended", &State::ALL, "l.lb_state", &*owner),
        ("mirror_reaped", &State::ALL, "d.lb_next", &*owner),
        ("mirror_redriven", &[Ready], "", &*owner),
    ] {
        let value = |mirror: &Mirror| value(table, mirror, worker);
        placeholders.insert(placeholder, mirrors.sets(states, switch, &value));
    }
    let value = |mirror: &Mirror| value(table, mirror, "NULL");
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
        own: "t.",
    }
}

fn value(table: &Table, mirror: &Mirror, worker: &str) -> String {
    let kind = table.column(&mirror.column).map(|column| column.kind);
    match (&mirror.value, kind) {
        (MirrorValue::Literal(value), _) => literal(value),
        (MirrorValue::Worker, _) => worker.to_owned(),
        (MirrorValue::Now, Some(ColumnType::Int(..))) => {
            "DATEDIFF(second, '1970-01-01', @now)".to_owned()
        }
        // Style 126: ISO 8601.
        (MirrorValue::Now, Some(ColumnType::Text)) => "CONVERT(nvarchar(33), @now, 126)".to_owned(),
        (MirrorValue::Now, _) => "@now".to_owned(),
    }
}
