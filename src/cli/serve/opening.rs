//! Opens the files, keys and databases of a new configuration in the background. One that does not answer delays no other work.

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use super::super::CommandError;
use super::super::config_args::open_store;
use super::layers::{Layers, Parts};
use super::memory_limit;
use super::reload::Way;
use crate::broker::Broker;
use crate::config::{Change, Config};
use crate::security::{Rules, Security};

/// The task that opens the files, keys and databases of a new configuration.
pub(super) type Opening = JoinHandle<Result<Opened, CommandError>>;

/// A new configuration with its files, keys and databases open. The running layers have not changed yet.
pub(super) struct Opened {
    pub(super) changes: Vec<Change>,
    /// The new identities. `None`: they have not changed.
    pub(super) rules: Option<Rules>,
    pub(super) next: Next,
}

/// The layers that serve a new configuration.
pub(super) enum Next {
    /// The running ones.
    Running(Config),
    /// New ones, of these parts.
    New(Parts),
}

/// Starts the task that opens the files, keys and databases of a new configuration.
pub(super) fn start(config: Config, changes: Vec<Change>, way: Way, running: &Layers) -> Opening {
    let (broker, security) = (running.broker.clone(), running.security.clone());
    spawn_blocking(move || {
        Handle::current().block_on(open(config, changes, way, (&broker, security)))
    })
}

async fn open(
    config: Config,
    changes: Vec<Change>,
    way: Way,
    (running, security): (&Broker, Security),
) -> Result<Opened, CommandError> {
    let has_new_rules = changes.iter().any(|change| change.key[0] == "auth");
    let rules = match (&security.access, &config.auth) {
        (Some(access), Some(auth)) if has_new_rules => {
            Some(access.prepare(auth).await.map_err(CommandError::usage)?)
        }
        (Some(_), Some(_)) | (None, None) => None,
        // Such a change has been refused. Without this, every caller could do everything.
        _ => return Err(CommandError::usage("restart the service to change auth")),
    };
    let next = match way {
        Way::InPlace => Next::Running(config),
        Way::NewLayers => {
            memory_limit::warn_if_exceeded(&config);
            // Only the running store knows whether the database went back in time. A new one would serve it.
            running.check_store().await?;
            let store = open_store(&config).await?;
            Next::New(Parts {
                config,
                store,
                security,
            })
        }
    };
    Ok(Opened {
        changes,
        rules,
        next,
    })
}
