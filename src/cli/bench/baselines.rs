//! The same load without the layers above: on the broker in this process, and on the store itself.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use tempfile::TempDir;

use super::flags::TargetFlags;
use super::layer::broker::OnBroker;
use super::layer::store::OnStore;
use super::layer::{Place, Terms};
use super::load::Load;
use super::measured::{Measured, Watch};
use super::{own, run};
use crate::broker::{self, Broker};
use crate::cli::CommandError;
use crate::store::{QueueIndex, Store};

/// What a load is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Baseline {
    /// The same server's empty call, before and after
    Noop,
    /// The broker in this process: no gRPC
    Broker,
    /// The store in this process: no gRPC and no broker
    Direct,
}

/// Runs the load on the broker in this process.
pub(super) async fn on_broker(load: &Load, flags: &TargetFlags) -> Result<Measured, CommandError> {
    let folder = folder()?;
    let (config, store) = own::fresh_store(folder.path(), flags)?;
    let settings = broker::BrokerConfig::from(&config);
    let broker = Arc::new(Broker::start(store, &config.queues, settings));
    let open = |place: Place, terms: &Terms| {
        let queue = &config.queues[place.queue].name;
        OnBroker::new(broker.clone(), place, queue, terms)
    };
    let measured = run::run("broker", load, &Watch::default(), open).await;
    broker.stop().await;
    measured
}

/// Runs the load on the store in this process.
pub(super) async fn on_store(load: &Load, flags: &TargetFlags) -> Result<Measured, CommandError> {
    let folder = folder()?;
    let (_, store) = own::fresh_store(folder.path(), flags)?;
    let open = |place: Place, terms: &Terms| OnStore::new(store.clone(), place, terms);
    let unwatched = Watch::default();
    let measured = run::run("direct", load, &unwatched, open);
    if load.mix.fail > 0.0 {
        tokio::select! {
            measured = measured => measured,
            failure = reap(&store, load.queues) => Err(failure),
        }
    } else {
        measured.await
    }
}

/// Makes failed items ready again, as a broker would; ends only if that fails.
async fn reap(store: &Arc<dyn Store>, queues: usize) -> CommandError {
    const EVERY: Duration = Duration::from_millis(10);
    const ROWS: usize = 500;
    loop {
        for queue in 0..queues {
            if let Err(error) = store.reap(QueueIndex(queue), ROWS).await {
                return error.into();
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn folder() -> Result<TempDir, CommandError> {
    TempDir::with_prefix("lease-broker-bench-")
        .map_err(|error| CommandError::io(format!("no temporary folder: {error}")))
}
