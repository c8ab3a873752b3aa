//! Mirror columns: what statements set of the table's own columns when an item's state changes.

use super::catalogue::Table;
use super::quote::quote;
use super::types::ColumnType;
use crate::lease::State;
use crate::queue::{Mirror, MirrorValue, QueueSpec, SoftLockColumn};
use crate::store::template::Holes;
use crate::value::Value;

/// Fills the holes of the mirror columns. The parameters that they name are those of the statements' files.
pub(super) fn fill(holes: &mut Holes, queue: &QueueSpec, table: &Table) {
    use State::{Completed, Dead, Delayed, Leased, Ready};

    let mirrors = Mirrors { queue, table };
    let owner = quote(queue.soft_lock.name(SoftLockColumn::Owner));
    holes.insert("mirror_leased", mirrors.sets(&[Leased], "", "?7"));
    for (hole, states, switch) in [
        ("mirror_complete", &[Completed, Delayed][..], "?8"),
        ("mirror_fail", &[Delayed, Dead], "?8"),
        ("mirror_release", &[Ready, Delayed], "?8"),
        ("mirror_expire", &[Ready, Dead], "?6"),
        ("mirror_promote", &[Ready], ""),
        ("mirror_redrive", &[Ready], ""),
    ] {
        holes.insert(hole, mirrors.sets(states, switch, &owner));
    }
    let (names, values) = mirrors.inserts(&[Ready]);
    holes.insert("mirror_columns_ready", names);
    holes.insert("mirror_values_ready", values);
    // A delayed item that has no value of its own looks like a ready one.
    let (names, values) = mirrors.inserts(&[Delayed, Ready]);
    holes.insert("mirror_columns_delayed", names);
    holes.insert("mirror_values_delayed", values);
}

struct Mirrors<'a> {
    queue: &'a QueueSpec,
    table: &'a Table,
}

impl Mirrors<'_> {
    /// Renders `, column = value` for each mirror of one of these states; with several, by the parameter `switch`.
    fn sets(&self, states: &[State], switch: &str, worker: &str) -> String {
        let mut sets = String::new();
        for name in self.columns() {
            let cases: Vec<(State, String)> = states
                .iter()
                .filter_map(|state| self.find(name, *state))
                .map(|mirror| (mirror.state, self.value(mirror, "?5", worker)))
                .collect();
            let column = quote(name);
            match (&*cases, states.len()) {
                ([], _) => {}
                ([(_, value)], 1) => sets.extend([", ", &column, " = ", value]),
                (cases, _) => {
                    sets.extend([", ", &column, " = CASE ", switch]);
                    for (state, value) in cases {
                        sets.extend([" WHEN ", &state.code().to_string(), " THEN ", value]);
                    }
                    sets.extend([" ELSE ", &column, " END"]);
                }
            }
        }
        sets
    }

    /// Renders the mirror columns of a new item and their values: of the first of these states that has one.
    fn inserts(&self, states: &[State]) -> (String, String) {
        let mut names = String::new();
        let mut values = String::new();
        for name in self.columns() {
            if let Some(mirror) = states.iter().find_map(|state| self.find(name, *state)) {
                names.extend([", ", &quote(name)]);
                values.extend([", ", &self.value(mirror, "?2", "NULL")]);
            }
        }
        (names, values)
    }

    fn columns(&self) -> Vec<&str> {
        let mirrors = self.queue.mirror.iter();
        let mut names: Vec<&str> = mirrors.map(|mirror| mirror.column.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn find(&self, column: &str, state: State) -> Option<&Mirror> {
        let mut mirrors = self.queue.mirror.iter();
        mirrors.find(|mirror| mirror.column == column && mirror.state == state)
    }

    fn value(&self, mirror: &Mirror, now: &str, worker: &str) -> String {
        let column = self.table.column(&mirror.column);
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
