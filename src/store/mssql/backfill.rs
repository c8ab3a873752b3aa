//! Backfill: completes the soft-lock columns of rows that the table had before the adoption.
//!
//! One step does two things. A row whose mirror columns show that it is completed or dead gets that state. A column that
//! had to be added as NULL gets the value that it would have by its default.
//!
//! The step visits the rows in key order, a chunk at a time, so that no transaction locks many rows. The key of the last row
//! visited is kept in a table between the runs of its statement, so that the step goes on there after an interruption.

use lease_broker_model::item_state::State;
use lease_broker_model::key::hex;
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use sha2::{Digest as _, Sha256};

use super::adopt_sql::render;
use super::catalogue::{Column, Table, of_column, variable_type};
use super::connection::Connection;
use super::decode::integer;
use super::mirror::mirrors;
use super::placeholders::key_list;
use super::quote::{literal, quote, text_literal};
use super::soft_lock_types::NOT_NULL_COLUMNS;
use crate::StoreError;
use crate::adoption::backfill_purpose;
use crate::schema::Step;
use crate::template::Placeholders;

/// Plans the step. `not_null`: missing columns will be added as NOT NULL. `None`: no row needs the step.
pub(super) async fn plan(
    connection: &mut Connection,
    queue: &QueueSpec,
    table: &Table,
    key: &[Column],
    placeholders: &Placeholders,
    not_null: bool,
) -> Result<Option<Step>, StoreError> {
    let name = |column| quote(queue.soft_lock.name(column));
    let existing = |column| table.column(queue.soft_lock.name(column));
    let exists = |column: &SoftLockColumn| existing(*column).is_some();
    // A missing column will be added as NULL unless the server adds it as NOT NULL.
    let may_be_null = |column: &SoftLockColumn| {
        let column = existing(*column);
        column.map_or(!not_null, |column| column.nullable)
    };
    let nullable = || NOT_NULL_COLUMNS.into_iter().filter(may_be_null);
    let is_null = |column: SoftLockColumn| format!("t.{} IS NULL", name(column));
    let final_states = mirrors(queue).final_state_conditions(literal);

    // This question is asked before the missing columns are added. Every row will need a value for a column that will be
    // NULL, and a row's missing state and fence will be 0.
    let mut needed_now: Vec<String> = nullable()
        .map(|column| {
            if exists(&column) {
                is_null(column)
            } else {
                "1 = 1".to_owned()
            }
        })
        .collect();
    let never_claimed: Vec<String> = [SoftLockColumn::State, SoftLockColumn::Fence]
        .into_iter()
        .filter(exists)
        .map(|column| {
            let first = match column {
                SoftLockColumn::Fence => &*placeholders["first_fence"],
                _ => "0",
            };
            format!("t.{} <= {first} AND ", name(column))
        })
        .collect();
    let never_claimed = never_claimed.concat();
    let finished = final_states.iter();
    needed_now.extend(finished.map(|(_, condition)| format!("{never_claimed}{condition}")));
    if needed_now.is_empty() {
        return Ok(None);
    }
    let first_fence = placeholders["first_fence"].clone();
    let mut placeholders = placeholders.clone();
    let any_row = format!("{}{}", any_of(needed_now), placeholders["key_not_null"]);
    placeholders.insert("wants_backfill", any_row);
    let results = connection
        .batch(&render("backfill_needed", &placeholders))
        .await?;
    let count = results.first().and_then(|rows| rows.first());
    if count.map(|row| integer(row, 0)).transpose()?.unwrap_or(0) == 0 {
        return Ok(None);
    }

    // The step itself runs after all columns were added.
    let [state, fence] = [SoftLockColumn::State, SoftLockColumn::Fence].map(name);
    let mut needed: Vec<String> = nullable().map(is_null).collect();
    let finished = final_states.iter();
    needed.extend(finished.map(|(_, condition)| {
        format!("t.{state} = 0 AND t.{fence} <= {first_fence} AND {condition}")
    }));
    let cases: Vec<String> = final_states
        .iter()
        .map(|(state, condition)| format!(" WHEN {condition} THEN {}", state.code()))
        .collect();
    placeholders.insert("backfill_states", cases.concat());
    placeholders.insert("wants_backfill", any_of(needed));
    set_position_placeholders(&mut placeholders, key);
    let walk = ["table", "wants_backfill", "backfill_states"].map(|name| &*placeholders[name]);
    let walk = hex(&Sha256::digest(walk.join("\n")));
    placeholders.insert("walk", text_literal(&walk));
    let states: Vec<State> = final_states.iter().map(|(state, _)| *state).collect();
    Ok(Some(Step {
        purpose: if states.is_empty() {
            "fill the new columns of the rows that the table has".to_owned()
        } else {
            backfill_purpose(&states)
        },
        sql: render("backfill", &placeholders),
        until_no_rows: true,
        walk: None,
        reads_all_rows: true,
    }))
}

/// Renders the condition that at least one of `conditions` holds.
fn any_of(conditions: Vec<String>) -> String {
    let each: Vec<String> = conditions
        .into_iter()
        .map(|condition| format!("({condition})"))
        .collect();
    format!("({})", each.join(" OR "))
}

/// Renders the value of a key column at the position. In a variable of another code page the walk would come to the same rows again.
fn position(number: usize, column: &Column) -> String {
    let variable = format!("@k{number}");
    match column.code_page {
        Some(_) => of_column(column, &variable),
        None => variable,
    }
}

/// Sets the placeholders of the position: the key of the row that was visited last.
pub(super) fn set_position_placeholders(placeholders: &mut Placeholders, key: &[Column]) {
    let list = |render: &dyn Fn(usize, &Column) -> String| key_list(key, render);
    placeholders.insert(
        "key_variables",
        list(&|number, column| format!("@k{number} {}", variable_type(column))),
    );
    placeholders.insert(
        "position_into_variables",
        list(&|number, column| {
            let declared = variable_type(column);
            format!("@k{number} = CONVERT({declared}, p.k{number})")
        }),
    );
    placeholders.insert(
        "key_into_variables",
        list(&|number, _| format!("@k{number} = p.lb_k{number}")),
    );
    placeholders.insert(
        "key_descending",
        list(&|number, _| format!("d.lb_k{number} DESC")),
    );
    let after = beyond_position(key, Comparison::Greater);
    placeholders.insert("after_position", after);
}

/// The side of a position on which keys lie.
#[derive(Clone, Copy)]
pub(super) enum Comparison {
    /// Keys that follow the position.
    Greater,
    /// Keys that come before it.
    Less,
}

/// Compares keys of several columns as one value: (a, b) > (@k1, @k2) in T-SQL.
pub(super) fn beyond_position(key: &[Column], side: Comparison) -> String {
    let sign = match side {
        Comparison::Greater => '>',
        Comparison::Less => '<',
    };
    let mut beyond = String::new();
    for (number, column) in (1..).zip(key).collect::<Vec<_>>().into_iter().rev() {
        let position = position(number, column);
        let column = quote(&column.name);
        beyond = if beyond.is_empty() {
            format!("t.{column} {sign} {position}")
        } else {
            format!("t.{column} {sign}= {position} AND (t.{column} {sign} {position} OR {beyond})")
        };
    }
    beyond
}
