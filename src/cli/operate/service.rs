//! A running service that commands for operators call, at one address or at several.

use lease_broker_proto::admin_service_client::AdminServiceClient;
use parking_lot::Mutex;

use crate::cli::client_args::ClientArgs;
use crate::cli::command_error::CommandError;
use crate::cli::connect::Attempts;
use crate::cli::connection::Connection;

pub(super) type Client = AdminServiceClient<Connection>;

/// A running service. If it has several addresses, the call after an outage connects again, to the first address that answers.
/// Otherwise a command that waits would ask a broker that is gone until it gives up, although another one runs.
pub(super) struct Service {
    args: ClientArgs,
    /// `None`: the next call connects.
    client: Mutex<Option<Client>>,
}

impl Service {
    /// Connects to the service. Tries until the timeout has passed.
    pub(super) async fn connect(args: &ClientArgs) -> Result<Self, CommandError> {
        let client = args.connect_admin(Attempts::UntilLimit).await?;
        Ok(Self {
            args: args.clone(),
            client: Mutex::new(Some(client)),
        })
    }

    /// Returns the client for the next call.
    pub(super) async fn client(&self) -> Result<Client, CommandError> {
        if let Some(client) = &*self.client.lock() {
            return Ok(client.clone());
        }
        let client = self.args.connect_admin(Attempts::One).await?;
        *self.client.lock() = Some(client.clone());
        Ok(client)
    }

    /// Notes that a call has failed because of an outage. A connection to a single address is made again by itself.
    pub(super) fn note_outage(&self) {
        if self.args.has_several_addresses() {
            *self.client.lock() = None;
        }
    }
}
