//! Backfill: gives the rows that were completed or dead before the adoption that state, by their mirror columns.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use rusqlite::Connection;

use super::adopt_sql::{render, step};
use super::catalogue::Table;
use super::mirror::mirrors;
use super::quote::{literal, quote};
use crate::StoreError;
use crate::adoption::{backfill_purpose, with};
use crate::schema::Step;
use crate::template::Placeholders;

/// Plans one step for each state that some rows need.
pub(super) fn plan(
    connection: &Connection,
    queue: &QueueSpec,
    table: &Table,
    placeholders: &Placeholders,
) -> Result<Vec<Step>, StoreError> {
    // A row that was claimed has a higher fence than the first one, and keeps its state. Before the soft-lock columns exist, no
    // row has.
    let first_fence = &*placeholders["first_fence"];
    let never_claimed = [
        (SoftLockColumn::State, "0"),
        (SoftLockColumn::Fence, first_fence),
    ]
    .map(|(column, first)| (queue.soft_lock.name(column), first))
    .into_iter()
    .filter(|(name, _)| table.column(name).is_some())
    .map(|(name, first)| format!("{} <= {first} AND ", quote(name)));
    let never_claimed = never_claimed.collect::<Vec<_>>().concat();
    let mut steps = Vec::new();
    for (state, condition) in mirrors(queue).final_state_conditions(literal) {
        let placeholders = with(
            placeholders,
            [
                ("backfill_match", condition),
                ("backfill_state", state.code().to_string()),
                ("backfill_if_present", never_claimed.clone()),
            ],
        );
        let needed = render("backfill_needed", &placeholders);
        if connection.query_row(&needed, [], |row| row.get(0))? {
            steps.push(Step {
                until_no_rows: true,
                ..step(backfill_purpose(&[state]), "backfill", &placeholders)
            });
        }
    }
    Ok(steps)
}
