//! `health`: asks a running service whether it serves calls.

pub(super) mod readiness;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::CommandError;
use super::client_args::ClientArgs;
use super::config_args::ConfigArgs;
use super::connect::Attempts;
use super::output::Row;

/// Ask a running service whether it serves calls
///
/// It calls grpc.health.v1.Health/Check, for health checks of containers and for scripts. With --admin it asks the admin
/// port of a service on this host, which needs no certificate even if the service has TLS. Exit code 0: it serves. 1: it is
/// draining or its database is unavailable. 69: it cannot be reached or does not answer in time. Unlike other commands, it
/// tries to connect only once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker health
  lease-broker health --address https://broker-2:50051 --timeout 2s
  lease-broker health --admin --config queues.toml")]
pub(super) struct Health {
    /// Name of the service to ask about. Without it, the question is about the whole server
    #[arg(long, value_name = "NAME", default_value = "")]
    service: String,
    /// Ask the admin port instead of --address. Its address is the setting admin.listen, from --config and the environment, as
    /// `serve` reads them
    #[arg(long, conflicts_with = "service")]
    admin: bool,
    /// Configuration file of the service, for --admin
    #[arg(long, value_name = "FILE", env = "LEASE_BROKER_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

impl Health {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        if self.admin {
            return self.ask_admin_port().await;
        }
        let connection = self.client.connection(Duration::ZERO, Attempts::One);
        let request = HealthCheckRequest {
            service: self.service.clone(),
        };
        let response = HealthClient::new(connection.await?).check(request).await?;
        self.report(response.into_inner().status(), &[])
    }

    async fn ask_admin_port(self) -> Result<(), CommandError> {
        let settings = ConfigArgs::of_file(self.config.clone()).load(Vec::new())?;
        let listen = settings.admin.listen.filter(|listen| listen.port() != 0);
        let listen = listen.ok_or_else(|| {
            CommandError::usage(
                "admin.listen names no port, so --admin has no address; set it, or ask the service with --address",
            )
        })?;
        let address = readiness::reachable(listen);
        let asked = readiness::ask(address, settings.admin.tls);
        let asked = tokio::time::timeout(self.client.timeout, asked).await;
        let answer = match asked {
            Ok(Ok(answer)) => answer,
            Ok(Err(cause)) => {
                return Err(CommandError::unavailable(format!(
                    "the admin port at {address} does not answer: {cause}; admin.listen must be that of the service"
                )));
            }
            Err(_) => {
                let timeout = humantime::format_duration(self.client.timeout);
                return Err(CommandError::unavailable(format!(
                    "the admin port at {address} did not answer within {timeout}"
                )));
            }
        };
        let status = if answer.ready {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        let mut reasons = answer.reasons;
        let store = answer.store.filter(|store| !store.up);
        reasons.extend(store.and_then(|store| store.error));
        self.report(status, &reasons)
    }

    /// Prints the status. Fails if it is not `SERVING`.
    fn report(&self, status: ServingStatus, reasons: &[String]) -> Result<(), CommandError> {
        let name = status.as_str_name();
        let row = Row::default().field("status", name);
        self.client.output.print(&[row], "");
        if status == ServingStatus::Serving {
            return Ok(());
        }
        let mut report = vec![name];
        report.extend(reasons.iter().map(String::as_str));
        Err(CommandError::failed(format!(
            "the service reports {}",
            report.join(", ")
        )))
    }
}
