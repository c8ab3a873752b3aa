//! What the tests know of a database: how another program makes and fills a table in it, how it becomes a queue, how a
//! broker opens it, and how its time passes. One implementation for each store; the tests are the same for all.
#![allow(dead_code, reason = "each test target uses its own part")]

pub(crate) mod fixture;
pub(crate) mod mssql;
pub(crate) mod sqlite;
pub(crate) mod table;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use lease_broker::queue::QueueSpec;
use lease_broker::store::schema::Step;
use lease_broker::store::{Store, StoreError};
use lease_broker::value::Value;

use table::{Kind, Table};

/// A database of one test's own. What goes wrong in a method without a `Result` ends the test.
pub(crate) trait Harness: Send + Sync + Sized + 'static {
    /// Returns what the tests lack here, if they can't run.
    fn missing() -> Option<String> {
        None
    }

    /// Makes an empty database, removed when the harness is dropped.
    async fn start() -> Self;

    /// Makes a table, as another program would.
    async fn create(&self, table: &Table);

    /// Inserts a row, as another program would.
    async fn insert(&self, table: &str, row: &[(&str, Value)]);

    /// Sets one column in the rows where another column has a value, as another program would.
    async fn update(&self, table: &str, set: (&str, Value), at: (&str, Value));

    /// Deletes the rows where a column has a value, as another program would.
    async fn delete(&self, table: &str, at: (&str, Value));

    /// Drops a table.
    async fn drop_table(&self, table: &str);

    /// Reads these columns of all rows, sorted by them from the first on.
    async fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Value>>;

    /// Plans the schema changes that the queue needs.
    async fn plan(&self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError>;

    /// Makes one of the schema changes.
    async fn run(&self, step: &Step) -> Result<(), StoreError>;

    /// Plans the schema changes and makes them.
    async fn apply(&self, queue: &QueueSpec) -> Result<(), StoreError> {
        for step in self.plan(queue).await? {
            self.run(&step).await?;
        }
        Ok(())
    }

    /// Returns what a broker would refuse the queue for.
    async fn check(&self, queue: &QueueSpec) -> Result<Vec<String>, StoreError>;

    /// Opens a store as one more broker.
    async fn open(&self, queues: &[QueueSpec]) -> Result<Arc<dyn Store>, StoreError>;

    /// Lets this much time pass for every lease and every delay. Time passes on its own too: a little at least between
    /// any two operations.
    async fn advance(&self, by: Duration);

    /// Returns how a column of this kind is declared.
    fn declare(kind: Kind) -> String;

    /// Returns what a worker reads where `value` was put into a column of this kind.
    fn as_read(kind: Kind, value: &Value) -> Value;

    /// Reads what a mirror set to "now" has written into a timestamp column, in milliseconds since 1970.
    fn moment(value: &Value) -> Option<i64>;

    /// Returns how a configuration names a table, without its schema.
    fn table_name(name: &str) -> String {
        name.to_owned()
    }

    /// Returns whether two values of a key column are one to the database.
    fn same_key(one: &Value, other: &Value) -> bool {
        one == other
    }
}

/// Returns whether a test can run; says on a line of its own if not, past the test runner, which hides what passing tests
/// print.
pub(crate) fn can_run<H: Harness>() -> bool {
    let missing = H::missing();
    if let Some(what) = &missing {
        let test = std::thread::current();
        let test = test.name().unwrap_or("a test");
        let line = format!("skipped: {test}: {what}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    missing.is_none()
}
