//! The sections of `sql/mssql/adopt.sql` and `sql/mssql/remove.sql`, rendered as steps of a plan.

use crate::schema::Step;
use crate::template::{self, Placeholders};

const ADOPT: &str = lease_broker_sql::mssql::ADOPT;
const REMOVE: &str = lease_broker_sql::mssql::REMOVE;

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
    Step::once(purpose, render(section, placeholders))
}

/// Renders a section of `remove.sql` as a step that runs once.
pub(super) fn removal_step(purpose: String, section: &str, placeholders: &Placeholders) -> Step {
    Step::once(purpose, render_removal(section, placeholders))
}
