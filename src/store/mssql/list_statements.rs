//! The rendered statements of `list.sql`.

use lease_broker_model::item_state::State;

use super::catalogue::{Column, Table};
use super::{backfill, index};
use crate::template::{Placeholders, render};

const LIST: &str = lease_broker_sql::mssql::LIST;

/// The batches of `list.sql`.
pub(super) struct ListStatements {
    /// The listing of each state, in the order of [`State::ALL`].
    pub(super) of_state: [String; 5],
    /// The first page of a listing in the order of the key.
    pub(super) first: String,
    /// The page after a key.
    pub(super) next: String,
}

impl ListStatements {
    pub(super) fn new(placeholders: &Placeholders, key: &[Column], table: &Table) -> Self {
        let list = |state: State| {
            let mut placeholders = placeholders.clone();
            placeholders.insert("state", state.code().to_string());
            render(LIST, "list", &placeholders)
        };
        Self {
            of_state: State::ALL.map(list),
            first: render_page(placeholders, key, table, false),
            next: render_page(placeholders, key, table, true),
        }
    }
}

/// Renders a page of a listing. `is_next`: it begins after a key.
fn render_page(
    placeholders: &Placeholders,
    key: &[Column],
    table: &Table,
    is_next: bool,
) -> String {
    let mut placeholders = placeholders.clone();
    backfill::set_position_placeholders(&mut placeholders, key);
    placeholders.insert("walk_hint", index::walk_hint(key, table, is_next));
    let read_position = if is_next {
        render(LIST, "read_position", &placeholders) + "\n"
    } else {
        placeholders.insert("after_position", "1 = 1".to_owned());
        String::new()
    };
    placeholders.insert("read_position", read_position);
    render(LIST, "list_page", &placeholders)
}
