//! Prepared batches of a connection. The text of a batch is sent and parsed once. Later runs send only its handle.
//!
//! The broker runs the same few batches all the time. SQL Server caches the plan of a text, but Babelfish parses the
//! text for each run. Parsing costs several times as much as the batch itself.

use std::num::NonZeroUsize;

use lru::LruCache;
use tiberius::{ColumnData, ToSql};

use super::list_parameters::MARK_PARAMETERS;

/// Maximum number of prepared batches per connection. The server holds memory for each of them.
const MAX_HANDLES: NonZeroUsize = NonZeroUsize::new(256).expect("more than 0");

/// Number of the server's error "Could not find prepared statement with handle %d."
pub(super) const NO_SUCH_HANDLE: u32 = 8179;

/// Identity of a prepared batch: its text, and the declarations of its parameters as `sp_prepare` takes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BatchKey {
    pub(super) declarations: String,
    pub(super) sql: String,
}

impl BatchKey {
    pub(super) fn new(sql: &str, parameters: &[&dyn ToSql]) -> Self {
        let parameters = (1..).zip(parameters);
        let declarations: Vec<String> = parameters
            .map(|(number, parameter)| {
                format!("@P{number} {}", type_of(number, &parameter.to_sql()))
            })
            .collect();
        Self {
            declarations: declarations.join(", "),
            sql: sql.to_owned(),
        }
    }
}

/// The handles of a connection, by batch. They are valid until the connection ends.
pub(super) struct Prepared(LruCache<BatchKey, i32>);

impl Default for Prepared {
    fn default() -> Self {
        Self(LruCache::new(MAX_HANDLES))
    }
}

impl Prepared {
    pub(super) fn handle(&mut self, key: &BatchKey) -> Option<i32> {
        self.0.get(key).copied()
    }

    /// Removes and returns the least recently used handle, if the maximum number is reached.
    pub(super) fn evict_oldest(&mut self) -> Option<i32> {
        let is_full = self.0.len() == MAX_HANDLES.get();
        let oldest = is_full.then(|| self.0.pop_lru()).flatten();
        oldest.map(|(_, handle)| handle)
    }

    pub(super) fn insert(&mut self, key: BatchKey, handle: i32) {
        self.0.put(key, handle);
    }

    /// Removes all handles. The batches are prepared again at their next run.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Renders the call that runs a prepared batch. `parameters` is the number of the batch's parameters. The handle is one more, the
/// last, so that the server's plan cache has one text for all handles.
pub(super) fn execute(parameters: usize) -> String {
    execute_handle(&format!("@P{}", parameters + 1), parameters)
}

fn execute_handle(handle: &str, parameters: usize) -> String {
    let names = (1..=parameters).map(|number| format!(", @P{number}"));
    format!("EXEC sp_execute {handle}{};", names.collect::<String>())
}

/// Renders the batch that prepares another batch, returns its handle as column `lb_h`, and runs it. It takes the
/// parameters of that batch and two more: the declarations and the text. With `evicts` it takes one more, the last: a handle to
/// release first. All this is a batch because the driver offers no other remote call than `sp_executesql`.
pub(super) fn prepare_and_execute(parameters: usize, evicts: bool) -> String {
    let [declarations, sql, evicted] = [1, 2, 3].map(|more| parameters + more);
    let execute = execute_handle("@h", parameters);
    let unprepare = if evicts {
        format!("EXEC sp_unprepare @P{evicted}; ")
    } else {
        String::new()
    };
    format!(
        "{unprepare}DECLARE @h int; EXEC sp_prepare @h OUTPUT, @P{declarations}, @P{sql}; SELECT @h AS lb_h; {execute}"
    )
}

/// Returns the type that the parameter of this number is declared with. It does not depend on the length of the value.
/// Otherwise the plan cache and the Query Store would hold one text for each combination of short and long parameters. The
/// marks of `list_parameters.rs`, which TRANSLATE takes, are always short.
fn type_of(number: usize, value: &ColumnData<'_>) -> &'static str {
    match value {
        ColumnData::I32(_) => "int",
        ColumnData::I64(_) => "bigint",
        ColumnData::Binary(_) => "varbinary(max)",
        ColumnData::String(_) if number <= MARK_PARAMETERS => "nvarchar(4000)",
        ColumnData::String(_) => "nvarchar(max)",
        // The broker's batches have no parameters of other types.
        _ => "sql_variant",
    }
}

#[cfg(test)]
mod tests {
    use tiberius::error::Error;

    use super::super::Settings;
    use super::super::connection::Connection;
    use super::super::list_parameters::{EntryValue, ListEntry, ListParameters};
    use super::super::tests::test_server;
    use super::*;

    async fn connection() -> Option<Connection> {
        let settings = Settings::new(test_server()?);
        let server = settings.server().expect("a connection string");
        let opened = Box::pin(Connection::open(&server, &settings)).await;
        Some(opened.expect("a server"))
    }

    async fn sum(connection: &mut Connection, a: i32, b: i32) -> Result<i32, Error> {
        let sql = format!("SELECT @P1 + {b} AS lb_sum");
        let results = connection.run_prepared(&sql, &[&a]).await?;
        Ok(results[0][0].try_get(0)?.expect("a number"))
    }

    #[test]
    fn batch_has_one_identity_for_short_and_long_lists() {
        let key = |values: usize| {
            let mut entry = ListEntry::default();
            entry.insert("a", EntryValue::Bytes(vec![7; values]));
            entry.insert("b", EntryValue::Long("x".repeat(values)));
            let list = (0..values).map(|_| ListEntry::default()).collect();
            let parameters = ListParameters::new(vec![vec![entry], list]);
            BatchKey::new("SELECT 1", &parameters.parameters())
        };
        assert_eq!(key(1), key(9_000));
    }

    #[tokio::test]
    async fn more_batches_than_handles_run_repeatedly() {
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
    async fn lock_timeout_of_a_batch_ends_with_the_batch() {
        let Some(mut connection) = connection().await else {
            return;
        };
        let of_session = "SELECT @@LOCK_TIMEOUT + @P1 AS lb_n";
        let of_batch = format!("SET LOCK_TIMEOUT 500; {of_session}");
        let session = Settings::new("").lock_timeout().as_millis();
        for _ in 0..2 {
            for (sql, expected) in [(&*of_batch, 500), (of_session, session)] {
                let results = connection.run_prepared(sql, &[&0]).await;
                let number: Option<i32> = results.expect("a number")[0][0].get(0);
                let number = number.map(|number| u128::try_from(number).expect("no negative"));
                assert_eq!(number, Some(expected), "{sql}");
            }
        }
    }

    #[tokio::test]
    async fn batch_that_fails_when_prepared_runs_later() {
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
    async fn handle_unknown_to_the_server_fails_once() {
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
