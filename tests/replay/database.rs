//! The databases of the replay: they write rows of any kind, and read them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use lease_broker_model::item_state::State;
use lease_broker_model::key::hex;
use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;
use lease_broker_store::sqlite::SqliteStore;
use lease_broker_store::{LeaseRow, Store};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::mssql::MssqlHarness;
use crate::harness::sqlite::SqliteHarness;
use crate::harness::table::Table;

const COLUMNS: [&str; 7] = [
    "id",
    "lease_state",
    "lease_fence",
    "lease_attempt",
    "lease_token",
    "lease_owner",
    "lease_due_time",
];

/// A database with one queue.
pub(super) trait Database: Sized {
    type Harness: Harness;

    /// Whether the clock stands still, so that a due time can be now.
    const CAN_BE_EXACT: bool;

    async fn start(table: &Table, queue: &QueueSpec) -> Self;

    fn harness(&self) -> &Self::Harness;

    /// The statements of the broker.
    const LEASE_SQL: LeaseSql;

    /// The name in `docs/proof.md`.
    const NAME: &str;

    /// Opens a store on the database, with these statements.
    async fn open(&self, queue: &QueueSpec, sql: &LeaseSql) -> Arc<dyn Store>;

    /// Returns the time of the database's clock, in milliseconds.
    fn now(&self) -> i64;

    /// Returns a time as SQL.
    fn time_sql(&self, due: i64) -> String;

    /// Returns a token as SQL.
    fn token_sql(token: Uuid) -> String;

    fn read_token(value: &Value) -> Option<Uuid>;

    fn read_time(value: &Value) -> Option<i64>;

    /// Returns whether both rows are the same, as exactly as the clock allows.
    fn is_same(expected: &LeaseRow, got: &LeaseRow) -> bool;

    /// Replaces all rows of the table.
    async fn replace(&self, rows: &[(i64, &LeaseRow)]) {
        let values: Vec<String> = rows
            .iter()
            .map(|(id, row)| {
                let token = row.token.map_or("NULL".to_owned(), Self::token_sql);
                let owner = row
                    .owner
                    .as_ref()
                    .map_or("NULL".to_owned(), |owner| format!("'{owner}'"));
                let due = row.due.map_or("NULL".to_owned(), |due| self.time_sql(due));
                let state = row.state.code();
                format!(
                    "({id}, {state}, {}, {}, {token}, {owner}, {due}, 'reason')",
                    row.fence, row.attempt
                )
            })
            .collect();
        let sql = format!(
            "DELETE FROM lease_broker_suspect; DELETE FROM item; INSERT INTO item ({}, lease_error) VALUES {}",
            COLUMNS.join(", "),
            values.join(", ")
        );
        self.harness().run_sql(&sql).await.expect("insert");
    }

    /// Reads all rows of the table, by their ids.
    async fn rows(&self) -> BTreeMap<i64, LeaseRow> {
        let rows = self.harness().rows("item", &COLUMNS).await.into_iter();
        rows.map(|row| {
            let [
                Value::Int(id),
                Value::Int(state),
                Value::Int(fence),
                Value::Int(attempt),
                token,
                owner,
                due,
            ] = &*row
            else {
                panic!("{row:?}");
            };
            let owner = match owner {
                Value::Text(owner) => Some(owner.clone()),
                _ => None,
            };
            let row = LeaseRow {
                state: State::from_code(*state).expect("a state"),
                fence: *fence,
                // No step makes it negative, but a mistake in a statement can.
                attempt: u32::try_from(*attempt).unwrap_or(u32::MAX),
                token: Self::read_token(token),
                owner,
                due: Self::read_time(due),
            };
            (*id, row)
        })
        .collect()
    }
}

/// The embedded store, with a clock that stands still.
pub(super) struct Sqlite(SqliteHarness);

const STILL: i64 = 1_700_000_000_000;

impl Database for Sqlite {
    type Harness = SqliteHarness;

    const CAN_BE_EXACT: bool = true;

    const LEASE_SQL: LeaseSql = lease_broker_sql::sqlite::LEASE_SQL;
    const NAME: &str = "SQLite";

    async fn start(table: &Table, queue: &QueueSpec) -> Self {
        let harness = SqliteHarness::start().await;
        harness.create(table).await;
        harness.apply(queue).await.expect("apply");
        Self(harness)
    }

    fn harness(&self) -> &SqliteHarness {
        &self.0
    }

    async fn open(&self, queue: &QueueSpec, sql: &LeaseSql) -> Arc<dyn Store> {
        let queues = std::slice::from_ref(queue);
        let clock = Arc::new(|| STILL);
        let store = SqliteStore::open_with_sql(&self.0.path(), queues, clock, sql);
        Arc::new(store.expect("open"))
    }

    fn now(&self) -> i64 {
        STILL
    }

    fn time_sql(&self, due: i64) -> String {
        due.to_string()
    }

    fn token_sql(token: Uuid) -> String {
        format!("x'{}'", hex(token.as_bytes()))
    }

    fn read_token(value: &Value) -> Option<Uuid> {
        match value {
            Value::Bytes(bytes) => Uuid::from_slice(bytes).ok(),
            _ => None,
        }
    }

    fn read_time(value: &Value) -> Option<i64> {
        match value {
            Value::Int(time) => Some(*time),
            _ => None,
        }
    }

    fn is_same(expected: &LeaseRow, got: &LeaseRow) -> bool {
        expected == got
    }
}

/// The T-SQL store. Its clock runs, so the due time of a row is compared to ten minutes.
pub(super) struct Mssql(MssqlHarness);

const TOLERANCE: i64 = 600_000;

impl Database for Mssql {
    type Harness = MssqlHarness;

    const CAN_BE_EXACT: bool = false;

    const LEASE_SQL: LeaseSql = lease_broker_sql::mssql::LEASE_SQL;
    const NAME: &str = "T-SQL on Babelfish";

    async fn start(table: &Table, queue: &QueueSpec) -> Self {
        let harness = MssqlHarness::start().await;
        harness.create(table).await;
        harness.apply(queue).await.expect("apply");
        Self(harness)
    }

    fn harness(&self) -> &MssqlHarness {
        &self.0
    }

    async fn open(&self, queue: &QueueSpec, sql: &LeaseSql) -> Arc<dyn Store> {
        let queues = std::slice::from_ref(queue);
        self.0.open_with_sql(queues, sql).await.expect("open")
    }

    fn now(&self) -> i64 {
        let now = time::OffsetDateTime::now_utc().unix_timestamp();
        now * 1_000
    }

    fn time_sql(&self, due: i64) -> String {
        let seconds = due.div_euclid(1_000);
        format!("DATEADD(second, {seconds}, CAST('1970-01-01' AS datetime2(3)))")
    }

    fn token_sql(token: Uuid) -> String {
        format!("'{token}'")
    }

    fn read_token(value: &Value) -> Option<Uuid> {
        match value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn read_time(value: &Value) -> Option<i64> {
        match value {
            Value::Timestamp { seconds, .. } => Some(seconds * 1_000),
            _ => None,
        }
    }

    fn is_same(expected: &LeaseRow, got: &LeaseRow) -> bool {
        let is_same_due = match (expected.due, got.due) {
            (Some(expected), Some(got)) => expected.abs_diff(got) < TOLERANCE.unsigned_abs(),
            (expected, got) => expected == got,
        };
        let due = expected.due;
        is_same_due && LeaseRow { due, ..got.clone() } == *expected
    }
}
