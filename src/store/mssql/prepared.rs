//! The batches that a connection has prepared: sent and parsed once, and then run by a handle.
//!
//! A broker runs the same few batches over and over. SQL Server finds the plan of a text that it has seen; Babelfish parses a
//! text anew each time, which costs it several times what the batch does.

use std::num::NonZeroUsize;

use lru::LruCache;
use tiberius::{ColumnData, ToSql};

/// How many batches a connection keeps at hand. The server keeps what belongs to each.
const MAX_HANDLES: NonZeroUsize = NonZeroUsize::new(256).expect("more than 0");

/// "Could not find prepared statement with handle %d."
pub(super) const NO_SUCH_HANDLE: u32 = 8179;

/// A batch and the types of its parameters, as `sp_prepare` takes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BatchKey {
    pub(super) declarations: String,
    pub(super) sql: String,
}

impl BatchKey {
    pub(super) fn new(sql: &str, parameters: &[&dyn ToSql]) -> Self {
        let parameters = (1..).zip(parameters);
        let declarations: Vec<String> = parameters
            .map(|(at, parameter)| format!("@P{at} {}", type_of(&parameter.to_sql())))
            .collect();
        Self {
            declarations: declarations.join(", "),
            sql: sql.to_owned(),
        }
    }
}

/// The handles of a connection, which end with it.
pub(super) struct Prepared(LruCache<BatchKey, i32>);

impl Default for Prepared {
    fn default() -> Self {
        Self(LruCache::new(MAX_HANDLES))
    }
}

impl Prepared {
    pub(super) fn handle(&mut self, batch: &BatchKey) -> Option<i32> {
        self.0.get(batch).copied()
    }

    /// Gives up the handle that was not used for the longest time, if there is no room for another one.
    pub(super) fn evict_oldest(&mut self) -> Option<i32> {
        let full = self.0.len() == MAX_HANDLES.get();
        let oldest = full.then(|| self.0.pop_lru()).flatten();
        oldest.map(|(_, handle)| handle)
    }

    pub(super) fn keep(&mut self, batch: BatchKey, handle: i32) {
        self.0.put(batch, handle);
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// Writes what runs a prepared batch with so many parameters.
pub(super) fn execute(handle: &str, parameters: usize) -> String {
    let names = (1..=parameters).map(|at| format!(", @P{at}"));
    format!("EXEC sp_execute {handle}{};", names.collect::<String>())
}

/// Writes what prepares a batch, tells its handle as `lb_h`, and runs it: with the batch's parameters, and two more, its
/// declarations and its text; `old`, a handle that is not needed any more, goes first. From a batch of its own, as the driver
/// knows no other call than `sp_executesql`.
pub(super) fn prepare_and_execute(parameters: usize, old: Option<i32>) -> String {
    let (declarations, sql) = (parameters + 1, parameters + 2);
    let execute = execute("@h", parameters);
    let unprepare = old.map(|old| format!("EXEC sp_unprepare {old}; "));
    let unprepare = unprepare.unwrap_or_default();
    format!(
        "{unprepare}DECLARE @h int; EXEC sp_prepare @h OUTPUT, @P{declarations}, @P{sql}; SELECT @h AS lb_h; {execute}"
    )
}

/// Returns the type that a parameter is declared with; a short text is not `max`, as the driver's own are not.
fn type_of(value: &ColumnData<'_>) -> &'static str {
    match value {
        ColumnData::I32(_) => "int",
        ColumnData::I64(_) => "bigint",
        ColumnData::Binary(Some(bytes)) if bytes.len() > 8_000 => "varbinary(max)",
        ColumnData::Binary(_) => "varbinary(8000)",
        ColumnData::String(Some(text)) if text.encode_utf16().count() > 4_000 => "nvarchar(max)",
        ColumnData::String(_) => "nvarchar(4000)",
        // No batch has parameters of other types.
        _ => "sql_variant",
    }
}

#[cfg(test)]
mod tests {
    use tiberius::error::Error;

    use super::super::Settings;
    use super::super::connection::Connection;
    use super::*;

    async fn connection() -> Option<Connection> {
        let Ok(server) = std::env::var("LEASE_BROKER_TEST_MSSQL") else {
            eprintln!("skipped: LEASE_BROKER_TEST_MSSQL names no server");
            return None;
        };
        let settings = Settings::new(server);
        let server = settings.server().expect("a connection string");
        let opened = Box::pin(Connection::open(&server, &settings)).await;
        Some(opened.expect("a server"))
    }

    async fn sum(connection: &mut Connection, a: i32, b: i32) -> Result<i32, Error> {
        let sql = format!("SELECT @P1 + {b} AS lb_sum");
        let results = connection.run_prepared(&sql, &[&a]).await?;
        Ok(results[0][0].try_get(0)?.expect("a number"))
    }

    #[tokio::test]
    async fn more_batches_than_there_is_room_for_run_again_and_again() {
        let Some(mut connection) = connection().await else {
            return;
        };
        let many = i32::try_from(MAX_HANDLES.get() + 10).expect("a small number");
        for a in 0..2 {
            for b in 0..many {
                let sum = sum(&mut connection, a, b).await;
                assert_eq!(sum.expect("a sum"), a + b);
            }
        }
    }

    #[tokio::test]
    async fn a_batch_that_fails_when_it_is_prepared_runs_later() {
        let Some(mut connection) = connection().await else {
            return;
        };
        let sql = "IF @P1 = 0 THROW 51999, N'not yet', 1; SELECT @P1 AS lb_n";
        connection
            .run_prepared(sql, &[&0])
            .await
            .expect_err("not yet");
        let results = connection.run_prepared(sql, &[&7]).await.expect("now");
        assert_eq!(results[0][0].get(0), Some(7));
    }

    #[tokio::test]
    async fn a_handle_that_the_server_has_no_more_fails_once() {
        let Some(mut connection) = connection().await else {
            return;
        };
        sum(&mut connection, 1, 2).await.expect("a sum");
        // The first handle of a session.
        let forget = connection.batch("EXEC sp_unprepare 1").await;
        forget.expect("it was prepared");
        let gone = sum(&mut connection, 1, 2).await;
        assert!(matches!(gone, Err(Error::Server(_))), "{gone:?}");
        assert_eq!(sum(&mut connection, 1, 2).await.expect("a sum"), 3);
    }
}
