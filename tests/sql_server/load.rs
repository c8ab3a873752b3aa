//! A large table on SQL Server, and one round of every operation on it.

use lease_broker_model::queue::QueueSpec;
use uuid::Uuid;

use crate::harness::fixture::{Fixture, HOUR, complete, fail, queue, release};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start_on_sql_server};
use crate::sql_server::statements::statement;

/// Number of items of a large claim.
pub(crate) const MANY: usize = 1_000;

/// A queue with 40,000 rows, of which half are ready and half are dead.
pub(crate) struct Load {
    pub(crate) fixture: Fixture<MssqlHarness>,
    pub(crate) program: Program,
    pub(crate) database: String,
}

impl Load {
    /// Creates the table with these columns. `None`: there is no SQL Server. `feature`: what Babelfish lacks.
    pub(crate) async fn start(feature: &str, columns: &str) -> Option<Self> {
        let (harness, program) = Box::pin(start_on_sql_server(feature)).await?;
        program.run(&format!("CREATE TABLE item ({columns})")).await;
        let mut spec: QueueSpec = queue("item");
        spec.retry.max_attempts = None;
        let fixture = Box::pin(Fixture::adopt(harness, vec![spec])).await;
        program.run(&statement("many_rows")).await;
        program.run(&statement("options_of_xml_methods")).await;
        let mut name = program.texts("SELECT DB_NAME()").await;
        Some(Self {
            fixture,
            program,
            database: name.remove(0),
        })
    }

    /// Runs each operation with `count` items.
    pub(crate) async fn run(&self, count: usize) {
        let broker = &self.fixture;
        let items = broker.claim(count).await;
        assert_eq!(items.len(), count);
        let requested = broker.request(Uuid::new_v4(), count).await;
        assert_eq!(requested.len(), count);
        let held = broker.heartbeat(&items[0].lease, HOUR).await;
        assert!(held.is_some());
        let endings = items.iter().enumerate().map(|(index, item)| {
            let ending = match index % 3 {
                0 => complete(),
                1 => fail(Some(HOUR)),
                _ => release(HOUR),
            };
            (&item.lease, ending)
        });
        let settled = broker.try_settle(endings.collect()).await;
        settled.expect("settled");
        broker.advance(2 * HOUR).await;
        broker.reap(count).await;
        assert_eq!(broker.redrive(count).await, count);
    }
}
