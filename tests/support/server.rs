//! A server within the test's own process, on a `SQLite` file in a folder of its own that goes away with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lease_broker::broker::{self, Broker};
use lease_broker::config::{Config, Flag, Sources};
use lease_broker::grpc::{self, RunningServer};
use lease_broker::store::schema::Schema as _;
use lease_broker::store::sqlite::{SqliteSchema, SqliteStore, system_clock};
use rusqlite::Connection;
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint};

use super::client::Client;
use super::database;

/// A queue whose leases may be short and whose failures come back at once.
pub(crate) const QUEUE: &str = "
[queues.work]
managed = { payload = \"text\" }
backoff = { initial = \"0s\", factor = 1.0, max = \"0s\", jitter = 0.0 }
";

pub(crate) struct Server {
    folder: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) config: Config,
    serving: Option<RunningServer>,
    broker: Option<Arc<Broker>>,
}

impl Server {
    /// Starts with one queue, `work`.
    pub(crate) async fn start() -> Self {
        Self::with_config(QUEUE).await
    }

    /// Starts with the configuration given as TOML, over the defaults.
    pub(crate) async fn with_config(toml: &str) -> Self {
        Self::start_prepared(toml, |_| ()).await
    }

    /// Starts on tables that another program has made with this SQL, once they are adopted.
    pub(crate) async fn with_tables(toml: &str, sql: &str) -> Self {
        Self::start_prepared(toml, |config| {
            let file = &config.store.path;
            database::open(file).execute_batch(sql).expect("tables");
            let mut schema = SqliteSchema::open(file).expect("a schema");
            for queue in &config.queues {
                for step in schema.plan(queue).expect("a plan") {
                    schema.apply(&step, &mut |_| ()).expect("a step");
                }
            }
        })
        .await
    }

    async fn start_prepared(toml: &str, prepare: impl FnOnce(&Config)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = configure(&folder, toml, &folder.path().join("queues.db"));
        prepare(&config);
        let store = SqliteStore::open(&config.store.path, &config.queues, system_clock());
        let store = Arc::new(store.expect("a store"));
        let settings = broker::BrokerConfig::from(&config);
        let broker = Arc::new(Broker::start(store, &config.queues, settings));
        let listener = TcpListener::bind(config.server.listen).await;
        let listener = listener.expect("a free port");
        let serving = grpc::serve(listener, broker.clone(), &config.server).expect("a server");
        Self {
            folder,
            address: serving.address(),
            config,
            serving: Some(serving),
            broker: Some(broker),
        }
    }

    /// Connects a client that works on the first queue.
    pub(crate) async fn client(&self) -> Client {
        Client::new(self.channel().await, &self.config.queues[0].name)
    }

    /// Opens a connection of its own.
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let endpoint = endpoint.expect("an address");
        endpoint.connect().await.expect("a connection")
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.config.store.path.clone()
    }

    /// Opens the file as another program would.
    pub(crate) fn database(&self) -> Connection {
        database::open(&self.file())
    }

    /// Stops the server, and leaves the broker to whatever calls are left.
    pub(crate) async fn stop_serving(&mut self) -> bool {
        self.serving.take().expect("serving").drain().await
    }

    /// Starts to stop; the future ends when the server has.
    pub(crate) fn drain(&mut self) -> impl Future<Output = bool> + use<> {
        let serving = self.serving.take().expect("serving");
        let broker = self.broker.take();
        async move {
            let all = serving.drain().await;
            if let Some(broker) = broker {
                let stopped = tokio::time::timeout(Duration::from_secs(20), broker.stop()).await;
                stopped.expect("the broker stops");
            }
            all
        }
    }
}

fn configure(folder: &tempfile::TempDir, toml: &str, store: &Path) -> Config {
    let file = folder.path().join("config.toml");
    std::fs::write(&file, toml).expect("a configuration file");
    let sources = Sources {
        file: Some(file),
        environment: Vec::new(),
        flags: vec![
            Flag {
                name: "--store",
                key: &["store", "path"],
                value: store.to_str().expect("a path").into(),
            },
            Flag {
                name: "--listen",
                key: &["server", "listen"],
                value: "127.0.0.1:0".into(),
            },
        ],
    };
    sources
        .load()
        .unwrap_or_else(|error| panic!("the test's configuration: {error}"))
}
