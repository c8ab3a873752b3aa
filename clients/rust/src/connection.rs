//! Connections that several workers share, with the threads on which they run.

use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::credentials::Credentials;
use super::errors::WorkerError;
use super::transport::{Addresses, Transport};

/// A connection to the brokers that several workers share, each with a queue of its own: one thread and one connection for claims and
/// settlements, and one of each for heartbeats. A clone is another handle. They end with the last handle and the last worker.
#[derive(Clone)]
pub struct Connection {
    pub(super) address: String,
    pub(super) calls: Arc<Link>,
    pub(super) keep: Arc<Link>,
}

/// A connection, and the thread that uses it.
pub(super) struct Link {
    pub(super) transport: Transport,
    runtime: Handle,
    /// Ends the thread.
    _stop: DropGuard,
}

impl Connection {
    /// Returns a connection that connects with the first call. The address is as for [`Worker::new`](crate::Worker::new).
    ///
    /// # Errors
    /// The address or the credentials are malformed, or would send plaintext to another machine.
    pub fn new(address: &str, credentials: Credentials) -> Result<Self, WorkerError> {
        let addresses = Addresses::parse(address, credentials)?;
        Ok(Self {
            address: address.to_owned(),
            calls: Arc::new(Link::new("lease-broker call", addresses.clone())?),
            keep: Arc::new(Link::new("lease-broker keep", addresses)?),
        })
    }
}

impl Link {
    fn new(name: &str, addresses: Addresses) -> Result<Self, WorkerError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| internal("an async runtime", &error))?;
        let stop = CancellationToken::new();
        let link = Self {
            transport: Transport::new(addresses),
            runtime: runtime.handle().clone(),
            _stop: stop.clone().drop_guard(),
        };
        let run = move || runtime.block_on(stop.cancelled_owned());
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        thread.map_err(|error| internal("a thread", &error))?;
        Ok(link)
    }

    /// Runs a task on the thread. The token is cancelled when the task ends, also by a panic.
    pub(super) fn spawn(
        self: &Arc<Self>,
        ended: CancellationToken,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let link = self.clone();
        self.runtime.spawn(async move {
            let (_link, _ended) = (link, ended.drop_guard());
            task.await;
        });
    }
}

pub(super) fn internal(what: &str, error: &dyn std::error::Error) -> WorkerError {
    WorkerError::Internal(format!("cannot start {what}: {error}"))
}
