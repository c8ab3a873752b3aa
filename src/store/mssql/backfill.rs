//! The rows that a table had before it became a queue: given the state that their mirror columns show, and the values that
//! new columns lack, in one pass by key.

use super::adopt::ADOPT;
use super::catalogue::{Column, Table};
use super::connection::Connection;
use super::decode::integer;
use super::mirror::mirrors;
use super::placeholders::QueueColumns;
use super::quote::{literal, quote};
use crate::item_state::State;
use crate::queue::{QueueSpec, SoftLockColumn};
use crate::store::StoreError;
use crate::store::schema::Step;
use crate::store::template::{Placeholders, render};

/// The soft-lock columns that are never NULL.
pub(super) const NOT_NULL_COLUMNS: [SoftLockColumn; 4] = [
    SoftLockColumn::State,
    SoftLockColumn::StateTime,
    SoftLockColumn::Fence,
    SoftLockColumn::Attempt,
];

/// Plans the pass, if any row needs it.
pub(super) async fn plan(
    connection: &mut Connection,
    queue: &QueueSpec,
    table: &Table,
    shape: &QueueColumns,
) -> Result<Option<Step>, StoreError> {
    let at_once = connection.server_info.adds_columns_without_rewrite();
    let name = |column| quote(queue.soft_lock.name(column));
    let found = |column| table.column(queue.soft_lock.name(column));
    let nullable =
        |column: &SoftLockColumn| found(*column).map_or(!at_once, |found| found.nullable);
    let null = |column: SoftLockColumn| format!("t.{} IS NULL", name(column));
    let nulls: Vec<String> = NOT_NULL_COLUMNS
        .into_iter()
        .filter(nullable)
        .map(null)
        .collect();
    let marks: Vec<(State, String)> = [State::Completed, State::Dead]
        .into_iter()
        .filter_map(|state| Some((state, mirrors(queue).looks(state, literal)?)))
        .collect();

    // What is asked before the columns are there: they will all be NULL, or hold their defaults.
    let mut now: Vec<String> = Vec::new();
    let present = |column: &SoftLockColumn| found(*column).is_some();
    now.extend(NOT_NULL_COLUMNS.into_iter().filter(nullable).map(|column| {
        if present(&column) {
            null(column)
        } else {
            "1 = 1".to_owned()
        }
    }));
    let untouched: Vec<String> = [SoftLockColumn::State, SoftLockColumn::Fence]
        .into_iter()
        .filter(present)
        .map(|column| format!("t.{} = 0 AND ", name(column)))
        .collect();
    let untouched = untouched.concat();
    now.extend(marks.iter().map(|(_, looks)| format!("{untouched}{looks}")));
    if now.is_empty() {
        return Ok(None);
    }
    let mut placeholders = shape.placeholders.clone();
    placeholders.insert(
        "wants_backfill",
        any_of(now, &shape.placeholders["key_not_null"]),
    );
    let needed = render(ADOPT, "backfill_needed", &placeholders);
    let answer = connection.batch(&needed).await?;
    let count = answer.first().and_then(|rows| rows.first());
    if count.map(|row| integer(row, 0)).transpose()?.unwrap_or(0) == 0 {
        return Ok(None);
    }

    let [state, fence] = [SoftLockColumn::State, SoftLockColumn::Fence].map(name);
    let touched = format!("t.{state} = 0 AND t.{fence} = 0 AND ");
    let mut wants = nulls;
    wants.extend(marks.iter().map(|(_, looks)| format!("{touched}{looks}")));
    let states: Vec<String> = marks
        .iter()
        .map(|(state, looks)| format!(" WHEN {looks} THEN {}", state.code()))
        .collect();
    placeholders.insert("backfill_states", states.concat());
    placeholders.insert("wants_backfill", any_of(wants, ""));
    position(&mut placeholders, &shape.key);
    Ok(Some(Step {
        purpose: if marks.is_empty() {
            "give the rows of the table the values of the new columns".to_owned()
        } else {
            let states: Vec<&str> = marks.iter().map(|(state, _)| state.name()).collect();
            format!("mark the rows that are {} already", states.join(" or "))
        },
        sql: render(ADOPT, "backfill", &placeholders),
        until_no_rows: true,
    }))
}

fn any_of(conditions: Vec<String>, and: &str) -> String {
    let each: Vec<String> = conditions
        .into_iter()
        .map(|one| format!("({one})"))
        .collect();
    format!("({}){and}", each.join(" OR "))
}

/// Fills the placeholders of the position: the key of the row that was visited last.
fn position(placeholders: &mut Placeholders, key: &[Column]) {
    let list = |render: &dyn Fn(usize, &Column) -> String| -> String {
        let parts = (1..).zip(key).map(|(at, column)| render(at, column));
        parts.collect::<Vec<_>>().join(", ")
    };
    // A variable takes no collation, and a comparison takes the column's.
    placeholders.insert(
        "key_variables",
        list(&|at, column| format!("@k{at} {}", column.declared)),
    );
    placeholders.insert(
        "key_into_variables",
        list(&|at, _| format!("@k{at} = p.lb_k{at}")),
    );
    placeholders.insert("key_descending", list(&|at, _| format!("d.lb_k{at} DESC")));
    let mut after = String::new();
    for (at, column) in (1..).zip(key).collect::<Vec<_>>().into_iter().rev() {
        let column = quote(&column.name);
        after = if after.is_empty() {
            format!("t.{column} > @k{at}")
        } else {
            format!("t.{column} >= @k{at} AND (t.{column} > @k{at} OR {after})")
        };
    }
    placeholders.insert("after_position", after);
}
