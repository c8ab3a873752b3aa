//! The statements about epochs and generations that have no placeholders.

use crate::template::{Placeholders, render};

/// Returns a section of `epoch.sql`.
pub(super) fn section(name: &str) -> String {
    render(lease_broker_sql::sqlite::EPOCH, name, &Placeholders::new())
}
