//! Test databases with open connections. One test at a time uses a database, and the next test reuses it.
//!
//! The first statements of a session can take longer than the rest of a test (more than a second on Babelfish), so
//! tests pass the connections on with the database.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker_store::mssql::{MssqlSchema, Pool, Settings};
use tokio::sync::RwLock;

use super::cleanup;
use super::database::{self, Connection, Database};

/// Locked for writing to drop tables, and for reading to read the catalog. On Babelfish, reading the catalog of one database
/// fails while a table of another database is dropped.
pub(super) static TABLE_DROPS: RwLock<()> = RwLock::const_new(());
/// The databases that no test uses at the moment.
static UNUSED: Mutex<Vec<PooledDatabase>> = Mutex::new(Vec::new());
/// Maximum number of connections that all brokers of a test share. No test runs more operations at the same time, so no
/// operation waits for a connection.
const CONNECTIONS: usize = 16;

pub(super) struct PooledDatabase {
    pub(super) settings: Settings,
    /// The connection of the harness, which acts as another program on the database.
    pub(super) connection: tokio::sync::Mutex<Connection>,
    /// `None` before the first use, and after an error.
    pub(super) schema: Arc<Mutex<Option<MssqlSchema>>>,
    /// The connections of the brokers.
    pub(super) pool: Pool,
}

impl PooledDatabase {
    /// Takes an unused database and drops its tables, or creates a database.
    pub(super) async fn take(server: &str) -> Self {
        let unused = UNUSED
            .lock()
            .expect("no test panics while it holds the lock")
            .pop();
        let Some(mut database) = unused else {
            return Self::create(server).await;
        };
        let _lock = TABLE_DROPS.write().await;
        let emptied = database::empty(database.connection.get_mut()).await;
        emptied.expect("all tables can be dropped");
        database
    }

    async fn create(server: &str) -> Self {
        let database = Database::create(server).await;
        cleanup::drop_after_run(&database);
        let mut settings = Settings::new(database.connection_string());
        // All tests share one server, so it can be slow. Tests of timeouts are elsewhere.
        settings.handshake_timeout = Duration::from_secs(60);
        settings.command_timeout = Duration::from_secs(120);
        settings.max_connections = CONNECTIONS;
        Self {
            connection: database.connect().await.into(),
            schema: Arc::default(),
            pool: Pool::new(&settings).expect("a pool"),
            settings,
        }
    }

    /// Makes the database available to the next test.
    pub(super) fn give_back(self) {
        if let Ok(mut unused) = UNUSED.lock() {
            unused.push(self);
        }
    }
}
