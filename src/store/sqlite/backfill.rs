//! Backfill: gives the rows that were completed or dead before the adoption that state, by their mirror columns.
//!
//! The step finds the rows without the write lock, in the order of the key, and changes 2,000 of them in one transaction. Then it
//! rests for as long, because writers that wait for the lock ask for it at intervals, and would not get it between two
//! transactions. After an interruption it goes on at the first row that is left.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lease_broker_model::key::Key;
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use lease_broker_value::Value;
use rusqlite::{Connection, params_from_iter};

use super::adopt_sql::{render, step};
use super::catalogue::Table;
use super::column_value::{Stored, read};
use super::mirror::mirrors;
use super::quote::{literal, quote};
use crate::StoreError;
use crate::adoption::{backfill_purpose, with};
use crate::schema::{Progress, Step, StepWalk};
use crate::template::Placeholders;

/// The longest rest. A transaction that waited for its lock gave the others their turn.
const MAX_REST: Duration = Duration::from_millis(100);

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
                walk: Some(StepWalk {
                    first: render("backfill_first", &placeholders),
                    next: render("backfill_next", &placeholders),
                    change: render("backfill_row", &placeholders),
                    left: render("backfill_left", &placeholders),
                }),
                ..step(backfill_purpose(&[state]), "backfill", &placeholders)
            });
        }
    }
    Ok(steps)
}

/// Walks through the table and changes the rows.
///
/// # Errors
/// [`StoreError::Misconfigured`] if a trigger ignores the change of a row. The walk has changed the other rows then.
pub(super) fn walk(
    connection: &mut Connection,
    walk: &StepWalk,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let mut keys = next_keys(connection, &walk.first, &[])?;
    let (mut changed, mut ignored) = (0, Vec::new());
    while let Some(last) = keys.last() {
        let start = Instant::now();
        // A savepoint, because the caller may have begun a transaction.
        let savepoint = connection.savepoint()?;
        let mut change = savepoint.prepare_cached(&walk.change)?;
        let mut left = savepoint.prepare_cached(&walk.left)?;
        for key in &keys {
            let rows = change.execute(params_from_iter(stored(key)))?;
            changed += rows as u64;
            // Another program can also have changed the row since it was found.
            if rows == 0 && left.exists(params_from_iter(stored(key)))? {
                ignored.push(Key(key.as_slice().into()));
            }
        }
        drop((change, left));
        savepoint.commit()?;
        let rest = start.elapsed().min(MAX_REST);
        let visited = changed;
        progress(Progress { visited, changed });
        sleep(rest);
        keys = next_keys(connection, &walk.next, last)?;
    }
    match &*ignored {
        [] => Ok(()),
        [first, others @ ..] => {
            let others = match others.len() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            Err(StoreError::Misconfigured(format!(
                "a trigger ignores the change of item {first}{others}, so that a claim would lease finished work; change the trigger, and \
                 run the command again"
            )))
        }
    }
}

/// Returns the keys of the next rows to change.
fn next_keys(
    connection: &Connection,
    sql: &str,
    after: &[Value],
) -> Result<Vec<Vec<Value>>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    let key = |row: &rusqlite::Row<'_>| {
        let values = (0..columns).map(|column| Ok(read(row.get_ref(column)?)));
        values.collect()
    };
    let keys = statement.query_map(params_from_iter(stored(after)), key)?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

/// Returns the values of a key as parameters.
fn stored(key: &[Value]) -> impl Iterator<Item = Stored<'_>> {
    key.iter().map(Stored::new)
}
