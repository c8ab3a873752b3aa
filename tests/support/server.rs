//! A broker and its gRPC server inside the test process.
//!
//! Each server has a `SQLite` file in its own temporary folder. Dropping the server deletes the folder.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lease_broker::broker::{self, Broker};
use lease_broker::config::{Config, Flag, Sources};
use lease_broker::grpc::{self, RunningServer};
use lease_broker_store::schema::Schema as _;
use lease_broker_store::sqlite::{Clock, SqliteSchema, SqliteStore, system_clock};
use lease_broker_store::{Instance, Upkeep as _};
use rusqlite::Connection;
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint};

use super::client::Client;
use super::database;
use super::timeout::{wait_until, with_timeout};

/// Configuration of the queue `work`. A failed item is ready again immediately.
pub(crate) const QUEUE: &str = "
[queues.work]
managed_columns = { payload = \"text\" }
backoff = { initial = \"0s\", factor = 1.0, max = \"0s\", jitter = 0.0 }
";

/// A lease id of a version that this broker does not know.
pub(crate) const NEWER_LEASE_ID: &str = "BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

pub(crate) struct Server {
    folder: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) config: Config,
    serving: Option<RunningServer>,
    broker: Option<Arc<Broker>>,
}

impl Server {
    /// Starts with the queue of [`QUEUE`].
    pub(crate) async fn start() -> Self {
        Self::with_config(QUEUE).await
    }

    /// Starts with settings given as TOML. All other settings have their defaults.
    pub(crate) async fn with_config(toml: &str) -> Self {
        Self::start_prepared(toml, |_| ()).await
    }

    /// Creates tables with this SQL, as another program would, adopts them as queues and starts.
    pub(crate) async fn with_tables(toml: &str, sql: &str) -> Self {
        Self::start_prepared(toml, |config| {
            let file = &config.store.path;
            database::open(file)
                .execute_batch(sql)
                .expect("the tables are created");
            let mut schema = SqliteSchema::open(file).expect("the schema opens");
            for queue in &config.queues {
                for step in schema.plan(queue).expect("the changes are planned") {
                    schema
                        .apply(&step, &mut |_| ())
                        .expect("the change is applied");
                }
            }
        })
        .await
    }

    /// Calls `prepare` with the configuration before the store is opened, and starts.
    async fn start_prepared(toml: &str, prepare: impl FnOnce(&Config)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let config = configure(&folder, toml, &folder.path().join("queues.db"));
        prepare(&config);
        Self::serve(folder, config, system_clock()).await
    }

    /// Starts with settings given as TOML and this clock of the store.
    pub(crate) async fn with_clock(toml: &str, clock: Clock) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let config = configure(&folder, toml, &folder.path().join("queues.db"));
        Self::serve(folder, config, clock).await
    }

    /// Starts another broker with its own server on the same database. It must not outlive this server.
    pub(crate) async fn another(&self) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        Self::serve(folder, self.config.clone(), system_clock()).await
    }

    /// Does the same as [`Self::another`] with other settings.
    pub(crate) async fn another_with_config(&self, toml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let config = configure(&folder, toml, &self.file());
        Self::serve(folder, config, system_clock()).await
    }

    async fn serve(folder: tempfile::TempDir, config: Config, clock: Clock) -> Self {
        let store = SqliteStore::open(&config.store.path, &config.queues, clock);
        let store = Arc::new(store.expect("the store opens"));
        let broker_config = broker::BrokerConfig::from(&config);
        let broker = Arc::new(Broker::start(store, &config.queues, broker_config));
        let listener = TcpListener::bind(config.server.listen).await;
        let listener = listener.expect("a port is free");
        let serving = grpc::serve(listener, broker.clone(), &config).expect("the server starts");
        Self {
            folder,
            address: serving.address(),
            config,
            serving: Some(serving),
            broker: Some(broker),
        }
    }

    /// Returns the broker. Panics after [`Server::drain`].
    /// Starts a second broker on the same file, which sees that a third one of a newer version runs.
    pub(crate) async fn another_beside_newer_version(&self) -> Self {
        let store = SqliteStore::open(&self.file(), &[], system_clock()).expect("the file");
        let newer = Instance {
            id: uuid::Uuid::new_v4(),
            version: "99.0.0".to_owned(),
            address: "elsewhere:1".to_owned(),
            draining: false,
            settings: BTreeMap::default(),
            activity: std::collections::BTreeMap::new(),
        };
        store.announce(newer.into()).await.expect("announced");
        let server = self.another().await;
        server.broker().announce(broker::Identity {
            id: uuid::Uuid::new_v4(),
            address: server.address.to_string(),
        });
        let client = server.client().await;
        wait_until("the broker sees the newer one", async || {
            client.try_heartbeat(&[NEWER_LEASE_ID], None).await.is_err()
        })
        .await;
        server
    }

    pub(crate) fn broker(&self) -> &Broker {
        self.broker.as_deref().expect("the broker runs")
    }

    /// Connects a client of the first queue.
    pub(crate) async fn client(&self) -> Client {
        Client::new(self.channel().await, &self.config.queues[0].name)
    }

    /// Opens a new connection.
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let endpoint = endpoint.expect("the URL is valid");
        endpoint
            .connect()
            .await
            .expect("the server accepts the connection")
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.config.store.path.clone()
    }

    /// Opens the database file as another program would.
    pub(crate) fn database(&self) -> Connection {
        database::open(&self.file())
    }

    /// Stops the server but not the broker. Calls that are still running keep the broker. Returns whether all calls
    /// ended.
    pub(crate) async fn stop_serving(&mut self) -> bool {
        self.serving
            .take()
            .expect("the server is running")
            .drain()
            .await
    }

    /// Starts to drain. The future ends when server and broker have stopped, and returns whether all calls ended.
    pub(crate) fn drain(&mut self) -> impl Future<Output = bool> + use<> {
        let serving = self.serving.take().expect("the server is running");
        let broker = self.broker.take();
        async move {
            let all_calls_ended = serving.drain().await;
            if let Some(broker) = broker {
                with_timeout(broker.stop()).await;
            }
            all_calls_ended
        }
    }
}

fn configure(folder: &tempfile::TempDir, toml: &str, store: &Path) -> Config {
    let file = folder.path().join("config.toml");
    std::fs::write(&file, toml).expect("the configuration file is written");
    let sources = Sources {
        file: Some(file),
        environment: Vec::new(),
        flags: vec![
            Flag {
                name: "--store",
                key: &["store", "path"],
                value: store.to_str().expect("the path is UTF-8").into(),
            },
            Flag {
                name: "--listen",
                key: &["server", "listen"],
                value: "127.0.0.1:0".into(),
            },
        ],
        ..Sources::default()
    };
    sources
        .load()
        .unwrap_or_else(|error| panic!("the configuration of the test is invalid: {error}"))
}
