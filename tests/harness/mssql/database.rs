//! A database for tests: made, emptied, and dropped whoever is still connected to it.

use std::time::Duration;

use tiberius::{Client, Config};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};
use uuid::Uuid;

use super::quote;

pub(super) type Connection = Client<Compat<TcpStream>>;

/// How often the server is asked again, a tenth of a second apart: it makes one database at a time, and drops none while
/// a session that was ended is still closing.
const ATTEMPTS: u32 = 100;

pub(super) struct Database {
    server: String,
    pub(super) name: String,
}

impl Database {
    pub(super) async fn create(server: &str) -> Self {
        let database = Self {
            server: server.to_owned(),
            name: format!("lb_test_{}", Uuid::new_v4().simple()),
        };
        let mut connection = connect(server).await.expect("connect");
        let sql = format!("CREATE DATABASE [{}]", database.name);
        patiently(&mut connection, &sql).await.expect(&sql);
        database
    }

    /// The server's connection string, with this database in place of its own: of a word that comes twice, the last one
    /// counts, and `database` before its synonyms.
    pub(super) fn connection_string(&self) -> String {
        format!("{};database={}", self.server, self.name)
    }

    pub(super) async fn connect(&self) -> Connection {
        connect(&self.connection_string()).await.expect("connect")
    }
}

/// Drops every table of the connection's database.
pub(super) async fn empty(connection: &mut Connection) -> tiberius::Result<()> {
    const TABLES: &str =
        "SELECT SCHEMA_NAME(schema_id), CAST(name AS nvarchar(128)) FROM sys.tables";

    for table in names(connection, TABLES, 2).await? {
        let sql = format!("DROP TABLE {}.{}", quote(&table[0]), quote(&table[1]));
        run(connection, &sql).await?;
    }
    Ok(())
}

/// Ends the sessions that use the database and drops it.
pub(super) async fn drop_database(server: &str, name: &str) -> tiberius::Result<()> {
    let mut connection = connect(server).await?;
    let sessions = format!(
        "SELECT CAST(session_id AS nvarchar(10)) FROM sys.dm_exec_sessions \
         WHERE database_id = DB_ID(N'{name}') AND session_id <> @@SPID"
    );
    for session in names(&mut connection, &sessions, 1).await? {
        // It may have ended by itself.
        let _ = run(&mut connection, &format!("KILL {}", session[0])).await;
    }
    patiently(
        &mut connection,
        &format!("IF DB_ID(N'{name}') IS NOT NULL DROP DATABASE [{name}]"),
    )
    .await
}

/// Returns the names of the databases that tests have made more than two hours ago: their runs are over.
pub(super) async fn forgotten(server: &str) -> tiberius::Result<Vec<String>> {
    const FORGOTTEN: &str = "SELECT name FROM sys.databases \
        WHERE name LIKE N'lb[_]test[_]%' AND create_date < DATEADD(hour, -2, GETDATE())";

    let mut connection = connect(server).await?;
    let names = names(&mut connection, FORGOTTEN, 1).await?;
    Ok(names.into_iter().flatten().collect())
}

/// Returns whether there is a database of this name.
pub(super) async fn exists(server: &str, name: &str) -> tiberius::Result<bool> {
    let mut connection = connect(server).await?;
    let named = format!("SELECT name FROM sys.databases WHERE name = N'{name}'");
    Ok(!names(&mut connection, &named, 1).await?.is_empty())
}

async fn connect(connection_string: &str) -> tiberius::Result<Connection> {
    let config = Config::from_ado_string(connection_string)?;
    let stream = TcpStream::connect(config.get_addr()).await?;
    stream.set_nodelay(true)?;
    // Its state is large.
    Box::pin(Client::connect(config, stream.compat_write())).await
}

async fn run(connection: &mut Connection, sql: &str) -> tiberius::Result<()> {
    connection.simple_query(sql).await?.into_results().await?;
    Ok(())
}

/// Reads rows of `columns` texts.
async fn names(
    connection: &mut Connection,
    sql: &str,
    columns: usize,
) -> tiberius::Result<Vec<Vec<String>>> {
    let rows = connection.simple_query(sql).await?;
    let rows = rows.into_first_result().await?;
    let text = |row: &tiberius::Row, at| row.get::<&str, _>(at).unwrap_or_default().to_owned();
    let names = |row| (0..columns).map(|at| text(row, at)).collect();
    Ok(rows.iter().map(names).collect())
}

async fn patiently(connection: &mut Connection, sql: &str) -> tiberius::Result<()> {
    for _ in 1..ATTEMPTS {
        if run(connection, sql).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    run(connection, sql).await
}
