//! SQL that sets mirror columns in `SQLite`.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{Mirror, MirrorValue, QueueSpec, SoftLockColumn};

use super::catalogue::Table;
use super::quote::{literal, quote};
use super::types::ColumnType;
use crate::mirror::Mirrors;
use crate::template::Placeholders;

/// Sets the placeholders of the mirror columns. The values name parameters of the statements that have the placeholders.
pub(super) fn set_placeholders(placeholders: &mut Placeholders, queue: &QueueSpec, table: &Table) {
    use State::{Completed, Dead, Delayed, Leased, Ready};

    let mirrors = mirrors(queue);
    let owner = quote(queue.soft_lock.name(SoftLockColumn::Owner));
    // The placeholder, the states that the statement can set, the state that it sets, the worker.
    for (placeholder, states, state_expression, worker) in [
        ("mirror_leased", &[Leased][..], "", "?7"),
        ("mirror_complete", &[Completed, Delayed], "?8", &*owner),
        ("mirror_fail", &[Delayed, Dead], "?8", &*owner),
        ("mirror_release", &[Ready, Delayed], "?8", &*owner),
        ("mirror_expire", &[Ready, Delayed, Dead], "?6", &*owner),
        ("mirror_promote", &[Ready], "", &*owner),
        ("mirror_set_aside", &[Dead], "", &*owner),
        ("mirror_ready", &[Ready], "", &*owner),
        ("mirror_redriven", &[Ready, Delayed], "?7", &*owner),
    ] {
        let value = |mirror: &Mirror| value(table, mirror, "?5", worker);
        let clauses = mirrors.set_clauses(states, state_expression, &value);
        placeholders.insert(placeholder, clauses);
    }
    let value = |mirror: &Mirror| value(table, mirror, "?2", "NULL");
    mirrors.set_insert_placeholders(placeholders, &value);
}

/// Returns the queue's mirror columns.
pub(super) fn mirrors(queue: &QueueSpec) -> Mirrors<'_> {
    Mirrors {
        all: &queue.mirror,
        quote,
        column_prefix: "",
    }
}

/// Renders the value of a mirror column. `now` is the time in milliseconds, `worker` the worker's id, both as SQL. An integer
/// column gets the time in seconds since 1970, any other column as text in UTC.
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
