//! The rendered statements of `why.sql`.

use crate::template::{Placeholders, render};

const WHY: &str = lease_broker_sql::sqlite::WHY;

/// The statements of `why.sql`. The fields have the names of the sections.
pub(super) struct WhyStatements {
    pub(super) read_row: String,
    pub(super) find_ready: String,
    pub(super) find_null_key: String,
    pub(super) find_broker_table: String,
}

impl WhyStatements {
    pub(super) fn new(placeholders: &Placeholders) -> Self {
        let mut placeholders = placeholders.clone();
        let has_groups = placeholders.contains_key("group");
        let same_group = if has_groups {
            format!(" {}", render(WHY, "same_group", &placeholders))
        } else {
            String::new()
        };
        placeholders.insert("same_group", same_group);
        let text = |section| render(WHY, section, &placeholders);
        Self {
            read_row: text("read_row"),
            find_ready: text("find_ready"),
            find_null_key: text("find_null_key"),
            find_broker_table: text("find_broker_table"),
        }
    }
}
