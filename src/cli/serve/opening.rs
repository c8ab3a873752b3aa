//! Opens the files, keys and databases of a new configuration in the background. One that does not answer delays no other work.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use super::super::CommandError;
use super::super::config_args::open_store;
use super::layers::{Layers, Parts};
use super::memory_limit;
use super::reload::Way;
use crate::config::{Change, Config};
use crate::security::{Access, Rules, Security, ServerTls};

/// The task that opens the files, keys and databases of a new configuration.
pub(super) type Opening = JoinHandle<Result<Opened, CommandError>>;

/// A new configuration with its files, keys and databases open. The running layers have not changed yet.
pub(super) struct Opened {
    pub(super) changes: Vec<Change>,
    /// The identities for the running layers. `None`: they have not changed.
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
    let (access, tls) = (running.access.clone(), running.tls.clone());
    spawn_blocking(move || Handle::current().block_on(open(config, changes, way, access, tls)))
}

/// `access` and `tls`: those of the running layers.
async fn open(
    config: Config,
    changes: Vec<Change>,
    way: Way,
    access: Option<Arc<Access>>,
    tls: Option<Arc<ServerTls>>,
) -> Result<Opened, CommandError> {
    let has_new_rules = changes.iter().any(|change| change.key[0] == "auth");
    let rules = match (&access, &config.auth) {
        (Some(access), Some(auth)) if has_new_rules => {
            Some(access.prepare(auth).await.map_err(CommandError::usage)?)
        }
        _ => None,
    };
    let next = match way {
        Way::InPlace => Next::Running(config),
        Way::NewLayers => {
            let security = Security::open_next(&config, tls, access.as_deref()).await;
            let security = security.map_err(CommandError::usage)?;
            memory_limit::warn_if_exceeded(&config);
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
