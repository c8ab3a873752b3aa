//! `health`: asks a running service whether it serves calls.

use std::time::Duration;

use clap::Args;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::CommandError;
use super::client_args::ClientArgs;
use super::connect::Attempts;
use super::output::Row;

/// Ask a running service whether it serves calls
///
/// It calls grpc.health.v1.Health/Check, for health checks of containers and for scripts. Exit code 0: it serves. 1: it is
/// draining or its database is unavailable. 69: it cannot be reached or does not answer in time. Unlike other commands, it
/// tries to connect only once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker health
  lease-broker health --address http://broker-2:50051 --timeout 2s")]
pub(super) struct Health {
    /// Name of the service to ask about. Without it, the question is about the whole server
    #[arg(long, value_name = "NAME", default_value = "")]
    service: String,
    #[command(flatten)]
    client: ClientArgs,
}

impl Health {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let connection = self.client.connection(Duration::ZERO, Attempts::One);
        let request = HealthCheckRequest {
            service: self.service,
        };
        let response = HealthClient::new(connection.await?).check(request).await?;
        let status = response.into_inner().status();
        let row = Row::default().field("status", status.as_str_name());
        self.client.output.print(&[row], "");
        if status == ServingStatus::Serving {
            Ok(())
        } else {
            Err(CommandError::failed(format!(
                "the service reports {}",
                status.as_str_name()
            )))
        }
    }
}
