//! The parts that the statements of several operations have.

use crate::template::{Placeholders, render};

const CANCEL: &str = lease_broker_sql::mssql::CANCEL;
const LEASES: &str = lease_broker_sql::mssql::LEASES;
const TRIGGERS: &str = lease_broker_sql::mssql::TRIGGERS;

/// Surrounds the batch as `triggers.sql` describes, if a table that it changes has triggers.
pub(super) fn roll_back_on_error(batch: String, has_triggers: bool) -> String {
    if !has_triggers {
        return batch;
    }
    let placeholders = Placeholders::from([("batch", batch)]);
    render(TRIGGERS, "roll_back_on_error", &placeholders)
}

/// Returns whether [`roll_back_on_error`] has surrounded a batch, so that it runs triggers of the user.
pub(super) fn runs_triggers(batch: &str) -> bool {
    batch.starts_with("BEGIN TRY\n")
}

/// Adds the list of keys in `cancel.sql` to the placeholders.
pub(super) fn with_key_list(placeholders: &Placeholders) -> Placeholders {
    let mut placeholders = placeholders.clone();
    let list = render(CANCEL, "key_list", &placeholders);
    placeholders.insert("key_list", list);
    placeholders
}

/// The states with a due time, as the filter of the due index has them. Another condition would not match the filter.
pub(super) const ALL_DUE: &str = "IN (1, 2)";

/// Adds the sections of `leases.sql`, and the fields that `file` adds to its list, to the placeholders.
pub(super) fn with_lease_list(file: &str, placeholders: &Placeholders) -> Placeholders {
    let mut placeholders = placeholders.clone();
    for (file, sections) in [
        (file, &["extra_columns", "extra_json"][..]),
        (LEASES, &["lease_list", "is_same_lease", "is_held"]),
    ] {
        for section in sections {
            let text = render(file, section, &placeholders);
            placeholders.insert(section, text);
        }
    }
    placeholders
}
