//! Another program on the database of a test. It runs plain T-SQL for features that the harness does not cover.

use std::time::Duration;

use lease_broker_store::mssql::{MssqlSchema, Settings};
use tiberius::{Client, ColumnData, Config};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};

use crate::harness::mssql::{MssqlHarness, drop_tables, read_catalog};
use crate::harness::{Harness as _, can_run};
use crate::support::skipped::skipped;

/// A connection to the database of a test, and its connection string.
pub(crate) struct Program {
    connection: Mutex<Client<Compat<TcpStream>>>,
    pub(crate) connection_string: String,
    /// Whether the server is Babelfish, which lacks many features of SQL Server.
    pub(crate) babelfish: bool,
}

/// Creates a database and connects another program to it. Without a server it prints a `skipped:` line and returns `None`.
pub(crate) async fn start() -> Option<(MssqlHarness, Program)> {
    if !can_run::<MssqlHarness>() {
        return None;
    }
    let harness = MssqlHarness::start().await;
    let program = Program::on(&harness).await;
    Some((harness, program))
}

/// Does the same for tests of a feature that Babelfish lacks. On Babelfish it prints a `skipped:` line and returns `None`.
pub(crate) async fn start_on_sql_server(feature: &str) -> Option<(MssqlHarness, Program)> {
    let (harness, program) = start().await?;
    if program.babelfish {
        skipped(&format!("Babelfish has no {feature}"));
        return None;
    }
    Some((harness, program))
}

impl Program {
    /// Connects to the database of the harness. The harness does not tell its name, so a query asks for it.
    async fn on(harness: &MssqlHarness) -> Self {
        let ask_name = "CREATE TABLE database_name (name nvarchar(128) NOT NULL);
            INSERT database_name (name) SELECT DB_NAME()";
        harness.run_sql(ask_name).await.expect("a table");
        let name = harness.rows("database_name", &["name"]).await;
        harness.drop_table("database_name").await;
        let [lease_broker_value::Value::Text(name)] = &*name[0] else {
            panic!("no name: {name:?}");
        };
        Self::connect(&format!("{};database={name}", server())).await
    }

    /// Connects with this connection string and finds out whether the server is Babelfish.
    pub(crate) async fn connect(connection_string: &str) -> Self {
        let config = Config::from_ado_string(connection_string).expect("a connection string");
        let stream = TcpStream::connect(config.get_addr()).await;
        let stream = stream.expect("a server").compat_write();
        // Boxed, because the futures of the driver are large.
        let connection = Box::pin(Client::connect(config, stream)).await;
        let mut program = Self {
            connection: connection.expect("a login").into(),
            connection_string: connection_string.to_owned(),
            babelfish: false,
        };
        let ask = "SELECT COALESCE(CONVERT(int, SERVERPROPERTY('babelfish')), 0)";
        program.babelfish = program.number(ask).await == 1;
        program
    }

    /// Opens another connection to the same database.
    pub(crate) async fn another(&self) -> Self {
        Self::connect(&self.connection_string).await
    }

    /// Returns the settings with which a broker connects to the database.
    pub(crate) fn settings(&self) -> Settings {
        patient_settings(&self.connection_string)
    }

    /// Runs a batch.
    pub(crate) async fn run(&self, sql: &str) {
        let ran = self.try_run(sql).await;
        ran.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    /// Runs a batch that drops tables.
    pub(crate) async fn drop_tables(&self, sql: &str) {
        drop_tables(self.run(sql)).await;
    }

    /// Runs a batch that may fail.
    pub(crate) async fn try_run(&self, sql: &str) -> Result<(), String> {
        let mut connection = self.connection.lock().await;
        let run = async { connection.simple_query(sql).await?.into_results().await };
        let results = Box::pin(run).await;
        results.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Reads the last result of a batch as text.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let mut connection = self.connection.lock().await;
        let read = async { connection.simple_query(sql).await?.into_results().await };
        let results = Box::pin(read).await;
        let results = results.unwrap_or_else(|error| panic!("{error}: {sql}"));
        let rows = results.into_iter().next_back().unwrap_or_default();
        let row = |row: tiberius::Row| row.into_iter().map(|data| text(&data)).collect();
        rows.into_iter().map(row).collect()
    }

    /// Reads the first column of each row.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.rows(sql).await.into_iter();
        rows.map(|mut row| row.remove(0)).collect()
    }

    /// Reads one number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let texts = self.texts(sql).await;
        let number = texts.first().and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("no number, {texts:?}: {sql}"))
    }

    /// Runs a schema operation, as the command line does, on a thread for blocking work.
    pub(crate) async fn schema<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut MssqlSchema) -> T + Send + 'static,
    ) -> T {
        let settings = self.settings();
        let work = move || work(&mut MssqlSchema::open(&settings).expect("a schema"));
        read_catalog(tokio::task::spawn_blocking(work))
            .await
            .expect("no panic")
    }
}

/// Returns the connection string of the server.
pub(crate) fn server() -> String {
    std::env::var("LEASE_BROKER_TEST_MSSQL").expect("a server")
}

fn text(data: &ColumnData<'static>) -> String {
    let text = match data {
        ColumnData::U8(int) => int.map(|int| int.to_string()),
        ColumnData::I16(int) => int.map(|int| int.to_string()),
        ColumnData::I32(int) => int.map(|int| int.to_string()),
        ColumnData::I64(int) => int.map(|int| int.to_string()),
        ColumnData::Bit(bit) => bit.map(|bit| u8::from(bit).to_string()),
        ColumnData::Guid(guid) => guid.map(|guid| guid.to_string()),
        ColumnData::String(text) => text.as_ref().map(ToString::to_string),
        other => panic!("the program cannot read this type: {other:?}"),
    };
    text.unwrap_or_else(|| "NULL".to_owned())
}

/// Returns settings for this connection string. Their time limits leave room for a busy server.
pub(crate) fn patient_settings(connection_string: &str) -> Settings {
    let long = Duration::from_secs(60);
    Settings {
        connect_timeout: long,
        handshake_timeout: long,
        command_timeout: long,
        ..Settings::new(connection_string)
    }
}
