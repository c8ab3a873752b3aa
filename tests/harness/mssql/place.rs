//! Where a test takes place: a database with its open connections, which tests use in turn. A server may need far longer
//! for the first statements of a session than for all of a test (Babelfish: more than a second).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker::store::mssql::{MssqlSchema, Pool, Settings};

use tokio::sync::RwLock;

use super::database::{self, Connection, Database};
use super::janitor;

/// Held to drop tables, and shared to read the catalogue: Babelfish fails to, in one database, while a table of another one
/// is dropped.
pub(super) static DROPS: RwLock<()> = RwLock::const_new(());
/// Those that no test uses.
static FREE: Mutex<Vec<Place>> = Mutex::new(Vec::new());
/// The connections of a test's brokers together: as many as the most operations that a test runs at once, so that none
/// waits for another's.
const CONNECTIONS: usize = 16;

pub(super) struct Place {
    pub(super) settings: Settings,
    /// Another program's.
    pub(super) connection: tokio::sync::Mutex<Connection>,
    /// None before it is needed, and after an error.
    pub(super) schema: Arc<Mutex<Option<MssqlSchema>>>,
    /// The brokers'.
    pub(super) connected: Pool,
}

impl Place {
    /// Takes a free place and empties it, or makes one.
    pub(super) async fn take(server: &str) -> Self {
        let free = FREE.lock().expect("nobody panics while it is held").pop();
        let Some(mut place) = free else {
            return Self::make(server).await;
        };
        let _tables = DROPS.write().await;
        let emptied = database::empty(place.connection.get_mut()).await;
        emptied.expect("all tables can be dropped");
        place
    }

    async fn make(server: &str) -> Self {
        let database = Database::create(server).await;
        janitor::entrust(&database);
        let mut settings = Settings::new(database.connection_string());
        // A server that all tests share is slow, and that is not what they are about.
        settings.command_timeout = Duration::from_secs(120);
        settings.max_connections = CONNECTIONS;
        Self {
            connection: database.connect().await.into(),
            schema: Arc::default(),
            connected: Pool::new(&settings).expect("a pool"),
            settings,
        }
    }

    /// Leaves it to the next test.
    pub(super) fn leave(self) {
        if let Ok(mut free) = FREE.lock() {
            free.push(self);
        }
    }
}
