//! Answers of the scripted server to the operations of a broker: rows as the statements in `sql/mssql` select them.

use std::ops::RangeInclusive;

use uuid::Uuid;

use crate::wire::responder::tokens::{Cell, Tokens};

/// Fragments that the statement of every operation contains, and no other statement.
pub(crate) const OPERATION: &[&str] = &["[items]", "[lease_state]"];

/// The time of the server, and one hour later.
pub(crate) const NOW_MILLIS: i64 = 1_800_000_000_000;
const NOW: Cell = Cell::Time(Some(NOW_MILLIS));
const DUE: Cell = Cell::Time(Some(1_800_003_600_000));

/// The token of the fixture's claims.
pub(crate) const TOKEN: Uuid = Uuid::from_u128(9);

/// A row of a claim: token, server time, key, fence, attempt, due time, trace context, columns of the queue,
/// and the time since which the item was ready.
pub(crate) fn claimed_row(token: Uuid, id: i64) -> Vec<Cell> {
    vec![
        Cell::Guid(Some(token)),
        NOW,
        Cell::BigInt(Some(id)),
        Cell::BigInt(Some(1)),
        Cell::Int(Some(1)),
        DUE,
        Cell::Text(None),
        Cell::BigInt(Some(id)),
        Cell::text("payload"),
        NOW,
    ]
}

/// A row of a heartbeat: index of the lease in the request, server time, due time.
pub(crate) fn held_row(index: i32) -> Vec<Cell> {
    vec![Cell::Int(Some(index)), NOW, DUE]
}

/// A row of a settlement: index of the lease in the request, new state, server time.
pub(crate) fn settled_row(index: i32, state: u8) -> Vec<Cell> {
    vec![Cell::Int(Some(index)), Cell::TinyInt(Some(state)), NOW]
}

/// A row of a lease that an earlier settlement has ended: index of the lease in the request, present state.
pub(crate) fn earlier_row(index: i32, state: u8) -> Vec<Cell> {
    vec![Cell::Int(Some(index)), Cell::TinyInt(Some(state))]
}

/// A row of the reaper: key, fence, attempt, token, owner, time of the claim, due time, trace context, server time, old state,
/// new state.
pub(crate) fn expired_row(id: i64) -> Vec<Cell> {
    vec![
        Cell::BigInt(Some(id)),
        Cell::BigInt(Some(1)),
        Cell::Int(Some(1)),
        Cell::Guid(Some(Uuid::from_u128(5))),
        Cell::text("worker"),
        NOW,
        DUE,
        Cell::Text(None),
        NOW,
        Cell::TinyInt(Some(1)),
        Cell::TinyInt(Some(0)),
    ]
}

/// A row of the releases of claims: index of the claim in the request, then as in [`expired_row`], without the states.
fn released_row(id: i64) -> Vec<Cell> {
    let mut row = expired_row(id);
    row.truncate(9);
    row.insert(0, Cell::Int(Some(0)));
    row
}

/// The last row of the reaper: server time, next due time, number of leases that were left because of the clock.
pub(crate) fn next_due_row() -> Vec<Cell> {
    vec![NOW, DUE, Cell::Int(Some(0))]
}

pub(crate) fn claimed(ids: RangeInclusive<i64>) -> Tokens {
    // The broker knows leases by the name of their first column.
    let columns = Tokens::new().columns_named(&claimed_row(TOKEN, 1), "lb_t");
    ids.fold(columns, |tokens, id| tokens.row(&claimed_row(TOKEN, id)))
        .end_of_statement()
}

pub(crate) fn held(count: i32) -> Tokens {
    let rows: Vec<Vec<Cell>> = (0..count).map(held_row).collect();
    Tokens::new().rows(&rows)
}

/// Rows of a settlement after which all items have this state.
pub(crate) fn settled(count: i32, state: u8) -> Tokens {
    let rows: Vec<Vec<Cell>> = (0..count).map(|index| settled_row(index, state)).collect();
    Tokens::new().rows(&rows)
}

/// Rows of a settlement that ends no lease, because an earlier one has ended all of them.
pub(crate) fn settled_earlier(count: i32, state: u8) -> Tokens {
    let ended = Tokens::new().columns(&settled_row(0, state));
    let rows: Vec<Vec<Cell>> = (0..count).map(|index| earlier_row(index, state)).collect();
    ended.end_of_statement().rows(&rows)
}

pub(crate) fn reaped(ids: RangeInclusive<i64>) -> Tokens {
    let rows: Vec<Vec<Cell>> = ids.map(expired_row).collect();
    Tokens::new().rows(&rows).rows(&[next_due_row()])
}

pub(crate) fn released(ids: RangeInclusive<i64>) -> Tokens {
    let rows: Vec<Vec<Cell>> = ids.map(released_row).collect();
    Tokens::new().rows(&rows)
}

/// The answer of a reaper that leaves a due lease as it is, because the clock shows a later time than it expects.
pub(crate) fn reaped_unsure() -> Tokens {
    let no_rows = Tokens::new().columns(&expired_row(1)).end_of_statement();
    let mut last = next_due_row();
    last[2] = Cell::Int(Some(1));
    no_rows.rows(&[last])
}

/// The answer of a reaper that finds no due row.
pub(crate) fn reaped_nothing() -> Tokens {
    let no_rows = Tokens::new().columns(&expired_row(1)).end_of_statement();
    no_rows.rows(&[next_due_row()])
}

pub(crate) fn enqueued(ids: RangeInclusive<i64>) -> Tokens {
    let rows: Vec<Vec<Cell>> = ids.map(|id| vec![Cell::BigInt(Some(id))]).collect();
    Tokens::new().rows(&rows)
}

/// The answer to an enqueue whose request is remembered: its digest, then the keys.
pub(crate) fn remembered(digest: &str, ids: RangeInclusive<i64>) -> Tokens {
    let keys: Vec<Vec<Cell>> = ids.map(|id| vec![Cell::BigInt(Some(id))]).collect();
    let outcome = vec![Cell::Int(Some(0)), Cell::text(digest)];
    Tokens::new().rows(&[outcome]).rows(&keys)
}

pub(crate) fn changed(count: i32) -> Tokens {
    Tokens::new().rows(&[vec![Cell::Int(Some(count))]])
}
