//! SQL for mirror columns: columns of the table itself that the broker sets whenever an item changes its state.
//!
//! The configuration gives a mirror column a value per state, for example `status = 'done'` for completed items, so that
//! programs which do not know the soft-lock columns see the state too. How a value is written as SQL depends on the store.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{Mirror, MirrorValue};
use lease_broker_value::Value;

use super::template::Placeholders;

/// The mirror columns of a queue, in one store's SQL.
pub(super) struct Mirrors<'a> {
    pub(super) all: &'a [Mirror],
    pub(super) quote: fn(&str) -> String,
    /// The prefix of a column whose stored value is meant: empty, or the table's alias with a dot.
    pub(super) column_prefix: &'static str,
}

impl Mirrors<'_> {
    /// Renders `, column = value` for each mirror column that has a value for one of `states`. If there are several states,
    /// the value is a CASE over `state_expression`; for a state without a value it keeps the stored one.
    pub(super) fn set_clauses(
        &self,
        states: &[State],
        state_expression: &str,
        value: &dyn Fn(&Mirror) -> String,
    ) -> String {
        let mut clauses = String::new();
        for name in self.columns() {
            let cases: Vec<(State, String)> = states
                .iter()
                .filter_map(|state| self.find(name, *state))
                .map(|mirror| (mirror.state, value(mirror)))
                .collect();
            let column = (self.quote)(name);
            match (&*cases, states.len()) {
                ([], _) => {}
                ([(_, value)], 1) => clauses.extend([", ", &column, " = ", value]),
                (cases, _) => {
                    clauses.extend([", ", &column, " = CASE ", state_expression]);
                    for (state, value) in cases {
                        clauses.extend([" WHEN ", &state.code().to_string(), " THEN ", value]);
                    }
                    clauses.extend([" ELSE ", self.column_prefix, &column, " END"]);
                }
            }
        }
        clauses
    }

    /// Sets the placeholders of the mirror columns that an insert sets, one pair for ready and one for delayed items.
    pub(super) fn set_insert_placeholders(
        &self,
        placeholders: &mut Placeholders,
        value: &dyn Fn(&Mirror) -> String,
    ) {
        let (names, values) = self.insert_lists(&[State::Ready], value);
        placeholders.insert("mirror_columns_ready", names);
        placeholders.insert("mirror_values_ready", values);
        // A mirror column without a value for delayed items gets the value for ready ones.
        let (names, values) = self.insert_lists(&[State::Delayed, State::Ready], value);
        placeholders.insert("mirror_columns_delayed", names);
        placeholders.insert("mirror_values_delayed", values);
    }

    /// Renders the mirror columns of a new item and their values, both with a comma before each. The value is that of the
    /// first of `states` that has one.
    fn insert_lists(
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

    /// Returns the final states (completed and dead) that mirror columns can show, each with the condition that a row's
    /// mirror columns show it. Adoption gives these states to rows that were finished before the table became a queue.
    pub(super) fn final_state_conditions(
        &self,
        literal: fn(&Value) -> String,
    ) -> Vec<(State, String)> {
        [State::Completed, State::Dead]
            .into_iter()
            .filter_map(|state| Some((state, self.state_condition(state, literal)?)))
            .collect()
    }

    /// Renders the condition that a row's mirror columns show `state`: those with a fixed value for it have that value. If each of
    /// these values is also that of ready rows, the columns that are NULL while an item is ready and not in this state have any
    /// value too. `None`: no column tells the state from ready, and a row without a lease would pass for one in this state.
    fn state_condition(&self, state: State, literal: fn(&Value) -> String) -> Option<String> {
        let of_state = || self.all.iter().filter(|mirror| mirror.state == state);
        let column =
            |mirror: &Mirror| format!("{}{}", self.column_prefix, (self.quote)(&mirror.column));
        let mut tells_state = false;
        let mut conditions = Vec::new();
        for mirror in of_state() {
            let MirrorValue::Literal(value) = &mirror.value else {
                continue;
            };
            // A column without a fixed value for ready rows is NULL in those that another program has added.
            tells_state |= match self
                .find(&mirror.column, State::Ready)
                .map(|ready| &ready.value)
            {
                Some(MirrorValue::Literal(ready)) => literal(ready) != literal(value),
                _ => *value != Value::Null,
            };
            conditions.push(match value {
                Value::Null => format!("{} IS NULL", column(mirror)),
                value => format!("{} = {}", column(mirror), literal(value)),
            });
        }
        if !tells_state {
            let shows_only = |mirror: &&Mirror| {
                let others = self
                    .all
                    .iter()
                    .filter(|other| other.column == mirror.column && other.state != mirror.state);
                let is_null = |other: &Mirror| other.value == MirrorValue::Literal(Value::Null);
                let is_set = !matches!(mirror.value, MirrorValue::Literal(_));
                let is_ready_null = self.find(&mirror.column, State::Ready).is_some();
                is_set && is_ready_null && { others }.all(is_null)
            };
            let set = of_state().filter(shows_only);
            let set: Vec<String> = set
                .map(|mirror| format!("{} IS NOT NULL", column(mirror)))
                .collect();
            tells_state = !set.is_empty();
            conditions.extend(set);
        }
        tells_state.then(|| conditions.join(" AND "))
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
