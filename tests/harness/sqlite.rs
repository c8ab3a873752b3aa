//! The harness of the embedded store: a database file in a temporary folder, and a clock that the test moves.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker_model::key::{hex, rfc3339};
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::schema::{NewEpoch, Removal, Schema as _, Step};
use lease_broker_store::sqlite::{Clock, SqliteReader, SqliteSchema, SqliteStore, system_clock};
use lease_broker_store::{Browse, Store, StoreError};
use lease_broker_value::Value;
use rusqlite::Connection;
use rusqlite::types::{Value as Sql, ValueRef};
use tempfile::TempDir;

use super::Harness;
use super::table::{Column, Kind, Table};

pub(crate) struct SqliteHarness {
    folder: TempDir,
    time: Arc<AtomicI64>,
    /// The connection of a transaction that a test has begun.
    transaction: Mutex<Option<Connection>>,
}

impl SqliteHarness {
    /// Returns the path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("queue.db")
    }

    /// Starts with a database in which another program has run these statements.
    pub(crate) async fn with(sql: &str) -> Self {
        let harness = Self::start().await;
        harness.execute(sql);
        harness
    }

    /// Runs statements, as another program would.
    pub(crate) fn execute(&self, sql: &str) {
        self.connect().execute_batch(sql).expect(sql);
    }

    /// Connects as another program would.
    pub(crate) fn connect(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("open");
        let timeout = Duration::from_secs(60);
        connection.busy_timeout(timeout).expect("busy_timeout");
        connection
    }

    /// Returns a clock that advances by 1 ms each time that it is read. No test can rely on a clock that stands still.
    pub(crate) fn clock(&self) -> Clock {
        let time = self.time.clone();
        Arc::new(move || time.fetch_add(1, Ordering::SeqCst))
    }
}

impl Harness for SqliteHarness {
    async fn start() -> Self {
        Self {
            folder: tempfile::tempdir().expect("tempdir"),
            time: Arc::new(AtomicI64::new(system_clock()())),
            transaction: Mutex::default(),
        }
    }

    fn moves_clock() -> bool {
        true
    }

    fn keeps_any_value() -> bool {
        true
    }

    async fn create(&self, table: &Table) {
        self.execute(&create_table(table));
    }

    async fn insert(&self, table: &str, row: &[(&str, Value)]) {
        let names: Vec<String> = row.iter().map(|(name, _)| quote(name)).collect();
        let parameters: Vec<String> = (1..=row.len()).map(|index| format!("?{index}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            quote(table),
            names.join(", "),
            parameters.join(", ")
        );
        let values = row.iter().map(|(_, value)| sql_value(value));
        let values = rusqlite::params_from_iter(values);
        self.connect().execute(&sql, values).expect(&sql);
    }

    async fn update(&self, table: &str, set: (&str, Value), condition: (&str, Value)) {
        update(&self.connect(), table, &set, &condition);
    }

    async fn begin_change(&self, table: &str, set: (&str, Value), condition: (&str, Value)) {
        let connection = self.connect();
        connection.execute_batch("BEGIN IMMEDIATE").expect("begin");
        update(&connection, table, &set, &condition);
        *self.transaction.lock().expect("no panic") = Some(connection);
    }

    async fn undo_change(&self) {
        // A connection that closes rolls its transaction back.
        self.transaction.lock().expect("no panic").take();
    }

    async fn delete(&self, table: &str, condition: (&str, Value)) {
        let sql = format!(
            "DELETE FROM {} WHERE {} = ?1",
            quote(table),
            quote(condition.0)
        );
        let value = [sql_value(&condition.1)];
        self.connect().execute(&sql, value).expect(&sql);
    }

    async fn run_sql(&self, sql: &str) -> Result<(), String> {
        let ran = self.connect().execute_batch(sql);
        ran.map_err(|error| error.to_string())
    }

    async fn drop_table(&self, table: &str) {
        self.execute(&format!("DROP TABLE {}", quote(table)));
    }

    async fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Value>> {
        let names: Vec<String> = columns.iter().map(|name| quote(name)).collect();
        let names = names.join(", ");
        let sql = format!("SELECT {names} FROM {} ORDER BY {names}", quote(table));
        let connection = self.connect();
        let mut statement = connection.prepare(&sql).expect(&sql);
        let rows = statement.query_map([], |row| {
            (0..columns.len())
                .map(|index| Ok(value(row.get_ref(index)?)))
                .collect()
        });
        rows.and_then(Iterator::collect).expect(&sql)
    }

    async fn plan(&self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        SqliteSchema::open(&self.path())?.plan(queue)
    }

    async fn run(&self, step: &Step) -> Result<(), StoreError> {
        SqliteSchema::open(&self.path())?.apply(step, &mut |_| ())
    }

    async fn plan_removal(&self, queue: &QueueSpec) -> Result<Removal, StoreError> {
        SqliteSchema::open(&self.path())?.plan_removal(queue)
    }

    async fn uses(&self, queue: &QueueSpec) -> Vec<String> {
        let mut schema = SqliteSchema::open(&self.path()).expect("a schema");
        schema.uses(queue).expect("uses")
    }

    async fn begin_epoch(&self, queues: &[QueueSpec]) -> Result<NewEpoch, StoreError> {
        SqliteSchema::open(&self.path())?.begin_epoch(queues)
    }

    async fn describe(&self, table: &str) -> Vec<String> {
        let sql = "SELECT type || ' ' || name || ': ' || COALESCE(sql, '') FROM sqlite_schema WHERE tbl_name = ?1 ORDER BY 1";
        let connection = self.connect();
        let mut statement = connection.prepare(sql).expect(sql);
        let lines = statement.query_map([table], |row| row.get(0));
        lines.and_then(Iterator::collect).expect(sql)
    }

    fn update_trigger(table: &str, log: &str) -> String {
        format!(
            "CREATE TRIGGER watch AFTER UPDATE ON {table} BEGIN INSERT INTO {log} (id) VALUES (new.id); END"
        )
    }

    async fn check(&self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        SqliteSchema::open(&self.path())?.check(queue)
    }

    async fn warnings(&self, queue: &QueueSpec) -> Vec<String> {
        let mut schema = SqliteSchema::open(&self.path()).expect("a schema");
        schema.warnings(queue).expect("warnings")
    }

    async fn open(&self, queues: &[QueueSpec]) -> Result<Arc<dyn Store>, StoreError> {
        let store = SqliteStore::open(&self.path(), queues, self.clock())?;
        Ok(Arc::new(store))
    }

    async fn open_to_read(&self, queues: &[QueueSpec]) -> Result<Arc<dyn Browse>, StoreError> {
        let reader = SqliteReader::open(&self.path(), queues, self.clock())?;
        Ok(Arc::new(reader))
    }

    async fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("a short time");
        self.time.fetch_add(millis, Ordering::SeqCst);
    }

    async fn set_back(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("a short time");
        self.time.fetch_sub(millis, Ordering::SeqCst);
    }

    fn unknown_time() -> Value {
        Value::Int(0)
    }

    fn declare(kind: Kind) -> String {
        let declared = match kind {
            Kind::Int => "INT",
            Kind::BigInt => "BIGINT",
            Kind::Counter => "INTEGER",
            Kind::Text | Kind::LongText => "TEXT",
            Kind::Blob | Kind::LongBlob => "BLOB",
            Kind::Bool => "BOOLEAN",
            Kind::Decimal => "DECIMAL(18, 4)",
            Kind::Timestamp => "DATETIME",
            Kind::Double => "DOUBLE",
        };
        declared.to_owned()
    }

    fn moment(value: &Value) -> Option<i64> {
        let Value::Text(text) = value else {
            return None;
        };
        let format = time::macros::format_description!(
            "[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]"
        );
        let moment = time::PrimitiveDateTime::parse(text, format).ok()?;
        let nanos = moment.assume_utc().unix_timestamp_nanos();
        i64::try_from(nanos / 1_000_000).ok()
    }
}

fn update(connection: &Connection, table: &str, set: &(&str, Value), condition: &(&str, Value)) {
    let sql = format!(
        "UPDATE {} SET {} = ?1 WHERE {} = ?2",
        quote(table),
        quote(set.0),
        quote(condition.0)
    );
    let values = (sql_value(&set.1), sql_value(&condition.1));
    connection.execute(&sql, values).expect(&sql);
}

fn create_table(table: &Table) -> String {
    let has_counter = table
        .columns
        .iter()
        .any(|column| column.kind == Kind::Counter);
    let mut parts: Vec<String> = table.columns.iter().map(column).collect();
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quote(name)).collect();
        names.join(", ")
    };
    if !table.key.is_empty() && !has_counter {
        parts.push(format!("PRIMARY KEY ({})", list(&table.key)));
    }
    for unique in &table.unique {
        parts.push(format!("UNIQUE ({})", list(unique)));
    }
    format!("CREATE TABLE {} ({})", quote(&table.name), parts.join(", "))
}

fn column(column: &Column) -> String {
    let mut sql = format!(
        "{} {}",
        quote(&column.name),
        SqliteHarness::declare(column.kind)
    );
    if column.kind == Kind::Counter {
        sql.push_str(" PRIMARY KEY AUTOINCREMENT");
    }
    if column.required {
        sql.push_str(" NOT NULL");
    }
    if let Some(default) = &column.default {
        let literal = match default {
            Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Value::Bytes(bytes) => format!("x'{}'", hex(bytes)),
            Value::Int(int) => int.to_string(),
            Value::Bool(bool) => i64::from(*bool).to_string(),
            other => panic!("the harness cannot write this default: {other:?}"),
        };
        sql.extend([" DEFAULT ", &literal]);
    }
    if let Some(of) = &column.copy_of {
        sql.extend([" GENERATED ALWAYS AS (", &quote(of), ") VIRTUAL"]);
    }
    sql
}

pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn sql_value(value: &Value) -> Sql {
    match value {
        Value::Null => Sql::Null,
        Value::Bool(bool) => Sql::Integer((*bool).into()),
        Value::Int(int) => Sql::Integer(*int),
        Value::Double(double) => Sql::Real(*double),
        Value::Text(text) | Value::Decimal(text) => Sql::Text(text.clone()),
        Value::Bytes(bytes) => Sql::Blob(bytes.clone()),
        Value::Timestamp { seconds, nanos } => {
            let text = rfc3339(*seconds, *nanos);
            Sql::Text(text.replace('T', " ").replace('Z', ""))
        }
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(int) => Value::Int(int),
        ValueRef::Real(double) => Value::Double(double),
        ValueRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).expect("UTF-8")),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}
