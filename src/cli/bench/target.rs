//! The broker under load: one of the bench's own, or one that runs already.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use super::child::ChildBroker;
use super::child_log::Served;
use super::flags::TargetFlags;
use super::measured::Watch;
use super::usage::Pid;
use crate::cli::Failure;

/// The broker under load.
pub(super) struct Target {
    address: String,
    pub(super) queues: Vec<String>,
    pub(super) watch: Watch,
    child: Option<ChildBroker>,
    /// Removed in the end.
    folder: Option<TempDir>,
}

impl Target {
    /// Finds the broker, or starts one.
    pub(super) async fn open(flags: &TargetFlags) -> Result<Self, Failure> {
        if let Some(address) = &flags.address {
            let watch = Watch {
                broker: flags.broker_pid.map(Pid),
                file: None,
            };
            return Ok(Self {
                address: address.clone(),
                queues: vec![flags.queue.clone()],
                watch,
                child: None,
                folder: None,
            });
        }
        if let Some(config) = &flags.config {
            let child = ChildBroker::start(config, None).await?;
            return Ok(Self::own(child, vec![flags.queue.clone()], None, None));
        }
        let folder = TempDir::with_prefix("lease-broker-bench-")
            .map_err(|error| Failure::io(format!("no temporary folder: {error}")))?;
        let queues: Vec<String> = (1..=flags.queues).map(|at| format!("bench-{at}")).collect();
        let config = write_config(folder.path(), &queues, flags)?;
        let file = folder.path().join("bench.db");
        let child = ChildBroker::start(&config, Some(&file)).await?;
        Ok(Self::own(child, queues, Some(file), Some(folder)))
    }

    fn own(
        child: ChildBroker,
        queues: Vec<String>,
        file: Option<PathBuf>,
        folder: Option<TempDir>,
    ) -> Self {
        Self {
            address: child.address.clone(),
            queues,
            watch: Watch {
                broker: Some(child.pid),
                file,
            },
            child: Some(child),
            folder,
        }
    }

    /// Makes so many connections.
    pub(super) async fn connect(&self, connections: usize) -> Result<Vec<Channel>, Failure> {
        let address = &self.address;
        let endpoint = Endpoint::from_shared(address.clone())
            .map_err(|error| Failure::usage(format!("--address {address}: {error}")))?;
        let mut channels = Vec::with_capacity(connections);
        for _ in 0..connections {
            let channel = endpoint.connect().await.map_err(|error| {
                let cause = std::error::Error::source(&error)
                    .map_or(error.to_string(), ToString::to_string);
                Failure::unavailable(format!("no service answers at {address} ({cause})"))
            })?;
            channels.push(channel);
        }
        Ok(channels)
    }

    /// Ends the bench's own broker; returns what it has served.
    pub(super) async fn close(self) -> Result<Option<Served>, Failure> {
        match self.child {
            None => Ok(None),
            Some(child) => child.stop().await,
        }
    }
}

/// Writes the configuration of the bench's own broker.
fn write_config(folder: &Path, queues: &[String], flags: &TargetFlags) -> Result<PathBuf, Failure> {
    let mut text = String::new();
    for (at, queue) in queues.iter().enumerate() {
        let on_complete = match flags.on_complete {
            super::flags::OnComplete::Archive => format!("{{ archive = \"bench_{at}_archive\" }}"),
            other => format!("{:?}", other.name()),
        };
        // An item that fails is always tried again: that is what the count of them rests on.
        let _ = writeln!(
            text,
            "[queues.{queue}]\ntable = \"bench_{at}\"\nmanaged = {{ {:?} = \"text\" }}\nmax_attempts = 0\n\
             on_complete = {on_complete}",
            flags.column
        );
    }
    let file = folder.join("bench.toml");
    std::fs::write(&file, text)
        .map_err(|error| Failure::io(format!("{}: {error}", file.display())))?;
    Ok(file)
}
