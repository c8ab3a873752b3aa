//! The parts of `pause.sql` that claims and inserts contain.

use tiberius::Row;

use super::decode;
use crate::template::{Placeholders, render};

const PAUSE: &str = lease_broker_sql::mssql::PAUSE;

/// The sections that other batches contain.
const PARTS: [&str; 3] = ["hold_claims", "tell_pause", "refuse_items"];

/// Adds the sections that other batches contain to the placeholders.
pub(super) fn set_placeholders(placeholders: &mut Placeholders) {
    for part in PARTS {
        let text = render(PAUSE, part, placeholders);
        placeholders.insert(part, text);
    }
}

/// Returns whether the row comes from `tell_pause`: the queue is paused.
pub(super) fn is_pause(row: &Row) -> bool {
    decode::is_named(row, "lb_paused")
}
