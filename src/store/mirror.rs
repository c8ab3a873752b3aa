//! Mirror columns in SQL: what statements set of a table's own columns when an item's state changes. How a value is written is
//! each store's own.

use crate::item_state::State;
use crate::queue::{Mirror, MirrorValue};
use crate::value::Value;

/// The mirror columns of a queue, in one store's SQL.
pub(super) struct Mirrors<'a> {
    pub(super) all: &'a [Mirror],
    pub(super) quote: fn(&str) -> String,
    /// What stands before a column whose present value is meant.
    pub(super) own: &'static str,
}

impl Mirrors<'_> {
    /// Renders `, column = value` for each mirror of one of these states; with several, by what `switch` is.
    pub(super) fn sets(
        &self,
        states: &[State],
        switch: &str,
        value: &dyn Fn(&Mirror) -> String,
    ) -> String {
        let mut sets = String::new();
        for name in self.columns() {
            let cases: Vec<(State, String)> = states
                .iter()
                .filter_map(|state| self.find(name, *state))
                .map(|mirror| (mirror.state, value(mirror)))
                .collect();
            let column = (self.quote)(name);
            match (&*cases, states.len()) {
                ([], _) => {}
                ([(_, value)], 1) => sets.extend([", ", &column, " = ", value]),
                (cases, _) => {
                    sets.extend([", ", &column, " = CASE ", switch]);
                    for (state, value) in cases {
                        sets.extend([" WHEN ", &state.code().to_string(), " THEN ", value]);
                    }
                    sets.extend([" ELSE ", self.own, &column, " END"]);
                }
            }
        }
        sets
    }

    /// Renders the mirror columns of a new item and their values: of the first of these states that has one.
    pub(super) fn inserts(
        &self,
        states: &[State],
        value: &dyn Fn(&Mirror) -> String,
    ) -> (String, String) {
        let mut names = String::new();
        let mut values = String::new();
        for name in self.columns() {
            if let Some(mirror) = states.iter().find_map(|state| self.find(name, *state)) {
                names.extend([", ", &(self.quote)(name)]);
                values.extend([", ", &value(mirror)]);
            }
        }
        (names, values)
    }

    /// Renders the condition that a row looks as if it were in this state, by its columns with fixed values; none if no column
    /// tells.
    pub(super) fn looks(&self, state: State, literal: fn(&Value) -> String) -> Option<String> {
        let of_state = self.all.iter().filter(|mirror| mirror.state == state);
        let conditions: Vec<String> = of_state
            .filter_map(|mirror| {
                let column = format!("{}{}", self.own, (self.quote)(&mirror.column));
                match &mirror.value {
                    MirrorValue::Literal(Value::Null) => Some(format!("{column} IS NULL")),
                    MirrorValue::Literal(value) => Some(format!("{column} = {}", literal(value))),
                    MirrorValue::Now | MirrorValue::Worker => None,
                }
            })
            .collect();
        (!conditions.is_empty()).then(|| conditions.join(" AND "))
    }

    fn columns(&self) -> Vec<&str> {
        let mirrors = self.all.iter();
        let mut names: Vec<&str> = mirrors.map(|mirror| mirror.column.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn find(&self, column: &str, state: State) -> Option<&Mirror> {
        let mut mirrors = self.all.iter();
        mirrors.find(|mirror| mirror.column == column && mirror.state == state)
    }
}
