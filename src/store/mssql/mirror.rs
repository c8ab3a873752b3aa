//! Mirror columns: what statements set of the table's own columns when an item's state changes.

use super::catalogue::Table;
use super::quote::{literal, quote};
use super::types::ColumnType;
use crate::lease::State;
use crate::queue::{Mirror, MirrorValue, QueueSpec, SoftLockColumn};
use crate::store::template::Holes;

/// Fills the holes of the mirror columns.
pub(super) fn fill(holes: &mut Holes, queue: &QueueSpec, table: &Table) {
    use State::{Delayed, Leased, Ready};

    let mirrors = Mirrors { queue, table };
    let owner = format!("t.{}", quote(queue.soft_lock.name(SoftLockColumn::Owner)));
    for (hole, states, switch, worker) in [
        ("mirror_leased", &[Leased][..], "", "c.lb_w"),
        ("mirror_ended", &State::ALL, "l.lb_state", &*owner),
        ("mirror_reaped", &State::ALL, "d.lb_next", &*owner),
        ("mirror_redriven", &[Ready], "", &*owner),
    ] {
        holes.insert(hole, mirrors.sets(states, switch, worker));
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
    /// Renders `, column = value` for each mirror of one of these states; with several, by the column `switch`.
    fn sets(&self, states: &[State], switch: &str, worker: &str) -> String {
        let mut sets = String::new();
        for name in self.columns() {
            let cases: Vec<(State, String)> = states
                .iter()
                .filter_map(|state| self.find(name, *state))
                .map(|mirror| (mirror.state, self.value(mirror, worker)))
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
                    sets.extend([" ELSE t.", &column, " END"]);
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
                values.extend([", ", &self.value(mirror, "NULL")]);
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

    fn value(&self, mirror: &Mirror, worker: &str) -> String {
        let kind = self.table.column(&mirror.column).map(|column| column.kind);
        match (&mirror.value, kind) {
            (MirrorValue::Literal(value), _) => literal(value),
            (MirrorValue::Worker, _) => worker.to_owned(),
            (MirrorValue::Now, Some(ColumnType::Int(..))) => {
                "DATEDIFF(second, '1970-01-01', @now)".to_owned()
            }
            // Style 126: ISO 8601.
            (MirrorValue::Now, Some(ColumnType::Text)) => {
                "CONVERT(nvarchar(33), @now, 126)".to_owned()
            }
            (MirrorValue::Now, _) => "@now".to_owned(),
        }
    }
}
