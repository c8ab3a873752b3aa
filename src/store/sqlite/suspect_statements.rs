//! The SQL statements about suspects, and the two forms of a statement that picks items. Rendered once, when the store opens.

use lease_broker_sql::LeaseSql;

use crate::adoption::with;
use crate::template::{Placeholders, render};

/// The SQL text of the statements.
pub(super) struct SuspectStatements {
    pub(super) has_any: String,
    pub(super) find_held: String,
    pub(super) find_waiting: String,
    pub(super) holds_lease: String,
    pub(super) note_lease: String,
    pub(super) remove: String,
    pub(super) remember: String,
    pub(super) forget: String,
    /// Picks ready items that are not suspects.
    pub(super) pick_others: PickStatements,
    /// Picks one suspect, by its key.
    pub(super) pick_suspect: PickStatements,
}

/// The two forms of a statement that picks items.
pub(super) struct PickStatements {
    /// Returns the key and the time of each item.
    pub(super) keys: String,
    /// Also returns the other columns of a claimed item.
    pub(super) items: String,
}

impl PickStatements {
    /// Renders a section. `item_columns` are the other columns.
    pub(super) fn new(
        file: &str,
        section: &str,
        item_columns: &str,
        placeholders: &Placeholders,
    ) -> Self {
        let text = |columns: &str| {
            let placeholders = with(placeholders, [("item_columns", columns.to_owned())]);
            render(file, section, &placeholders)
        };
        Self {
            keys: text(""),
            items: text(item_columns),
        }
    }
}

impl SuspectStatements {
    pub(super) fn new(sql: &LeaseSql, item_columns: &str, placeholders: &Placeholders) -> Self {
        let text = |section| render(sql.suspects, section, placeholders);
        let except = [("except_suspects", text("except_suspects"))];
        let except = with(placeholders, except);
        Self {
            has_any: text("has_any"),
            find_held: text("find_held"),
            find_waiting: text("find_waiting"),
            holds_lease: text("holds_lease"),
            note_lease: text("note_lease"),
            remove: text("remove"),
            remember: text("remember"),
            forget: text("forget"),
            pick_others: PickStatements::new(sql.claim, "pick_ready", item_columns, &except),
            pick_suspect: PickStatements::new(
                sql.suspects,
                "pick_suspect",
                item_columns,
                placeholders,
            ),
        }
    }
}
