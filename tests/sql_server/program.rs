//! Another program on a test's database: plain T-SQL, for what a harness has no words for.

use lease_broker::store::mssql::{MssqlSchema, Settings};
use lease_broker::store::schema::Step;
use tiberius::{Client, ColumnData, Config};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};

use crate::harness::mssql::MssqlHarness;
use crate::harness::{Harness as _, can_run};
use crate::skipped::skipped;

/// A connection of its own, and the way to the test's database.
pub(crate) struct Program {
    connection: Mutex<Client<Compat<TcpStream>>>,
    pub(crate) connection_string: String,
    /// Whether the server is Babelfish, which lacks much of what SQL Server has.
    pub(crate) babelfish: bool,
}

/// Makes a database and connects another program to it; none, said aloud, where there is no server.
pub(crate) async fn start() -> Option<(MssqlHarness, Program)> {
    if !can_run::<MssqlHarness>() {
        return None;
    }
    let harness = MssqlHarness::start().await;
    let program = Program::on(&harness).await;
    Some((harness, program))
}

/// The same for what Babelfish lacks; none, said aloud, where the server is Babelfish.
pub(crate) async fn start_on_sql_server(lacks: &str) -> Option<(MssqlHarness, Program)> {
    let (harness, program) = start().await?;
    if program.babelfish {
        let test = std::thread::current();
        let test = test.name().unwrap_or("a test");
        skipped(&format!("{test}: Babelfish has no {lacks}"));
        return None;
    }
    Some((harness, program))
}

impl Program {
    /// Connects to the harness's database, whose name only the database knows.
    async fn on(harness: &MssqlHarness) -> Self {
        let tell = Step {
            purpose: "tell the database's name".to_owned(),
            sql: "CREATE TABLE whereabouts (name nvarchar(128) NOT NULL);
                INSERT whereabouts (name) SELECT DB_NAME()"
                .to_owned(),
            until_no_rows: false,
        };
        harness.run(&tell).await.expect("a table");
        let name = harness.rows("whereabouts", &["name"]).await;
        harness.drop_table("whereabouts").await;
        let [lease_broker::value::Value::Text(name)] = &*name[0] else {
            panic!("no name: {name:?}");
        };
        Self::connect(&format!("{};database={name}", server())).await
    }

    /// Connects.
    pub(crate) async fn connect(connection_string: &str) -> Self {
        let config = Config::from_ado_string(connection_string).expect("a connection string");
        let stream = TcpStream::connect(config.get_addr()).await;
        let stream = stream.expect("a server").compat_write();
        // The driver's futures are large.
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

    /// One more connection to the same database.
    pub(crate) async fn another(&self) -> Self {
        Self::connect(&self.connection_string).await
    }

    /// How a broker reaches the database.
    pub(crate) fn settings(&self) -> Settings {
        Settings::new(self.connection_string.clone())
    }

    /// Runs a batch.
    pub(crate) async fn run(&self, sql: &str) {
        let ran = self.try_run(sql).await;
        ran.unwrap_or_else(|error| panic!("{error}: {sql}"));
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

    /// Works on the schema, as the command line does.
    pub(crate) async fn schema<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut MssqlSchema) -> T + Send + 'static,
    ) -> T {
        let settings = self.settings();
        let work = move || work(&mut MssqlSchema::open(&settings).expect("a schema"));
        tokio::task::spawn_blocking(work).await.expect("no panic")
    }
}

/// The connection string of the server that the tests use.
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
        other => panic!("no test reads this type: {other:?}"),
    };
    text.unwrap_or_else(|| "NULL".to_owned())
}
