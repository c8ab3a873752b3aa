//! The index that holds the rows of a state, and the statements that read it.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;

use crate::template::{self, Placeholders};

pub(super) const LIST: &str = lease_broker_sql::sqlite::LIST;

/// An index in which a queue finds the rows of a state.
pub(super) struct StateIndex {
    /// The placeholder that stands for the index's name.
    pub(super) placeholder: &'static str,
    /// The condition on the state that makes SQLite accept the index, if it is filtered.
    pub(super) states: &'static str,
}

/// Returns the index that holds the rows of `state`, or `None` if every index is filtered to other states.
pub(super) fn state_index(queue: &QueueSpec, state: State) -> Option<StateIndex> {
    let (placeholder, states) = match state {
        State::Ready => ("ready_index", "= 0"),
        State::Leased if queue.filtered_indexes => ("token_index", "= 1"),
        State::Leased | State::Delayed => ("due_index", "IN (1, 2)"),
        State::Completed if queue.filtered_indexes => return None,
        // An index without a filter holds all rows, and the state is its first column.
        State::Completed => ("due_index", "= 3"),
        State::Dead => ("dead_index", "= 4"),
    };
    Some(StateIndex {
        placeholder,
        states,
    })
}

/// Renders a section that uses the placeholders `state`, `state_index` and `index_states`.
pub(super) fn render(
    queue: &QueueSpec,
    state: State,
    file: &str,
    section: &str,
    placeholders: &Placeholders,
) -> String {
    let mut placeholders = placeholders.clone();
    placeholders.insert("state", state.code().to_string());
    if let Some(index) = state_index(queue, state) {
        placeholders.insert("state_index", placeholders[index.placeholder].clone());
        placeholders.insert("index_states", index.states.to_owned());
    }
    template::render(file, section, &placeholders)
}

/// Renders the statement that lists the items of `state`.
pub(super) fn list(queue: &QueueSpec, state: State, placeholders: &Placeholders) -> String {
    let section = match state {
        State::Ready | State::Leased | State::Delayed => "list_by_index",
        State::Completed => "list_completed",
        State::Dead => "list_dead",
    };
    render(queue, state, LIST, section, placeholders)
}
