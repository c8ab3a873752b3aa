//! The harness of the T-SQL store: a database on the server that `LEASE_BROKER_TEST_MSSQL` names.
//!
//! Only one test uses the database at a time. A test cannot move the server's clock, so the harness moves the times in
//! the rows into the past instead.

mod cleanup;
mod database;
mod pooled_database;
pub(crate) mod program_database;
mod runtime;
mod values;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Harness;
use super::table::{Column, Kind, Table};
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use lease_broker_sql::LeaseSql;
use lease_broker_sql::mssql::LEASE_SQL;
use lease_broker_store::mssql::{MssqlReader, MssqlSchema, MssqlStore};
use lease_broker_store::schema::{NewEpoch, Removal, Schema as _, Step};
use lease_broker_store::{Browse, Store, StoreError};
use lease_broker_value::Value;
use pooled_database::PooledDatabase;
use runtime::shared;
use values::{literal, operand, value};

/// Environment variable with the connection string of the server.
const SERVER: &str = "LEASE_BROKER_TEST_MSSQL";

/// Runs `work`, which reads the catalog, while no other test of this run drops tables. The harness does so itself.
pub(crate) async fn read_catalog<T>(work: impl Future<Output = T>) -> T {
    let _lock = pooled_database::TABLE_DROPS.read().await;
    work.await
}

/// Runs `work`, which drops tables, while no other test of this run reads the catalog. The harness does so itself.
pub(crate) async fn drop_tables<T>(work: impl Future<Output = T>) -> T {
    let _lock = pooled_database::TABLE_DROPS.write().await;
    work.await
}

pub(crate) struct MssqlHarness {
    /// `None` only while the harness is dropped.
    database: Option<PooledDatabase>,
    /// The queues of all stores that were opened. [`Harness::advance`] changes the times in their tables.
    queues: Mutex<Vec<QueueSpec>>,
}

impl MssqlHarness {
    fn database(&self) -> &PooledDatabase {
        self.database
            .as_ref()
            .expect("a database until the harness is dropped")
    }

    /// Runs a statement with the parameters `@P1`, `@P2` and so on.
    async fn execute(&self, sql: &str, values: &[&Value]) {
        let mut query = tiberius::Query::new(sql);
        for value in values {
            values::bind(&mut query, value);
        }
        let mut connection = self.database().connection.lock().await;
        let executed = shared(query.execute(&mut connection)).await;
        executed.expect(sql);
    }

    /// Runs a batch without parameters and returns the rows of its first result.
    async fn batch(&self, sql: &str) -> Vec<tiberius::Row> {
        let mut connection = self.database().connection.lock().await;
        let rows = shared(async {
            connection
                .simple_query(sql)
                .await?
                .into_first_result()
                .await
        });
        rows.await.expect(sql)
    }

    /// Does the same as [`Harness::open`], with these statements.
    pub(crate) async fn open_with_sql(
        &self,
        queues: &[QueueSpec],
        sql: &LeaseSql,
    ) -> Result<Arc<dyn Store>, StoreError> {
        let lock = pooled_database::TABLE_DROPS.read().await;
        let store = shared(MssqlStore::open_with_sql(
            &self.database().pool,
            queues,
            sql,
        ))
        .await?;
        drop(lock);
        let mut queues_so_far = self
            .queues
            .lock()
            .expect("no test panics while it holds the lock");
        for queue in queues {
            if !queues_so_far
                .iter()
                .any(|other| queue.shares_rows_with(other))
            {
                queues_so_far.push(queue.clone());
            }
        }
        Ok(Arc::new(store))
    }

    /// Runs a blocking schema operation on a thread for blocking work.
    async fn with_schema<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut MssqlSchema) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let database = self.database();
        let (settings, schema) = (database.settings.clone(), database.schema.clone());
        let _lock = pooled_database::TABLE_DROPS.read().await;
        let work = move || {
            let mut open = schema
                .lock()
                .expect("no test panics while it holds the lock");
            let mut schema = match open.take() {
                Some(schema) => schema,
                None => MssqlSchema::open(&settings)?,
            };
            let result = work(&mut schema)?;
            *open = Some(schema);
            Ok(result)
        };
        tokio::task::spawn_blocking(work).await.expect("no panic")
    }
}

impl Drop for MssqlHarness {
    /// Gives the database back, except after a failed test. Its tables or running operations could disturb the next test.
    fn drop(&mut self) {
        if let Some(database) = self.database.take().filter(|_| !std::thread::panicking()) {
            database.give_back();
        }
    }
}

impl Harness for MssqlHarness {
    fn missing() -> Option<String> {
        let is_set = std::env::var(SERVER).is_ok_and(|server| !server.is_empty());
        (!is_set).then(|| format!("{SERVER} is not set"))
    }

    async fn start() -> Self {
        let server = std::env::var(SERVER).expect(SERVER);
        Self {
            database: Some(shared(PooledDatabase::take(&server)).await),
            queues: Mutex::default(),
        }
    }

    async fn create(&self, table: &Table) {
        self.execute(&create_table(table), &[]).await;
    }

    async fn insert(&self, table: &str, row: &[(&str, Value)]) {
        let names: Vec<String> = row.iter().map(|(name, _)| quote(name)).collect();
        let row: Vec<&Value> = row.iter().map(|(_, value)| value).collect();
        let operands: Vec<String> = (1..)
            .zip(&row)
            .map(|(index, value)| operand(index, value))
            .collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            quote(table),
            names.join(", "),
            operands.join(", ")
        );
        self.execute(&sql, &row).await;
    }

    async fn update(&self, table: &str, set: (&str, Value), condition: (&str, Value)) {
        let sql = format!(
            "UPDATE {} SET {} = {} WHERE {} = {}",
            quote(table),
            quote(set.0),
            operand(1, &set.1),
            quote(condition.0),
            operand(2, &condition.1)
        );
        self.execute(&sql, &[&set.1, &condition.1]).await;
    }

    async fn begin_change(&self, table: &str, set: (&str, Value), condition: (&str, Value)) {
        self.batch("BEGIN TRANSACTION").await;
        self.update(table, set, condition).await;
    }

    async fn undo_change(&self) {
        self.batch("ROLLBACK TRANSACTION").await;
    }

    async fn delete(&self, table: &str, condition: (&str, Value)) {
        let sql = format!(
            "DELETE FROM {} WHERE {} = {}",
            quote(table),
            quote(condition.0),
            operand(1, &condition.1)
        );
        self.execute(&sql, &[&condition.1]).await;
    }

    async fn run_sql(&self, sql: &str) -> Result<(), String> {
        let mut connection = self.database().connection.lock().await;
        let run = shared(async { connection.simple_query(sql).await?.into_results().await });
        run.await.map(drop).map_err(|error| error.to_string())
    }

    async fn drop_table(&self, table: &str) {
        let _lock = pooled_database::TABLE_DROPS.write().await;
        let sql = format!("DROP TABLE {}", quote(table));
        self.execute(&sql, &[]).await;
    }

    async fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Value>> {
        let names: Vec<String> = columns.iter().map(|name| quote(name)).collect();
        // The driver cannot read some column names as Babelfish sends them, so each column gets an alias.
        let selected: Vec<String> = (0..)
            .zip(&names)
            .map(|(index, name): (usize, _)| format!("{name} AS c{index}"))
            .collect();
        let sql = format!(
            "SELECT {} FROM {} ORDER BY {}",
            selected.join(", "),
            quote(table),
            names.join(", ")
        );
        let row = |row: tiberius::Row| row.into_iter().map(value).collect();
        self.batch(&sql).await.into_iter().map(row).collect()
    }

    async fn plan(&self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        let queue = queue.clone();
        self.with_schema(move |schema| schema.plan(&queue)).await
    }

    async fn run(&self, step: &Step) -> Result<(), StoreError> {
        let step = step.clone();
        self.with_schema(move |schema| schema.apply(&step, &mut |_| ()))
            .await
    }

    async fn plan_removal(&self, queue: &QueueSpec) -> Result<Removal, StoreError> {
        let queue = queue.clone();
        self.with_schema(move |schema| schema.plan_removal(&queue))
            .await
    }

    async fn uses(&self, queue: &QueueSpec) -> Vec<String> {
        let queue = queue.clone();
        let uses = self.with_schema(move |schema| schema.uses(&queue));
        uses.await.expect("uses")
    }

    async fn begin_epoch(&self, queues: &[QueueSpec]) -> Result<NewEpoch, StoreError> {
        let queues = queues.to_vec();
        self.with_schema(move |schema| schema.begin_epoch(&queues))
            .await
    }

    async fn describe(&self, table: &str) -> Vec<String> {
        let object = format!("OBJECT_ID(N'{table}')");
        let columns = format!(
            "SELECT CONCAT('column ', c.name, ' ', t.name, ' ', c.max_length, ' ', c.precision, ' ', c.scale, ' ', c.is_nullable,
                ' ', c.is_identity, ' ', c.is_computed, ' ', c.collation_name, ' ', n.COLUMN_DEFAULT)
            FROM sys.columns AS c INNER JOIN sys.types AS t ON t.user_type_id = c.user_type_id
                LEFT JOIN INFORMATION_SCHEMA.COLUMNS AS n ON n.TABLE_NAME = OBJECT_NAME({object}) AND n.COLUMN_NAME = c.name
            WHERE c.object_id = {object}
            UNION ALL SELECT CONCAT('index ', i.name, ' ', i.is_unique, ' ', i.has_filter, ' ', k.key_ordinal, ' ', c.name)
            FROM sys.indexes AS i
                INNER JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
                INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
            WHERE i.object_id = {object}
            UNION ALL SELECT CONCAT('trigger ', g.name) FROM sys.triggers AS g WHERE g.parent_id = {object}"
        );
        let rows = read_catalog(self.batch(&columns)).await;
        let line = |row: &tiberius::Row| row.get::<&str, _>(0).expect("a text").to_owned();
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        lines.sort();
        lines
    }

    fn update_trigger(table: &str, log: &str) -> String {
        format!(
            "CREATE TRIGGER watch ON {table} AFTER UPDATE AS BEGIN SET NOCOUNT ON; INSERT {log} (id) SELECT id FROM inserted; END"
        )
    }

    async fn check(&self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        let queue = queue.clone();
        self.with_schema(move |schema| schema.check(&queue)).await
    }

    async fn warnings(&self, queue: &QueueSpec) -> Vec<String> {
        let queue = queue.clone();
        let warnings = self.with_schema(move |schema| schema.warnings(&queue));
        warnings.await.expect("warnings")
    }

    async fn open(&self, queues: &[QueueSpec]) -> Result<Arc<dyn Store>, StoreError> {
        self.open_with_sql(queues, &LEASE_SQL).await
    }

    async fn open_to_read(&self, queues: &[QueueSpec]) -> Result<Arc<dyn Browse>, StoreError> {
        let lock = pooled_database::TABLE_DROPS.read().await;
        let reader = shared(MssqlReader::open_with_pool(&self.database().pool, queues)).await?;
        drop(lock);
        Ok(Arc::new(reader))
    }

    /// Moves the times in the list of brokers into the future.
    async fn set_back(&self, by: Duration) {
        let later = format!(
            "UPDATE lease_broker_instance SET seen_time = DATEADD(millisecond, {}, seen_time)",
            by.as_millis()
        );
        self.run_sql(&later).await.expect("set back");
    }

    /// Moves all times in the database into the past.
    async fn advance(&self, by: Duration) {
        let millis = i32::try_from(by.as_millis()).expect("milliseconds in 32 bits");
        let updates: String = {
            let queues = self
                .queues
                .lock()
                .expect("no test panics while it holds the lock");
            let update = |queue: &QueueSpec| {
                let earlier = |column| {
                    let name = quote(queue.soft_lock.name(column));
                    format!("{name} = DATEADD(millisecond, -{millis}, {name})")
                };
                format!(
                    "UPDATE {} SET {}, {}; ",
                    quote(unquoted_name(&queue.table)),
                    earlier(SoftLockColumn::StateTime),
                    earlier(SoftLockColumn::DueTime)
                )
            };
            queues.iter().map(update).collect()
        };
        let requests = format!(
            "UPDATE lease_broker_request SET expire_time = DATEADD(millisecond, -{millis}, expire_time); "
        );
        let instances = format!(
            "UPDATE lease_broker_instance SET seen_time = DATEADD(millisecond, -{millis}, seen_time); "
        );
        let suspects = format!(
            "UPDATE lease_broker_suspect SET ready_time = DATEADD(millisecond, -{millis}, ready_time); "
        );
        let earlier = |columns: &[&str]| {
            let earlier = columns
                .iter()
                .map(|name| format!("{name} = DATEADD(millisecond, -{millis}, {name})"));
            earlier.collect::<Vec<_>>().join(", ")
        };
        let operators = format!(
            "UPDATE lease_broker_queue SET {}, arrival = arrival - 1000 * CONVERT(bigint, {millis}); UPDATE lease_broker_operation SET {}; \
             UPDATE lease_broker_group SET {}; UPDATE lease_broker_group_rate SET arrival = arrival - 1000 * CONVERT(bigint, {millis}); ",
            earlier(&["pause_time", "pause_until"]),
            earlier(&["create_time", "end_time", "until_time"]),
            earlier(&["pause_time", "paused_until"])
        );
        let sql = format!(
            "SET XACT_ABORT ON; BEGIN TRANSACTION; {updates}{requests}{instances}{suspects}{operators}COMMIT TRANSACTION"
        );
        self.batch(&sql).await;
    }

    fn declare(kind: Kind) -> String {
        let declared = match kind {
            Kind::Int => "int",
            Kind::BigInt => "bigint",
            Kind::Counter => "bigint IDENTITY(1, 1)",
            // An index key has at most 900 bytes. A key with three such columns fits.
            Kind::Text => "nvarchar(200) COLLATE Latin1_General_100_BIN2",
            Kind::Blob => "varbinary(300)",
            Kind::LongText => "nvarchar(max) COLLATE Latin1_General_100_BIN2",
            Kind::LongBlob => "varbinary(max)",
            Kind::Bool => "bit",
            Kind::Decimal => "decimal(18, 4)",
            Kind::Timestamp => "datetime2(7)",
            Kind::Double => "float",
        };
        declared.to_owned()
    }

    fn moment(value: &Value) -> Option<i64> {
        let Value::Timestamp { seconds, nanos } = value else {
            return None;
        };
        Some(seconds * 1_000 + i64::from(nanos / 1_000_000))
    }

    fn unknown_time() -> Value {
        Value::Timestamp {
            seconds: 946_684_800,
            nanos: 0,
        }
    }

    /// Encloses a name with a dot in brackets. Otherwise the dot would separate the schema from the table.
    fn table_name(name: &str) -> String {
        if name.contains('.') {
            format!("[{name}]")
        } else {
            name.to_owned()
        }
    }

    /// The server compares texts as if spaces filled up the shorter one, and bytes as if zeros did.
    fn same_key(one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Text(one), Value::Text(other)) => {
                one.trim_end_matches(' ') == other.trim_end_matches(' ')
            }
            (Value::Bytes(one), Value::Bytes(other)) => {
                let length = one.len().max(other.len());
                let padded = |bytes: &[u8]| {
                    let mut bytes = bytes.to_vec();
                    bytes.resize(length, 0);
                    bytes
                };
                padded(one) == padded(other)
            }
            _ => one == other,
        }
    }
}

fn create_table(table: &Table) -> String {
    let mut parts: Vec<String> = table.columns.iter().map(column).collect();
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quote(name)).collect();
        names.join(", ")
    };
    if !table.key.is_empty() {
        parts.push(format!("PRIMARY KEY ({})", list(&table.key)));
    }
    for unique in &table.unique {
        parts.push(format!("UNIQUE ({})", list(unique)));
    }
    format!("CREATE TABLE {} ({})", quote(&table.name), parts.join(", "))
}

fn column(column: &Column) -> String {
    let name = quote(&column.name);
    if let Some(of) = &column.copy_of {
        return format!("{name} AS ({})", quote(of));
    }
    let mut sql = format!("{name} {}", MssqlHarness::declare(column.kind));
    sql.push_str(if column.required {
        " NOT NULL"
    } else {
        " NULL"
    });
    if let Some(default) = &column.default {
        sql.extend([" DEFAULT ", &literal(default)]);
    }
    sql
}

/// Returns a configured table name without its brackets.
fn unquoted_name(table: &str) -> &str {
    let inner = table
        .strip_prefix('[')
        .and_then(|table| table.strip_suffix(']'));
    inner.unwrap_or(table)
}

/// Returns an identifier in quotation marks. Brackets would fail, because Babelfish does not accept a bracket in brackets.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
