//! A connection to a running service.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use clap::Args;
use tonic::transport::{Channel, Endpoint};

use super::CommandError;
use super::output::OutputFormat;
use crate::grpc::proto::lease_broker_service_client::LeaseBrokerServiceClient;

/// Where `serve` listens when nothing else is said.
pub(super) const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 50_051));

/// Which service to call, and how to print what it answers.
#[derive(Debug, Args)]
pub(super) struct ClientArgs {
    /// Where the service listens
    #[arg(
        long,
        value_name = "URL",
        env = "LEASE_BROKER_ADDRESS",
        default_value = "http://127.0.0.1:50051"
    )]
    address: String,
    /// How long a call may take, besides what it waits for on purpose
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
    timeout: Duration,
    /// How to print results: a table for people, one JSON object a line for scripts
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(super) output: OutputFormat,
}

impl ClientArgs {
    /// Connects; a call that goes on for `wait` longer than the time-out ends in an error.
    pub(super) async fn connect(
        &self,
        wait: Duration,
    ) -> Result<LeaseBrokerServiceClient<Channel>, CommandError> {
        let address = if self.address.contains("://") {
            self.address.clone()
        } else {
            format!("http://{}", self.address)
        };
        let endpoint = Endpoint::from_shared(address.clone())
            .map_err(|error| CommandError::usage(format!("--address {address}: {error}")))?
            .timeout(self.timeout + wait)
            .connect_timeout(self.timeout);
        let channel = endpoint.connect().await.map_err(|error| {
            let cause =
                std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            CommandError::unavailable(format!(
                "no service answers at {address} ({cause}); is `lease-broker serve` running there?"
            ))
        })?;
        Ok(LeaseBrokerServiceClient::new(channel).max_decoding_message_size(usize::MAX))
    }
}

/// Turns a duration into the API's.
pub(super) fn proto_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}
