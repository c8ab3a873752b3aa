//! Statements about the rows of one state, and the index that has them.

use crate::item_state::State;
use crate::queue::QueueSpec;
use crate::store::template::{self, Placeholders};

const LIST: &str = include_str!("../../../sql/sqlite/list.sql");

/// Returns the placeholder of the index that a queue finds the rows of `state` by, and which states it holds where it is filtered;
/// none where every index is filtered to other states.
pub(super) fn index(queue: &QueueSpec, state: State) -> Option<(&'static str, &'static str)> {
    match state {
        State::Ready => Some(("ready_index", "= 0")),
        State::Leased if queue.filtered_indexes => Some(("token_index", "= 1")),
        State::Leased | State::Delayed => Some(("due_index", "IN (1, 2)")),
        // All rows are in an index that is not filtered, and the state leads it.
        State::Completed if !queue.filtered_indexes => Some(("due_index", "= 3")),
        State::Completed => None,
        State::Dead => Some(("dead_index", "= 4")),
    }
}

/// Renders a section whose placeholders `state`, `state_index` and `index_holds` are of this state.
pub(super) fn render(
    queue: &QueueSpec,
    state: State,
    file: &str,
    section: &str,
    placeholders: &Placeholders,
) -> String {
    let mut placeholders = placeholders.clone();
    placeholders.insert("state", state.code().to_string());
    if let Some((placeholder, states)) = index(queue, state) {
        placeholders.insert("state_index", placeholders[placeholder].clone());
        placeholders.insert("index_holds", states.to_owned());
    }
    template::render(file, section, &placeholders)
}

/// Renders the statement that lists the items of `state`.
pub(super) fn list(queue: &QueueSpec, state: State, placeholders: &Placeholders) -> String {
    let section = match state {
        State::Ready | State::Leased | State::Delayed => "first",
        State::Completed => "completed",
        State::Dead => "dead",
    };
    render(queue, state, LIST, section, placeholders)
}
