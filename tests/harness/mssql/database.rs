//! A database made for one test, and removed whatever became of the test.

use std::time::Duration;

use tiberius::{Client, Config};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};
use uuid::Uuid;

pub(super) type Connection = Client<Compat<TcpStream>>;

/// How often the server is asked again, a tenth of a second apart: it makes one database at a time, and removes none
/// while a connection that was ended is still closing.
const ATTEMPTS: u32 = 100;

pub(super) struct Database {
    server: String,
    name: String,
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

    /// Drops `first`, then the database, in a thread of its own: a test's runtime can neither wait in `drop` nor be left
    /// by another runtime.
    pub(super) fn remove(&self, first: impl Send + 'static) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let removal = std::thread::spawn(move || {
            drop(first);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(remove(&server, &name))
        });
        // Not a panic, as the test may be panicking.
        match removal.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("the database {} is left behind: {error}", self.name),
            Err(_) => eprintln!("the database {} is left behind", self.name),
        }
    }
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

async fn patiently(connection: &mut Connection, sql: &str) -> tiberius::Result<()> {
    for _ in 1..ATTEMPTS {
        if run(connection, sql).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    run(connection, sql).await
}

/// Ends the sessions of the test's brokers, which may outlive the harness, and drops the database.
async fn remove(server: &str, name: &str) -> tiberius::Result<()> {
    let mut connection = connect(server).await?;
    let sessions = format!(
        "SELECT CAST(session_id AS int) FROM sys.dm_exec_sessions \
         WHERE database_id = DB_ID(N'{name}') AND session_id <> @@SPID"
    );
    let sessions = connection.simple_query(sessions).await?;
    for session in sessions.into_first_result().await? {
        if let Some(session) = session.get::<i32, _>(0) {
            // It may have ended by itself.
            let _ = run(&mut connection, &format!("KILL {session}")).await;
        }
    }
    patiently(&mut connection, &format!("DROP DATABASE [{name}]")).await
}
