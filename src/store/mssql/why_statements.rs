//! The rendered statements of `why.sql`.

use lease_broker_sql::mssql::LEASE_SQL;

use super::statement_parts::with_key_list;
use crate::template::{Placeholders, render};

const WHY: &str = lease_broker_sql::mssql::WHY;

/// The batches of `why.sql`. The fields have the names of the sections.
pub(super) struct WhyStatements {
    pub(super) facts: String,
    pub(super) limits: String,
    pub(super) wait: String,
    pub(super) wait_by_update: String,
}

impl WhyStatements {
    pub(super) fn new(placeholders: &Placeholders) -> Self {
        let mut placeholders = with_key_list(&LEASE_SQL, placeholders);
        let has_groups = placeholders.contains_key("group");
        let item_group = if has_groups {
            format!("{}\n", render(WHY, "item_group", &placeholders))
        } else {
            String::new()
        };
        placeholders.insert("item_group", item_group);
        let same_group = if has_groups {
            format!("\n    {}", render(WHY, "same_group", &placeholders))
        } else {
            String::new()
        };
        placeholders.insert("same_group", same_group);
        let section = |name| render(WHY, name, &placeholders);
        Self {
            facts: section("facts"),
            limits: section("limits"),
            wait: section("wait"),
            wait_by_update: section("wait_by_update"),
        }
    }
}
