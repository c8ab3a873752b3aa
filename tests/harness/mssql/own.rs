//! A database for programs that the tests start: made empty, dropped when the test run has ended.

use super::database::Database;
use super::{SERVER, janitor, runtime};

/// Not to be used within a runtime.
pub(crate) struct OwnDatabase(Database);

impl OwnDatabase {
    pub(crate) fn create() -> Self {
        let server = std::env::var(SERVER).expect(SERVER);
        let database = runtime::new().block_on(Box::pin(Database::create(&server)));
        janitor::entrust(&database);
        Self(database)
    }

    pub(crate) fn connection_string(&self) -> String {
        self.0.connection_string()
    }

    /// Runs a batch over a connection of its own.
    pub(crate) fn run(&self, batch: &str) {
        let run = async {
            let mut connection = self.0.connect().await;
            let results = connection.simple_query(batch).await?.into_results().await;
            results.map(|_| ())
        };
        let ran: tiberius::Result<()> = runtime::new().block_on(Box::pin(run));
        ran.unwrap_or_else(|error| panic!("{error}: {batch}"));
    }
}
