//! Pauses queues, ends pauses, and reads them.

use tiberius::{Row, ToSql};

use super::decode;
use super::error::into_rejection;
use super::operations::MssqlOperations;
use super::types::sql_time;
use super::utf16::cut;
use crate::template::{Placeholders, plain, render};
use crate::{NewPause, PauseMode, QueueIndex, QueuePause, StoreError};

const PAUSE: &str = lease_broker_sql::mssql::PAUSE;

/// The longest name of a caller, and the longest reason, in UTF-16 units. 1,024 characters fit.
pub(super) const MAX_TEXT_UNITS: usize = 2_048;

impl MssqlOperations {
    pub(super) async fn pause(
        &self,
        queue: QueueIndex,
        pause: &NewPause,
    ) -> Result<QueuePause, StoreError> {
        let name = &self.queue(queue)?.spec.name;
        let mode = i32::try_from(pause.mode.code()).unwrap_or_default();
        let until = pause.until.map(sql_time).unwrap_or_default();
        let [actor, reason] =
            [&pause.actor, &pause.reason].map(|text| cut(text, MAX_TEXT_UNITS).to_owned());
        let parameters: [&dyn ToSql; 5] = [name, &mode, &until, &actor, &reason];
        let results = self.query_twice(&batch("pause"), &parameters).await?;
        Ok(QueuePause {
            queue: name.clone(),
            mode: pause.mode,
            reason,
            actor,
            pause_time: decode::time(decode::single_row(&results, 0)?, 0)?,
            until: pause.until,
        })
    }

    pub(super) async fn resume(&self, queue: QueueIndex) -> Result<Option<QueuePause>, StoreError> {
        let name = &self.queue(queue)?.spec.name;
        let results = self.query_idempotent(&batch("resume"), &[name]).await?;
        let rows = decode::result_set(&results, 0)?;
        rows.first().map(read).transpose()
    }

    pub(super) async fn pauses(&self) -> Result<Vec<QueuePause>, StoreError> {
        let results = self.query_idempotent(&batch("read_all"), &[]).await?;
        results.iter().flatten().map(read).collect()
    }

    /// Runs a batch that adds a row unless there is one. If another broker adds it at the same moment, the row refuses the batch with a
    /// duplicate key, and the second run finds it.
    pub(super) async fn query_twice(
        &self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let run = || self.query_idempotent(sql, parameters);
        match run().await.map_err(into_rejection) {
            Err(StoreError::Rejected(_)) => Ok(run().await?),
            outcome => outcome,
        }
    }
}

/// Renders the batch in a section of `pause.sql`.
pub(super) fn batch(section: &str) -> String {
    let columns = plain(PAUSE, "columns");
    render(PAUSE, section, &Placeholders::from([("columns", columns)]))
}

/// Reads a pause from a row: queue, mode, time, end, caller and reason.
fn read(row: &Row) -> Result<QueuePause, StoreError> {
    let code = decode::integer(row, 1)?;
    let mode = PauseMode::from_code(code);
    let unknown = || decode::unexpected(format!("no pause mode has the number {code}"));
    let text = |column| decode::text(row, column);
    Ok(QueuePause {
        queue: text(0)?,
        mode: mode.ok_or_else(unknown)?,
        pause_time: decode::time(row, 2)?,
        until: decode::optional_time(row, 3)?,
        actor: text(4)?,
        reason: text(5)?,
    })
}
