//! SQL that sets mirror columns in T-SQL.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{Mirror, MirrorValue, QueueSpec, SoftLockColumn};

use super::catalogue::Table;
use super::quote::{literal, quote};
use super::types::ColumnType;
use crate::mirror::Mirrors;
use crate::template::Placeholders;

/// Sets the placeholders of the mirror columns.
pub(super) fn set_placeholders(placeholders: &mut Placeholders, queue: &QueueSpec, table: &Table) {
    use State::{Dead, Leased, Ready};

    let mirrors = mirrors(queue);
    let owner = format!("t.{}", quote(queue.soft_lock.name(SoftLockColumn::Owner)));
    // The placeholder, the states that the statement can set, the state that it sets, the worker.
    for (placeholder, states, state_expression, worker) in [
        ("mirror_leased", &[Leased][..], "", "p.lb_w"),
        ("mirror_set_aside", &[Dead], "", &*owner),
        ("mirror_ended", &State::ALL, "l.lb_state", &*owner),
        ("mirror_reaped", &State::ALL, "d.lb_next", &*owner),
        ("mirror_ready", &[Ready], "", &*owner),
    ] {
        let value = |mirror: &Mirror| value(table, mirror, worker);
        let clauses = mirrors.set_clauses(states, state_expression, &value);
        placeholders.insert(placeholder, clauses);
    }
    mirrors.set_insert_placeholders(placeholders, &|mirror| value(table, mirror, "NULL"));
}

/// Returns the queue's mirror columns.
pub(super) fn mirrors(queue: &QueueSpec) -> Mirrors<'_> {
    Mirrors {
        all: &queue.mirror,
        quote,
        column_prefix: "t.",
    }
}

/// Renders the value of a mirror column. `worker` is the worker's id as SQL. An integer column gets the time in seconds since
/// 1970.
fn value(table: &Table, mirror: &Mirror, worker: &str) -> String {
    let kind = table.column(&mirror.column).map(|column| column.kind);
    match (&mirror.value, kind) {
        (MirrorValue::Literal(value), _) => literal(value),
        (MirrorValue::Worker, _) => worker.to_owned(),
        (MirrorValue::Now, Some(ColumnType::Int(..))) => {
            "DATEDIFF_BIG(second, '1970-01-01', @now)".to_owned()
        }
        // Style 126 is ISO 8601.
        (MirrorValue::Now, Some(ColumnType::Text)) => "CONVERT(nvarchar(33), @now, 126)".to_owned(),
        (MirrorValue::Now, _) => "@now".to_owned(),
    }
}
