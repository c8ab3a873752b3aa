//! The broker under load: one of the bench's own, or one that runs already.

use std::path::Path;

use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use super::child::ChildBroker;
use super::child_log::Served;
use super::flags::TargetFlags;
use super::measured::Watch;
use super::own;
use super::stock::Stock;
use super::usage::Pid;
use crate::cli::CommandError;
use crate::config::{Config, StoreKind};

/// The broker under load.
pub(super) struct Target {
    address: String,
    pub(super) queues: Vec<String>,
    pub(super) watch: Watch,
    /// None where the broker runs already.
    own: Option<Own>,
    /// Whether nobody else can use the queues.
    pub(super) alone: bool,
}

/// A broker of the bench's own.
struct Own {
    child: ChildBroker,
    config: Config,
    before: Stock,
    /// Removed in the end.
    _folder: Option<TempDir>,
}

/// What is known once the broker has ended.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) served: Option<Served>,
    /// What its store had before and after.
    pub(super) stock: Option<[Stock; 2]>,
}

impl Target {
    /// Finds the broker, or starts one.
    pub(super) async fn open(flags: &TargetFlags) -> Result<Self, CommandError> {
        if let Some(address) = &flags.address {
            return Ok(Self {
                address: with_scheme(address),
                queues: vec![flags.queue.clone()],
                watch: Watch {
                    broker: flags.broker_pid.map(Pid),
                    file: None,
                },
                own: None,
                alone: false,
            });
        }
        if let Some(file) = &flags.config {
            return Self::start(file, None, vec![flags.queue.clone()], None).await;
        }
        let folder = TempDir::with_prefix("lease-broker-bench-")
            .map_err(|error| CommandError::io(format!("no temporary folder: {error}")))?;
        let config = own::write_config(folder.path(), flags)?;
        let store = folder.path().join("bench.db");
        Self::start(&config, Some(&store), own::queues(flags), Some(folder)).await
    }

    async fn start(
        file: &Path,
        store: Option<&Path>,
        queues: Vec<String>,
        folder: Option<TempDir>,
    ) -> Result<Self, CommandError> {
        let config = own::read_config(file, store)?;
        let child = ChildBroker::start(file, store).await?;
        Ok(Self {
            address: child.address.clone(),
            watch: Watch {
                broker: Some(child.pid),
                file: (config.store.kind == StoreKind::Sqlite).then(|| config.store.path.clone()),
            },
            alone: folder.is_some(),
            own: Some(Own {
                child,
                before: Stock::take(&config, &queues).await?,
                config,
                _folder: folder,
            }),
            queues,
        })
    }

    /// Returns the kind of store, where it is known.
    pub(super) fn store(&self) -> Option<&'static str> {
        let own = self.own.as_ref()?;
        Some(match own.config.store.kind {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Mssql => "mssql",
        })
    }

    /// Makes so many connections.
    pub(super) async fn connect(&self, connections: usize) -> Result<Vec<Channel>, CommandError> {
        let address = &self.address;
        let endpoint = Endpoint::from_shared(address.clone())
            .map_err(|error| CommandError::usage(format!("--address {address}: {error}")))?
            .tcp_nodelay(true);
        let mut channels = Vec::with_capacity(connections);
        for _ in 0..connections {
            let channel = endpoint.connect().await.map_err(|error| {
                let cause = std::error::Error::source(&error)
                    .map_or(error.to_string(), ToString::to_string);
                CommandError::unavailable(format!("no service answers at {address} ({cause})"))
            })?;
            channels.push(channel);
        }
        Ok(channels)
    }

    /// Ends the bench's own broker, and asks its store what it has.
    pub(super) async fn close(self) -> Result<Ended, CommandError> {
        let Some(own) = self.own else {
            return Ok(Ended::default());
        };
        let served = own.child.stop().await?;
        let after = Stock::take(&own.config, &self.queues).await?;
        Ok(Ended {
            served,
            stock: Some([own.before, after]),
        })
    }
}

fn with_scheme(address: &str) -> String {
    if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    }
}
