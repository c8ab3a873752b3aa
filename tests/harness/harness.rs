//! The interface between the tests and a database, so that the same tests run on every store.
//!
//! A harness creates and changes tables as another program would, adopts a table as a queue, opens a store as a broker
//! would, and lets time pass. Each store has one implementation. The modules also have the test data and the fixture.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test target uses a different part"
)]

pub(crate) mod errors;
pub(crate) mod fixture;
pub(crate) mod mssql;
pub(crate) mod operation;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod sqlite;
pub(crate) mod table;
#[path = "../../src/store/test_queue.rs"]
pub(crate) mod test_queue;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::schema::{NewEpoch, Removal, Step};
use lease_broker_store::{Browse, Store, StoreError};
use lease_broker_value::Value;
use table::{Kind, Table};

/// A database that only one test uses. A method without a `Result` panics if it fails, which ends the test.
pub(crate) trait Harness: Send + Sync + Sized + 'static {
    /// Returns the reason if tests on this store cannot run here. `None`: they can.
    fn missing() -> Option<String> {
        None
    }

    /// Starts with an empty database. No later test sees the data.
    async fn start() -> Self;

    /// Creates a table, as another program would.
    async fn create(&self, table: &Table);

    /// Inserts a row, as another program would.
    async fn insert(&self, table: &str, row: &[(&str, Value)]);

    /// Sets a column in the rows in which the column of `condition` has the value, as another program would.
    async fn update(&self, table: &str, set: (&str, Value), condition: (&str, Value));

    /// Deletes the rows in which the column of `condition` has the value, as another program would.
    async fn delete(&self, table: &str, condition: (&str, Value));

    /// Begins a transaction, as another program would, that makes the change of [`Harness::update`] and holds its locks.
    async fn begin_change(&self, table: &str, set: (&str, Value), condition: (&str, Value));

    /// Rolls back the transaction of [`Harness::begin_change`].
    async fn undo_change(&self);

    /// Runs statements in the SQL of the database, as another program would.
    ///
    /// # Errors
    /// The message of the database.
    async fn run_sql(&self, sql: &str) -> Result<(), String>;

    /// Drops a table.
    async fn drop_table(&self, table: &str);

    /// Reads these columns of all rows, sorted by the columns in the given order.
    async fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Value>>;

    /// Plans the schema changes that the queue needs.
    async fn plan(&self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError>;

    /// Applies one planned schema change.
    async fn run(&self, step: &Step) -> Result<(), StoreError>;

    /// Plans the schema changes and applies all of them.
    async fn apply(&self, queue: &QueueSpec) -> Result<(), StoreError> {
        for step in self.plan(queue).await? {
            self.run(&step).await?;
        }
        Ok(())
    }

    /// Plans the removal of the parts that adoption added.
    async fn plan_removal(&self, queue: &QueueSpec) -> Result<Removal, StoreError>;

    /// Returns the reasons against a removal now.
    async fn uses(&self, queue: &QueueSpec) -> Vec<String>;

    /// Begins a new epoch, as `restore --in-place` does.
    async fn begin_epoch(&self, queues: &[QueueSpec]) -> Result<NewEpoch, StoreError>;

    /// Returns everything about a table that another program could see: columns with types and defaults, indexes, triggers. One
    /// line each.
    async fn describe(&self, table: &str) -> Vec<String>;

    /// Returns the statement that creates a trigger on `table` that adds a row to `log` for each updated row.
    fn update_trigger(table: &str, log: &str) -> String;

    /// Returns the problems for which a broker would refuse the queue. Empty: it would accept the queue.
    async fn check(&self, queue: &QueueSpec) -> Result<Vec<String>, StoreError>;

    /// Returns the warnings of `schema plan` and `schema check` about the queue's table.
    async fn warnings(&self, queue: &QueueSpec) -> Vec<String>;

    /// Opens a store as one more broker.
    async fn open(&self, queues: &[QueueSpec]) -> Result<Arc<dyn Store>, StoreError>;

    /// Opens a store that only reads, as the commands do that only look.
    async fn open_to_read(&self, queues: &[QueueSpec]) -> Result<Arc<dyn Browse>, StoreError>;

    /// Lets the given time pass for every lease and every delay. A little time also passes between any two operations.
    async fn advance(&self, by: Duration);

    /// Sets the clock back for the list of brokers.
    async fn set_back(&self, by: Duration);

    /// Returns whether the clock of the store moves only when an operation reads it and when the test moves it.
    fn moves_clock() -> bool {
        false
    }

    /// Returns whether a column of integers can have values of other kinds, which other programs may store.
    fn keeps_any_value() -> bool {
        false
    }

    /// Returns the SQL type of a column of this kind.
    fn declare(kind: Kind) -> String;

    /// Returns the value that a worker reads after `value` was stored in a column of this kind. A decimal has as many decimal
    /// places as its column.
    fn as_read(kind: Kind, value: &Value) -> Value {
        match (kind, value) {
            (Kind::Decimal, Value::Decimal(digits)) => {
                let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                Value::Decimal(format!("{whole}.{fraction:0<4}"))
            }
            _ => value.clone(),
        }
    }

    /// Returns the time that a mirror value `now` stored in a timestamp column, in milliseconds since 1970. `None`: the
    /// value is not a time.
    fn moment(value: &Value) -> Option<i64>;

    /// Returns the value of `lease_state_time` that stands for an unknown time.
    fn unknown_time() -> Value;

    /// Returns the name of a table as the configuration writes it, without a schema.
    fn table_name(name: &str) -> String {
        name.to_owned()
    }

    /// Returns whether the database takes two values of a key column for equal.
    fn same_key(one: &Value, other: &Value) -> bool {
        one == other
    }
}

/// Returns whether a test can run on this store. If it cannot, writes a line with the reason to standard error, as `skipped` in
/// `tests/support` does.
pub(crate) fn can_run<H: Harness>() -> bool {
    let missing = H::missing();
    if let Some(reason) = &missing {
        let test = std::thread::current();
        let test = test.name().unwrap_or("unknown");
        let line = format!("skipped: test {test}: {reason}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    missing.is_none()
}
