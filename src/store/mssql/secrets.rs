//! The secrets that sign lease ids: reads them, and adds one.

use std::time::Duration;

use lease_broker_model::lease_id::StoredSecret;
use tiberius::{Row, ToSql};

use super::connection::Connection;
use super::decode;
use super::error::RetrySafety;
use super::operations::MssqlOperations;
use crate::StoreError;
use crate::migrations::new_secret;
use crate::secrets::{no_number_left, stored_secret};
use crate::template::plain;

const SECRETS: &str = lease_broker_sql::mssql::SECRETS;

/// Reads all secrets.
pub(super) async fn read(connection: &mut Connection) -> Result<Vec<StoredSecret>, StoreError> {
    decode(&connection.batch(&plain(SECRETS, "read")).await?)
}

/// Decodes the results of the section `read`.
fn decode(results: &[Vec<Row>]) -> Result<Vec<StoredSecret>, StoreError> {
    let secret = |row: &Row| {
        let bytes = decode::optional_bytes(row, 1)?.unwrap_or_default();
        let age = decode::integer(row, 2)?.saturating_mul(1_000);
        stored_secret(
            decode::integer(row, 0)?,
            &bytes,
            age,
            decode::integer(row, 3)? == 1,
        )
    };
    results.iter().flatten().map(secret).collect()
}

impl MssqlOperations {
    pub(super) async fn read_secrets(&self) -> Result<Vec<StoredSecret>, StoreError> {
        let sql = plain(SECRETS, "read");
        let results = self.query_idempotent(&sql, &[]).await?;
        decode(&results)
    }

    pub(super) async fn rotate_secrets(&self, accept_old_for: Duration) -> Result<u8, StoreError> {
        let seconds = i32::try_from(accept_old_for.as_secs()).unwrap_or(i32::MAX);
        let secret = new_secret();
        let parameters: [&dyn ToSql; 2] = [&seconds, &&secret[..]];
        let results = self
            .pool
            .query(&plain(SECRETS, "add"), &parameters, RetrySafety::AtMostOnce)
            .await?;
        let number = decode::integer(decode::single_row(&results, 0)?, 0)?;
        u8::try_from(number).map_err(|_| no_number_left())
    }
}
