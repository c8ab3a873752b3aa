//! Reads what a batch has answered. What a correct statement can't have answered is an error, and nothing is made up for it.

use std::time::Duration;

use tiberius::{FromSql, Row};
use uuid::Uuid;

use super::types;
use crate::item_state::State;
use crate::store::{Held, StoreError};
use crate::value::Value;

/// Returns one of a batch's results.
pub(super) fn result_set(results: &[Vec<Row>], nth: usize) -> Result<&[Row], StoreError> {
    let rows = results.get(nth).map(Vec::as_slice);
    rows.ok_or_else(|| unexpected(format!("an answer without result {nth}")))
}

/// Returns the one row of a result.
pub(super) fn single_row(results: &[Vec<Row>], nth: usize) -> Result<&Row, StoreError> {
    match result_set(results, nth)? {
        [row] => Ok(row),
        rows => Err(unexpected(format!("{} rows where one is due", rows.len()))),
    }
}

/// Reads an integer, whatever its width.
pub(super) fn integer(row: &Row, at: usize) -> Result<i64, StoreError> {
    match types::decode(row.get_column_data(at)?)? {
        Value::Int(int) => Ok(int),
        other => Err(unexpected(format!(
            "column {at} is {other:?} and no integer"
        ))),
    }
}

/// Reads a number that is not negative.
pub(super) fn unsigned<T: TryFrom<i64>>(row: &Row, at: usize) -> Result<T, StoreError> {
    let number = integer(row, at)?;
    let out = |_| unexpected(format!("column {at} is {number}, which is out of range"));
    T::try_from(number).map_err(out)
}

/// Reads a place in a list of this length.
pub(super) fn request_index(row: &Row, at: usize, length: usize) -> Result<usize, StoreError> {
    let place: usize = unsigned(row, at)?;
    if place < length {
        return Ok(place);
    }
    Err(unexpected(format!(
        "an answer to request {place} where {length} were made"
    )))
}

/// Reads a state.
pub(super) fn state(row: &Row, at: usize) -> Result<State, StoreError> {
    let code = integer(row, at)?;
    State::from_code(code).ok_or_else(|| unexpected(format!("there is no state {code}")))
}

/// Reads a token.
pub(super) fn token(row: &Row, at: usize) -> Result<Uuid, StoreError> {
    let token = optional::<Uuid>(row, at)?;
    token.ok_or_else(|| unexpected("a lease without a token".to_owned()))
}

/// Reads a text that may be NULL.
pub(super) fn optional_text(row: &Row, at: usize) -> Result<Option<String>, StoreError> {
    Ok(optional::<&str>(row, at)?.map(str::to_owned))
}

fn optional<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<Option<T>, StoreError> {
    Ok(row.try_get(at)?)
}

/// Reads a time, in milliseconds since 1970.
pub(super) fn time(row: &Row, at: usize) -> Result<i64, StoreError> {
    let time = types::millis_since_1970(row.get_column_data(at)?)?;
    time.ok_or_else(|| unexpected(format!("column {at} is no time")))
}

/// Reads a time that may be NULL.
pub(super) fn optional_time(row: &Row, at: usize) -> Result<Option<i64>, StoreError> {
    types::millis_since_1970(row.get_column_data(at)?)
}

/// Reads the server's time and a due time.
pub(super) fn lease_expiry(row: &Row, now: usize, due: usize) -> Result<Held, StoreError> {
    let (now, expire_time) = (time(row, now)?, time(row, due)?);
    Ok(Held {
        expire_time,
        time_left: duration_between(now, expire_time),
    })
}

/// Returns how long it is from one time to another; nothing if that is earlier.
pub(super) fn duration_between(from: i64, to: i64) -> Duration {
    Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

pub(super) fn unexpected(what: String) -> StoreError {
    StoreError::Bug(what)
}
