//! Arguments of the commands that call a running service: its address, credentials, the timeout, the output format.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use clap::Args;
use lease_broker_proto::admin_service_client::AdminServiceClient;
use lease_broker_proto::lease_service_client::LeaseServiceClient;

use super::CommandError;
use super::connect::Attempts;
use super::connection::Connection;
use super::credential_args::CredentialArgs;
use super::output::OutputFormat;

/// The address that `serve` listens on by default.
pub(super) const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 50_051));
/// Environment variable that stands for `--address`.
pub(super) const ADDRESS: &str = "LEASE_BROKER_ADDRESS";

/// Arguments of every command that calls a running service.
#[derive(Clone, Debug, Args)]
pub(super) struct ClientArgs {
    // Not a doc comment, because the URL in it is no link.
    #[arg(
        long,
        value_name = "URL",
        env = ADDRESS,
        help = "URL of the service, or several with commas between them. https:// encrypts the connection \
                [default: http://127.0.0.1:50051]"
    )]
    address: Option<String>,
    /// Maximum time to connect, and maximum duration of a call
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
    pub(super) timeout: Duration,
    /// Output format. JSON has one object per line. docs/observability.md lists the fields
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(super) output: OutputFormat,
    #[command(flatten)]
    credentials: CredentialArgs,
}

impl ClientArgs {
    /// Returns the address as the user gave it. `None`: it is that of a service on this host.
    pub(super) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Returns the arguments for a service at another address.
    pub(super) fn at(&self, address: String) -> Self {
        Self {
            address: Some(address),
            ..self.clone()
        }
    }

    /// Connects to the service. Tries until the timeout has passed. Each call on the connection fails after the timeout plus
    /// `wait`, which is the time that the service itself may wait before it answers.
    pub(super) async fn connect(
        &self,
        wait: Duration,
    ) -> Result<LeaseServiceClient<Connection>, CommandError> {
        let connection = self.connection(wait, Attempts::UntilLimit).await?;
        Ok(LeaseServiceClient::new(connection).max_decoding_message_size(usize::MAX))
    }

    /// Returns whether the service has several addresses.
    pub(super) fn has_several_addresses(&self) -> bool {
        self.address().is_some_and(|address| address.contains(','))
    }

    /// Connects for the calls of operators.
    pub(super) async fn connect_admin(
        &self,
        attempts: Attempts,
    ) -> Result<AdminServiceClient<Connection>, CommandError> {
        let connection = self.connection(Duration::ZERO, attempts).await?;
        Ok(AdminServiceClient::new(connection).max_decoding_message_size(usize::MAX))
    }

    /// Connects to the service, for another client than those of the other methods.
    pub(super) async fn connection(
        &self,
        wait: Duration,
        attempts: Attempts,
    ) -> Result<Connection, CommandError> {
        let bearer = self.credentials.bearer()?;
        let default = format!("http://{DEFAULT_ADDRESS}");
        let address = self.address.as_ref().unwrap_or(&default);
        let mut addresses = self.credentials.addresses(address)?;
        let limit = self.timeout.saturating_add(wait);
        for endpoint in &mut addresses.endpoints {
            *endpoint = endpoint.clone().timeout(limit);
        }
        let (channel, endpoint) = addresses.connect(self.timeout, attempts).await?;
        Ok(Connection::new(bearer.authorize(channel), endpoint))
    }
}
