//! The secrets that sign lease ids: reads them, and adds one.

use std::time::Duration;

use lease_broker_model::lease_id::StoredSecret;
use rusqlite::{Connection, OptionalExtension as _};

use super::write_context::WriteContext;
use crate::StoreError;
use crate::contract::due_after;
use crate::migrations::new_secret;
use crate::secrets::{no_number_left, stored_secret};
use crate::template::plain;

const SECRETS: &str = lease_broker_sql::sqlite::SECRETS;

/// Reads all secrets. `now`: milliseconds since 1970.
pub(super) fn read(connection: &Connection, now: i64) -> Result<Vec<StoredSecret>, StoreError> {
    let mut read = connection.prepare(&plain(SECRETS, "read"))?;
    let secrets = read.query_and_then([now], |row| {
        let bytes: Vec<u8> = row.get(1)?;
        stored_secret(row.get(0)?, &bytes, row.get(2)?, row.get(3)?)
    })?;
    secrets.collect()
}

/// Adds a secret. See [`Upkeep::rotate_secrets`](crate::Upkeep::rotate_secrets).
pub(super) fn rotate(context: &WriteContext, accept_old_for: Duration) -> Result<u8, StoreError> {
    let (connection, now) = (&context.connection, context.now());
    let retire_time = due_after(now, accept_old_for);
    connection.execute(&plain(SECRETS, "delete_retired"), [now])?;
    connection.execute(&plain(SECRETS, "retire"), [retire_time])?;
    let number = connection
        .query_row(&plain(SECRETS, "add"), (new_secret(), now), |row| {
            row.get(0)
        })
        .optional()?;
    number.ok_or_else(no_number_left)
}
