//! A database for programs that a test starts as processes. It starts empty and is dropped when the test run has ended.

use super::database::Database;
use super::{SERVER, cleanup, runtime};

/// An own database for one test. Its methods block, so a test must not call them inside a tokio runtime.
pub(crate) struct ProgramDatabase(Database);

impl ProgramDatabase {
    pub(crate) fn create() -> Self {
        let server = std::env::var(SERVER).expect(SERVER);
        let database = runtime::new().block_on(Box::pin(Database::create(&server)));
        cleanup::drop_after_run(&database);
        Self(database)
    }

    pub(crate) fn connection_string(&self) -> String {
        self.0.connection_string()
    }

    /// Runs a batch on a new connection.
    pub(crate) fn run(&self, batch: &str) {
        let execute = async {
            let mut connection = self.0.connect().await;
            let results = connection.simple_query(batch).await?.into_results().await;
            results.map(|_| ())
        };
        let outcome: tiberius::Result<()> = runtime::new().block_on(Box::pin(execute));
        outcome.unwrap_or_else(|error| panic!("{error}: {batch}"));
    }
}
