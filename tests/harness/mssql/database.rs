//! Creates, empties and drops a test database. Dropping ends the sessions that still use the database.

use std::time::Duration;

use tiberius::{Client, Config};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};
use uuid::Uuid;

use super::quote;

pub(super) type Connection = Client<Compat<TcpStream>>;

/// Number of times that a statement is sent, 100 ms apart. The server creates one database at a time, and it drops no
/// database while a killed session is still closing.
const ATTEMPTS: u32 = 100;

pub(super) struct Database {
    server: String,
    pub(super) name: String,
}

impl Database {
    /// Creates a database for tests.
    ///
    /// `LEASE_BROKER_TEST_MSSQL_COLLATION` names its collation (default: the server's).
    /// `LEASE_BROKER_TEST_MSSQL_OPTIONS` lists options of `ALTER DATABASE … SET`, separated by semicolons, for example
    /// `READ_COMMITTED_SNAPSHOT ON;COMPATIBILITY_LEVEL = 130` (default: none).
    pub(super) async fn create(server: &str) -> Self {
        let database = Self {
            server: server.to_owned(),
            name: format!("lb_test_{}", Uuid::new_v4().simple()),
        };
        let mut connection = connect(server).await.expect("connect");
        let collation = std::env::var("LEASE_BROKER_TEST_MSSQL_COLLATION");
        let collation = collation.map_or_else(|_| String::new(), |name| format!(" COLLATE {name}"));
        let sql = format!("CREATE DATABASE [{}]{collation}", database.name);
        run_with_retries(&mut connection, &sql).await.expect(&sql);
        let options = std::env::var("LEASE_BROKER_TEST_MSSQL_OPTIONS").unwrap_or_default();
        for option in options.split(';').filter(|option| !option.is_empty()) {
            let sql = format!("ALTER DATABASE [{}] SET {option}", database.name);
            run(&mut connection, &sql).await.expect(&sql);
        }
        database
    }

    /// Returns the server's connection string with the name of this database appended. If a keyword occurs twice, the
    /// last value counts. `database` has precedence over its synonyms.
    pub(super) fn connection_string(&self) -> String {
        format!("{};database={}", self.server, self.name)
    }

    pub(super) async fn connect(&self) -> Connection {
        connect(&self.connection_string()).await.expect("connect")
    }
}

/// Drops every table of the connection's database. A table to which a foreign key refers can be dropped only after the others.
pub(super) async fn empty(connection: &mut Connection) -> tiberius::Result<()> {
    const TABLES: &str =
        "SELECT SCHEMA_NAME(schema_id), CAST(name AS nvarchar(128)) FROM sys.tables";

    let mut tables = read_texts(connection, TABLES, 2).await?;
    loop {
        let (mut remaining, mut refused) = (Vec::new(), Ok(()));
        let count = tables.len();
        for table in tables {
            let sql = format!("DROP TABLE {}.{}", quote(&table[0]), quote(&table[1]));
            if let Err(error) = run(connection, &sql).await {
                remaining.push(table);
                refused = Err(error);
            }
        }
        if remaining.is_empty() || remaining.len() == count {
            return refused;
        }
        tables = remaining;
    }
}

/// Ends the sessions that use the database and drops it.
pub(super) async fn drop_database(server: &str, name: &str) -> tiberius::Result<()> {
    let mut connection = connect(server).await?;
    let sessions = format!(
        "SELECT CAST(session_id AS nvarchar(10)) FROM sys.dm_exec_sessions \
         WHERE database_id = DB_ID(N'{name}') AND session_id <> @@SPID"
    );
    for session in read_texts(&mut connection, &sessions, 1).await? {
        // An error is ignored, because the session may already have ended.
        let _ = run(&mut connection, &format!("KILL {}", session[0])).await;
    }
    run_with_retries(
        &mut connection,
        &format!("IF DB_ID(N'{name}') IS NOT NULL DROP DATABASE [{name}]"),
    )
    .await
}

/// Returns the names of the test databases that are more than two hours old. No test run takes that long.
pub(super) async fn stale_databases(server: &str) -> tiberius::Result<Vec<String>> {
    const STALE_DATABASES: &str = "SELECT name FROM sys.databases \
        WHERE name LIKE N'lb[_]test[_]%' AND create_date < DATEADD(hour, -2, GETDATE())";

    let mut connection = connect(server).await?;
    let names = read_texts(&mut connection, STALE_DATABASES, 1).await?;
    Ok(names.into_iter().flatten().collect())
}

/// Returns whether a database with this name exists.
pub(super) async fn exists(server: &str, name: &str) -> tiberius::Result<bool> {
    let mut connection = connect(server).await?;
    let sql = format!("SELECT name FROM sys.databases WHERE name = N'{name}'");
    Ok(!read_texts(&mut connection, &sql, 1).await?.is_empty())
}

async fn connect(connection_string: &str) -> tiberius::Result<Connection> {
    let config = Config::from_ado_string(connection_string)?;
    let stream = TcpStream::connect(config.get_addr()).await?;
    stream.set_nodelay(true)?;
    // Boxed, because the state of this future is large.
    Box::pin(Client::connect(config, stream.compat_write())).await
}

async fn run(connection: &mut Connection, sql: &str) -> tiberius::Result<()> {
    connection.simple_query(sql).await?.into_results().await?;
    Ok(())
}

/// Reads the first `columns` columns of each row as text.
async fn read_texts(
    connection: &mut Connection,
    sql: &str,
    columns: usize,
) -> tiberius::Result<Vec<Vec<String>>> {
    let rows = connection.simple_query(sql).await?;
    let rows = rows.into_first_result().await?;
    let text =
        |row: &tiberius::Row, index| row.get::<&str, _>(index).unwrap_or_default().to_owned();
    let texts = |row| (0..columns).map(|index| text(row, index)).collect();
    Ok(rows.iter().map(texts).collect())
}

/// Runs a statement up to [`ATTEMPTS`] times, until it succeeds.
async fn run_with_retries(connection: &mut Connection, sql: &str) -> tiberius::Result<()> {
    for _ in 1..ATTEMPTS {
        if run(connection, sql).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    run(connection, sql).await
}
