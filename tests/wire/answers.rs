//! What a server answers to a broker's operations: the shapes that the statements in `sql/mssql` select.

use std::ops::RangeInclusive;

use uuid::Uuid;

use crate::responder::tokens::{Cell, Tokens};

/// What every operation's statement has in it, and no other.
pub(crate) const OPERATION: &[&str] = &["[items]", "[lease_state]"];

/// The time at the server, and an hour later.
const NOW: Cell = Cell::Time(Some(1_800_000_000_000));
const DUE: Cell = Cell::Time(Some(1_800_003_600_000));

/// The token of the fixture's claims.
pub(crate) const TOKEN: Uuid = Uuid::from_u128(9);

/// Token, now, key, fence, attempt, due time, trace context, columns.
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
    ]
}

/// Place, now, due time.
pub(crate) fn held_row(index: i32) -> Vec<Cell> {
    vec![Cell::Int(Some(index)), NOW, DUE]
}

/// Place, state.
pub(crate) fn settled_row(index: i32, state: u8) -> Vec<Cell> {
    vec![Cell::Int(Some(index)), Cell::TinyInt(Some(state))]
}

/// Key, state before, state now, attempt, fence, token, owner.
pub(crate) fn expired_row(id: i64) -> Vec<Cell> {
    vec![
        Cell::BigInt(Some(id)),
        Cell::TinyInt(Some(1)),
        Cell::TinyInt(Some(0)),
        Cell::Int(Some(1)),
        Cell::BigInt(Some(1)),
        Cell::Guid(Some(Uuid::from_u128(5))),
        Cell::text("worker"),
    ]
}

/// Now, next due time.
pub(crate) fn next_due_row() -> Vec<Cell> {
    vec![NOW, DUE]
}

pub(crate) fn claimed(ids: RangeInclusive<i64>) -> Tokens {
    let rows: Vec<Vec<Cell>> = ids.map(|id| claimed_row(TOKEN, id)).collect();
    Tokens::new().rows(&rows)
}

pub(crate) fn held(indexes: i32) -> Tokens {
    let rows: Vec<Vec<Cell>> = (0..indexes).map(held_row).collect();
    Tokens::new().rows(&rows)
}

/// All in this state.
pub(crate) fn settled(indexes: i32, state: u8) -> Tokens {
    let rows: Vec<Vec<Cell>> = (0..indexes)
        .map(|index| settled_row(index, state))
        .collect();
    Tokens::new().rows(&rows)
}

pub(crate) fn reaped(ids: RangeInclusive<i64>) -> Tokens {
    let rows: Vec<Vec<Cell>> = ids.map(expired_row).collect();
    Tokens::new().rows(&rows).rows(&[next_due_row()])
}

pub(crate) fn enqueued(ids: RangeInclusive<i64>) -> Tokens {
    let rows: Vec<Vec<Cell>> = ids.map(|id| vec![Cell::BigInt(Some(id))]).collect();
    Tokens::new().rows(&rows)
}

pub(crate) fn redriven(count: i32) -> Tokens {
    Tokens::new().rows(&[vec![Cell::Int(Some(count))]])
}
