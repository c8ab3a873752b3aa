//! Arguments of the commands that call a running service: its address, credentials, the timeout, the output format.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use clap::Args;

use super::CommandError;
use super::credential_args::{AuthorizedChannel, CredentialArgs};
use super::output::OutputFormat;
use crate::grpc::proto::lease_broker_service_client::LeaseBrokerServiceClient;

/// The address that `serve` listens on by default.
pub(super) const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 50_051));

/// Arguments of every command that calls a running service.
#[derive(Debug, Args)]
pub(super) struct ClientArgs {
    /// URL of the service. https:// encrypts the connection
    #[arg(
        long,
        value_name = "URL",
        env = "LEASE_BROKER_ADDRESS",
        default_value = "http://127.0.0.1:50051"
    )]
    address: String,
    /// Maximum duration of a call. A claim may take the time of --wait in addition
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
    pub(super) timeout: Duration,
    /// Output format: a table, or one JSON object per line
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(super) output: OutputFormat,
    #[command(flatten)]
    credentials: CredentialArgs,
}

impl ClientArgs {
    /// Connects to the service. Each call on the connection fails after the timeout plus `wait`, which is the time that
    /// the service itself may wait before it answers.
    pub(super) async fn connect(
        &self,
        wait: Duration,
    ) -> Result<LeaseBrokerServiceClient<AuthorizedChannel>, CommandError> {
        let channel = self.channel(wait).await?;
        Ok(LeaseBrokerServiceClient::new(channel).max_decoding_message_size(usize::MAX))
    }

    /// Connects to the service, for another client than that of [`Self::connect`].
    pub(super) async fn channel(&self, wait: Duration) -> Result<AuthorizedChannel, CommandError> {
        let address = &self.address;
        let bearer = self.credentials.bearer()?;
        let endpoint = self.credentials.endpoint(address)?;
        let endpoint = endpoint
            .timeout(self.timeout + wait)
            .connect_timeout(self.timeout);
        let connected = endpoint.connect().await.map_err(|error| {
            let cause = innermost_cause(&error);
            CommandError::unavailable(format!(
                "cannot connect to the service at {address}: {cause}; start it with `lease-broker serve`, or name another \
                 address with --address"
            ))
        });
        connected.map(|channel| bearer.authorize(channel))
    }
}

/// Returns the text of the error that caused another one, such as an invalid certificate.
pub(super) fn innermost_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Converts a duration to the type of the API.
pub(super) fn proto_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}
