//! A broker with its gRPC server in the process of the test, on a T-SQL store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_broker::broker::{self, Broker};
use lease_broker::config::{Config, Sources};
use lease_broker::grpc::{self, RunningServer};
use lease_broker_store::mssql::{MssqlStore, Settings};
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::harness::mssql::read_catalog;
use crate::harness::program::patient_settings;
use crate::support::client::Client;
use crate::support::timeout::{TEST_TIMEOUT, with_timeout};

/// Maximum number of connections of the broker, without the one of the probe.
pub(crate) const CONNECTIONS: usize = 4;

const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'nvarchar(50)' }
backoff = { initial = '0s', factor = 1.0, max = '0s', jitter = 0.0 }
max_attempts = 0
";

pub(crate) struct Service {
    pub(crate) address: std::net::SocketAddr,
    serving: RunningServer,
    broker: Arc<Broker>,
}

impl Service {
    /// Starts with one managed queue, `work`.
    pub(crate) async fn start(connection_string: &str) -> Self {
        Self::with_settings(patient_settings(connection_string)).await
    }

    /// Does the same as [`Self::start`] with these time limits.
    pub(crate) async fn with_settings(settings: Settings) -> Self {
        let config = configuration();
        let settings = Settings {
            max_connections: CONNECTIONS,
            ..settings
        };
        let store = read_catalog(MssqlStore::open(&settings, &config.queues)).await;
        let store = Arc::new(store.expect("a store"));
        let settings = broker::BrokerConfig::from(&config);
        let broker = Arc::new(Broker::start(store, &config.queues, settings));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let serving = grpc::serve(listener, broker.clone(), &config);
        let serving = serving.expect("a server");
        Self {
            address: serving.address(),
            serving,
            broker,
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let connected = endpoint.expect("an address").connect().await;
        connected.expect("a connection")
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(self.channel().await, "work")
    }

    pub(crate) async fn stop(self) {
        self.serving.drain().await;
        with_timeout(self.broker.stop()).await;
    }
}

/// Repeats a call while it fails with UNAVAILABLE. A busy server may take longer than the timeout of the broker.
pub(crate) async fn retry_while_unavailable<T, Answer>(call: impl Fn() -> Answer) -> T
where
    Answer: Future<Output = Result<T, Status>>,
{
    let start = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(status) if status.code() == Code::Unavailable && start.elapsed() < TEST_TIMEOUT => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(status) => panic!("{status:?}"),
        }
    }
}

fn configuration() -> Config {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.toml");
    std::fs::write(&file, QUEUES).expect("a file");
    let sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
    let loaded = sources.load();
    loaded.unwrap_or_else(|error| panic!("the test's configuration: {error}"))
}
