//! Suspects, items whose last lease expired: the parts of `suspects.sql` in the batches of claims and of the reaper.

use lease_broker_model::millis::millis_rounded_up;
use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;
use tiberius::Row;

use super::decode;
use crate::template::{Placeholders, render};
use crate::{Limited, StoreError};

/// Sets the placeholders that depend only on the queue.
pub(super) fn set_placeholders(placeholders: &mut Placeholders, sql: &LeaseSql, queue: &QueueSpec) {
    let patience = millis_rounded_up(queue.lease.default);
    placeholders.insert("patience", patience.to_string());
    placeholders.insert("except_suspects", String::new());
    for section in ["suspects_lock", "remember", "read_held_back"] {
        placeholders.insert(section, render(sql.suspects, section, placeholders));
    }
    let forget = render(sql.suspects, "forget", placeholders);
    placeholders.insert("forget", forget + "\n");
}

/// Sets the placeholders of a claim that gives no new leases if there are suspects.
pub(super) fn set_in_claim(placeholders: &mut Placeholders, sql: &LeaseSql) {
    let find = render(sql.suspects, "find_suspects", placeholders);
    placeholders.insert("find_suspects", find + "\n");
    placeholders.insert("note_lease", String::new());
}

/// Sets the placeholders of a claim for one call that gives leases although there are suspects.
pub(super) fn set_in_claim_of_share(placeholders: &mut Placeholders, sql: &LeaseSql) {
    placeholders.insert("find_suspects", String::new());
    let except = render(sql.suspects, "except_suspects", placeholders);
    placeholders.insert("except_suspects", except);
}

/// Sets the conditions on suspects that can be too large for a call. `within_bytes`: whether they can be.
pub(super) fn set_fits(placeholders: &mut Placeholders, sql: &LeaseSql, within_bytes: bool) {
    let exact = placeholders["bytes_exact"].clone();
    let bytes = if exact.is_empty() {
        placeholders["bytes_bound"].clone()
    } else {
        exact
    };
    placeholders.insert("bytes", bytes);
    for section in ["suspect_fits", "waiting_that_fit"] {
        let text = if within_bytes {
            render(sql.suspects, section, placeholders)
        } else {
            String::new()
        };
        placeholders.insert(section, text);
    }
}

/// Renders the pick of [`set_in_claim_of_share`].
pub(super) fn pick_share(placeholders: &Placeholders, sql: &LeaseSql, pick: String) -> String {
    let mut placeholders = placeholders.clone();
    placeholders.insert("pick_ready", pick);
    render(sql.suspects, "pick_share", &placeholders)
}

/// Returns whether a row of a claim's answer says that suspects were kept from a call.
pub(super) fn is_held_back(row: &Row) -> bool {
    decode::is_named(row, "lb_held_back")
}

/// The answer of such a row.
pub(super) struct HeldBack {
    /// The reason for a call that gets nothing, if suspects are the reason.
    pub(super) limit: Option<Limited>,
    /// The new lease, if there is one, is that of a suspect.
    pub(super) gives_suspect: bool,
}

/// Reads such a row.
pub(super) fn held_back(row: &Row) -> Result<HeldBack, StoreError> {
    let number = decode::integer(row, 0)?;
    Ok(HeldBack {
        limit: (number >= 2).then_some(Limited::Suspects),
        gives_suspect: number == 3,
    })
}
