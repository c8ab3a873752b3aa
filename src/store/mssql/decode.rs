//! Decoder of result sets. A value that the broker's statements never return is [`StoreError::Bug`]. The decoder never
//! invents a default.

use lease_broker_model::item_state::State;
use lease_broker_model::millis::duration_between;
use lease_broker_value::Value;
use tiberius::{FromSql, Row};
use uuid::Uuid;

use super::types;
use crate::stats::attempts_of;
use crate::{LeaseExpiry, StoreError};

/// Returns the rows of the result set with this index.
pub(super) fn result_set(results: &[Vec<Row>], index: usize) -> Result<&[Row], StoreError> {
    let rows = results.get(index).map(Vec::as_slice);
    rows.ok_or_else(|| unexpected(format!("the batch returned no result set {index}")))
}

/// Returns the only row of the result set with this index.
pub(super) fn single_row(results: &[Vec<Row>], index: usize) -> Result<&Row, StoreError> {
    match result_set(results, index)? {
        [row] => Ok(row),
        rows => Err(unexpected(format!(
            "result set {index} has {} rows instead of one",
            rows.len()
        ))),
    }
}

/// Reads an integer of any width.
pub(super) fn integer(row: &Row, column: usize) -> Result<i64, StoreError> {
    match types::decode(row.get_column_data(column)?)? {
        Value::Int(int) => Ok(int),
        other => Err(unexpected(format!(
            "column {column} is {other:?} instead of an integer"
        ))),
    }
}

/// Reads an integer and converts it to `T`. A value outside the range of `T` is an error.
pub(super) fn integer_as<T: TryFrom<i64>>(row: &Row, column: usize) -> Result<T, StoreError> {
    let number = integer(row, column)?;
    let out_of_range = |_| unexpected(format!("column {column} is {number}, out of range"));
    T::try_from(number).map_err(out_of_range)
}

/// Reads the number of attempts. Another program may have written a negative one.
pub(super) fn attempts(row: &Row, column: usize) -> Result<u32, StoreError> {
    integer(row, column).map(attempts_of)
}

/// Reads the index of a request in a list of `length` requests.
pub(super) fn request_index(row: &Row, column: usize, length: usize) -> Result<usize, StoreError> {
    let index: usize = integer_as(row, column)?;
    if index < length {
        return Ok(index);
    }
    Err(unexpected(format!(
        "a result for request {index} of only {length}"
    )))
}

/// Reads a state that the statement has set or asked for.
pub(super) fn state(row: &Row, column: usize) -> Result<State, StoreError> {
    let code = integer(row, column)?;
    State::from_code(code).ok_or_else(|| unexpected(format!("unknown state {code}")))
}

/// Reads the state of a row as it is stored. Another program may have written a value that is not a state: `None`, as for NULL.
pub(super) fn stored_state(row: &Row, column: usize) -> Result<Option<State>, StoreError> {
    Ok(optional_integer(row, column)?.and_then(State::from_code))
}

/// Reads a lease token.
pub(super) fn token(row: &Row, column: usize) -> Result<Uuid, StoreError> {
    let token = optional_token(row, column)?;
    token.ok_or_else(|| unexpected("a lease without a token".to_owned()))
}

/// Reads a lease token; `None` for NULL.
pub(super) fn optional_token(row: &Row, column: usize) -> Result<Option<Uuid>, StoreError> {
    optional::<Uuid>(row, column)
}

/// Reads a text. NULL is the empty one.
pub(super) fn text(row: &Row, column: usize) -> Result<String, StoreError> {
    Ok(optional_text(row, column)?.unwrap_or_default())
}

/// Reads a text; `None` for NULL.
pub(super) fn optional_text(row: &Row, column: usize) -> Result<Option<String>, StoreError> {
    Ok(optional::<&str>(row, column)?.map(str::to_owned))
}

/// Reads bytes; `None` for NULL.
pub(super) fn optional_bytes(row: &Row, column: usize) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(optional::<&[u8]>(row, column)?.map(<[u8]>::to_vec))
}

fn optional<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<Option<T>, StoreError> {
    Ok(row.try_get(column)?)
}

/// Returns whether the first column of a row has this name. It tells which part of the batch has returned the row.
pub(super) fn is_named(row: &Row, name: &str) -> bool {
    let first = row.columns().first();
    first.is_some_and(|column| column.name() == name)
}

/// Reads a time, in milliseconds since 1970-01-01T00:00:00Z.
pub(super) fn time(row: &Row, column: usize) -> Result<i64, StoreError> {
    let time = optional_time(row, column)?;
    time.ok_or_else(|| unexpected(format!("column {column} is not a time")))
}

/// Reads a time like [`time()`]; `None` for NULL.
pub(super) fn optional_time(row: &Row, column: usize) -> Result<Option<i64>, StoreError> {
    types::millis_since_1970(row.get_column_data(column)?)
}

/// Reads the time of the last change of a state, in milliseconds since 1970. `None`: it is unknown.
pub(super) fn state_time(row: &Row, column: usize) -> Result<Option<i64>, StoreError> {
    /// 2000-01-01, which stands for an unknown time (`sql/README.md`).
    const UNKNOWN: i64 = 946_684_800_000;
    Ok(optional_time(row, column)?.filter(|time| *time > UNKNOWN))
}

/// Reads an integer like [`integer`]; `None` for NULL.
pub(super) fn optional_integer(row: &Row, column: usize) -> Result<Option<i64>, StoreError> {
    match types::decode(row.get_column_data(column)?)? {
        Value::Null => Ok(None),
        _ => integer(row, column).map(Some),
    }
}

/// Reads the server's time and an expiry, each from its column.
pub(super) fn lease_expiry(
    row: &Row,
    now_column: usize,
    due_column: usize,
) -> Result<LeaseExpiry, StoreError> {
    let (now, expire_time) = (time(row, now_column)?, time(row, due_column)?);
    Ok(LeaseExpiry {
        expire_time,
        time_left: duration_between(now, expire_time),
    })
}

pub(super) fn unexpected(problem: String) -> StoreError {
    StoreError::Bug(problem)
}
