//! The sections of `sql/sqlite/adopt.sql` and `sql/sqlite/remove.sql`, rendered as steps of a plan.

use super::quote::with_standard_quotes;
use crate::schema::Step;
use crate::template::{self, Placeholders};

const ADOPT: &str = lease_broker_sql::sqlite::ADOPT;
const REMOVE: &str = lease_broker_sql::sqlite::REMOVE;

/// Renders a section of `adopt.sql`.
pub(super) fn render(section: &str, placeholders: &Placeholders) -> String {
    template::render(ADOPT, section, placeholders)
}

/// Renders a section of `remove.sql`.
pub(super) fn render_removal(section: &str, placeholders: &Placeholders) -> String {
    template::render(REMOVE, section, placeholders)
}

/// Renders a section of `adopt.sql` as a step that runs once.
pub(super) fn step(purpose: String, section: &str, placeholders: &Placeholders) -> Step {
    let sql = render(section, placeholders);
    Step::once(purpose, with_standard_quotes(&sql))
}

/// Renders a section of `remove.sql` as a step that runs once.
pub(super) fn removal_step(purpose: String, section: &str, placeholders: &Placeholders) -> Step {
    let sql = render_removal(section, placeholders);
    Step::once(purpose, with_standard_quotes(&sql))
}
