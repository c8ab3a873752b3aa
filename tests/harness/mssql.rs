//! The T-SQL store's harness: a database on the server that `LEASE_BROKER_TEST_MSSQL` names, the test's own while it runs,
//! and rows that are moved into the past, as nobody can move the server's clock.

mod database;
mod janitor;
pub(crate) mod own;
mod place;
mod runtime;
mod store;
mod values;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker::queue::{QueueSpec, SoftLockColumn};
use lease_broker::store::mssql::{MssqlSchema, MssqlStore};
use lease_broker::store::schema::{Schema as _, Step};
use lease_broker::store::{Store, StoreError};
use lease_broker::value::Value;

use super::Harness;
use super::table::{Column, Kind, Table};
use place::Place;
use runtime::shared;
use store::SharedStore;
use values::{literal, operand, value};

const SERVER: &str = "LEASE_BROKER_TEST_MSSQL";

pub(crate) struct MssqlHarness {
    /// None only while the harness is dropped.
    place: Option<Place>,
    /// The queues that brokers have been opened with.
    queues: Mutex<Vec<QueueSpec>>,
}

impl MssqlHarness {
    fn place(&self) -> &Place {
        self.place.as_ref().expect("a place until the end")
    }

    /// Runs a statement whose `values` are at its parameters @P1, @P2 and so on.
    async fn execute(&self, sql: &str, values: &[&Value]) {
        let mut query = tiberius::Query::new(sql);
        for value in values {
            values::bind(&mut query, value);
        }
        let mut connection = self.place().connection.lock().await;
        let executed = shared(query.execute(&mut connection)).await;
        executed.expect(sql);
    }

    /// Runs a batch without parameters and returns the rows of its first result.
    async fn batch(&self, sql: &str) -> Vec<tiberius::Row> {
        let mut connection = self.place().connection.lock().await;
        let rows = shared(async {
            connection
                .simple_query(sql)
                .await?
                .into_first_result()
                .await
        });
        rows.await.expect(sql)
    }

    /// Runs what blocks on a thread where it may.
    async fn with_schema<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut MssqlSchema) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = self.place();
        let (settings, kept) = (place.settings.clone(), place.schema.clone());
        let _tables = place::DROPS.read().await;
        let work = move || {
            let mut kept = kept.lock().expect("no test panics while it holds this");
            let mut schema = match kept.take() {
                Some(schema) => schema,
                None => MssqlSchema::open(&settings)?,
            };
            let result = work(&mut schema)?;
            *kept = Some(schema);
            Ok(result)
        };
        tokio::task::spawn_blocking(work).await.expect("no panic")
    }
}

impl Drop for MssqlHarness {
    /// What a failed test leaves behind, in its database or running, is no other test's.
    fn drop(&mut self) {
        if let Some(place) = self.place.take().filter(|_| !std::thread::panicking()) {
            place.leave();
        }
    }
}

impl Harness for MssqlHarness {
    fn missing() -> Option<String> {
        let named = std::env::var(SERVER).is_ok_and(|server| !server.is_empty());
        (!named).then(|| format!("{SERVER} names no server"))
    }

    async fn start() -> Self {
        let server = std::env::var(SERVER).expect(SERVER);
        Self {
            place: Some(shared(Place::take(&server)).await),
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
            .map(|(at, value)| operand(at, value))
            .collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            quote(table),
            names.join(", "),
            operands.join(", ")
        );
        self.execute(&sql, &row).await;
    }

    async fn update(&self, table: &str, set: (&str, Value), at: (&str, Value)) {
        let sql = format!(
            "UPDATE {} SET {} = {} WHERE {} = {}",
            quote(table),
            quote(set.0),
            operand(1, &set.1),
            quote(at.0),
            operand(2, &at.1)
        );
        self.execute(&sql, &[&set.1, &at.1]).await;
    }

    async fn delete(&self, table: &str, at: (&str, Value)) {
        let sql = format!(
            "DELETE FROM {} WHERE {} = {}",
            quote(table),
            quote(at.0),
            operand(1, &at.1)
        );
        self.execute(&sql, &[&at.1]).await;
    }

    async fn drop_table(&self, table: &str) {
        let _tables = place::DROPS.write().await;
        let sql = format!("DROP TABLE {}", quote(table));
        self.execute(&sql, &[]).await;
    }

    async fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Value>> {
        let names: Vec<String> = columns.iter().map(|name| quote(name)).collect();
        let places = names.iter().enumerate();
        // Babelfish sends some names so that the driver can't read them.
        let selected: Vec<String> = places
            .map(|(at, name)| format!("{name} AS c{at}"))
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

    async fn check(&self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        let queue = queue.clone();
        self.with_schema(move |schema| schema.check(&queue)).await
    }

    async fn open(&self, queues: &[QueueSpec]) -> Result<Arc<dyn Store>, StoreError> {
        let tables = place::DROPS.read().await;
        let store = shared(MssqlStore::open_with_pool(&self.place().connected, queues)).await?;
        drop(tables);
        let mut known = self.queues.lock().expect("no panic while it is held");
        for queue in queues {
            if !known.iter().any(|known| queue.shares_rows_with(known)) {
                known.push(queue.clone());
            }
        }
        Ok(Arc::new(SharedStore(store)))
    }

    /// Moves the times in all rows back.
    async fn advance(&self, by: Duration) {
        let millis = i32::try_from(by.as_millis()).expect("a short time");
        let updates: String = {
            let queues = self.queues.lock().expect("no panic while it is held");
            let update = |queue: &QueueSpec| {
                let earlier = |column| {
                    let name = quote(queue.soft_lock.name(column));
                    format!("{name} = DATEADD(millisecond, -{millis}, {name})")
                };
                format!(
                    "UPDATE {} SET {}, {}; ",
                    quote(own_name(&queue.table)),
                    earlier(SoftLockColumn::StateTime),
                    earlier(SoftLockColumn::DueTime)
                )
            };
            queues.iter().map(update).collect()
        };
        let sql = format!("SET XACT_ABORT ON; BEGIN TRANSACTION; {updates}COMMIT TRANSACTION");
        self.batch(&sql).await;
    }

    fn declare(kind: Kind) -> String {
        let declared = match kind {
            Kind::Int => "int",
            Kind::BigInt => "bigint",
            Kind::Counter => "bigint IDENTITY(1, 1)",
            // Three columns of a key have room in an index's 900 bytes.
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

    /// A decimal has as many digits after its point as its column.
    fn as_read(kind: Kind, value: &Value) -> Value {
        match (kind, value) {
            (Kind::Decimal, Value::Decimal(digits)) => {
                let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                Value::Decimal(format!("{whole}.{fraction:0<4}"))
            }
            _ => value.clone(),
        }
    }

    fn moment(value: &Value) -> Option<i64> {
        let Value::Timestamp { seconds, nanos } = value else {
            return None;
        };
        Some(seconds * 1_000 + i64::from(nanos / 1_000_000))
    }

    /// In brackets where a dot would end the schema's name.
    fn table_name(name: &str) -> String {
        if name.contains('.') {
            format!("[{name}]")
        } else {
            name.to_owned()
        }
    }

    /// Texts are compared as if the shorter one had spaces at its end, and bytes as if it had zeros.
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

/// Returns the name of a table that a configuration names.
fn own_name(table: &str) -> &str {
    let inner = table
        .strip_prefix('[')
        .and_then(|table| table.strip_suffix(']'));
    inner.unwrap_or(table)
}

/// With quotation marks and not with brackets, as Babelfish knows no bracket within brackets.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
