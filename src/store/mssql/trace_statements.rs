//! The rendered statements of `trace.sql`.

use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::mssql::LEASE_SQL;

use super::statement_parts::{ALL_DUE, roll_back_on_error, with_key_list, with_lease_list};
use crate::template::{Placeholders, render};

const TRACE: &str = lease_broker_sql::mssql::TRACE;

/// The batches of `trace.sql`.
pub(super) struct TraceStatements {
    pub(super) note: String,
    pub(super) find_expired: String,
    pub(super) find_leased: String,
}

impl TraceStatements {
    pub(super) fn new(spec: &QueueSpec, placeholders: &Placeholders, has_triggers: bool) -> Self {
        let note = render(
            TRACE,
            "note_traces",
            &with_lease_list(&LEASE_SQL, TRACE, placeholders),
        );
        let states = if spec.filtered_indexes {
            ALL_DUE
        } else {
            "= 1"
        };
        let mut with_states = placeholders.clone();
        with_states.insert("states", states.to_owned());
        let with_keys = with_key_list(&LEASE_SQL, placeholders);
        Self {
            note: roll_back_on_error(note, has_triggers),
            find_expired: render(TRACE, "find_expired_untraced", &with_states),
            find_leased: render(TRACE, "find_leased_untraced", &with_keys),
        }
    }
}
