//! The sections of `sql/sqlite/adopt.sql`, rendered as steps of a plan.

use crate::store::schema::Step;
use crate::store::template::{self, Placeholders};

/// Renders a section.
pub(super) fn render(section: &str, placeholders: &Placeholders) -> String {
    let file = include_str!("../../../sql/sqlite/adopt.sql");
    template::render(file, section, placeholders)
}

/// Renders a section as a step that runs once.
pub(super) fn step(purpose: String, section: &str, placeholders: &Placeholders) -> Step {
    Step::once(purpose, render(section, placeholders))
}
