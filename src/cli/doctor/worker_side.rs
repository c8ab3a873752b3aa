//! The checks of a worker's connection to a service.

use std::time::Duration;

use futures_util::future::join_all;
use lease_broker_proto::HeartbeatRequest;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::finding::{Finding, Verdict};
use crate::cli::CommandError;
use crate::cli::client_args::ClientArgs;
use crate::cli::connect::Attempts;
use crate::cli::connection::Connection;

/// Runs all checks of this side.
pub(super) async fn check(client: &ClientArgs, queues: &[String]) -> Vec<Finding> {
    // The attempt names the cause if it fails: no address, nothing listens, plain text, TLS, certificates.
    let connection = match client.connection(Duration::ZERO, Attempts::One).await {
        Ok(connection) => connection,
        Err(error) => {
            return vec![Finding::worker(
                "connection",
                Verdict::Problem,
                error.to_string(),
            )];
        }
    };
    let (health, answers) = check_health(connection.clone()).await;
    let mut findings = vec![health];
    if !answers {
        return findings;
    }
    if queues.is_empty() {
        let detail = "name a queue with --queue to check login, role and queue";
        findings.push(Finding::worker("queue", Verdict::Skipped, detail));
    }
    let checks = queues
        .iter()
        .map(|queue| check_queue(connection.clone(), queue));
    findings.extend(join_all(checks).await);
    findings
}

/// Asks for the health of the service. Returns the finding, and whether the service answers.
async fn check_health(connection: Connection) -> (Finding, bool) {
    let request = HealthCheckRequest::default();
    let health = HealthClient::new(connection).check(request).await;
    let answers = health.is_ok();
    let (verdict, detail) = match health {
        Ok(answer) => match answer.into_inner().status() {
            ServingStatus::Serving => (Verdict::Ok, "the service serves calls".to_owned()),
            status => (
                Verdict::Problem,
                format!("the service reports {}", status.as_str_name()),
            ),
        },
        Err(status) => (Verdict::Problem, CommandError::from(status).to_string()),
    };
    (Finding::worker("connection", verdict, detail), answers)
}

/// Makes a call of a worker that changes nothing: a heartbeat for no lease.
async fn check_queue(connection: Connection, queue: &str) -> Finding {
    let request = HeartbeatRequest {
        queue: queue.to_owned(),
        ..HeartbeatRequest::default()
    };
    let called = LeaseServiceClient::new(connection).heartbeat(request).await;
    let refused = called.err().filter(|status| !is_about_the_list(status));
    let (verdict, detail) = match refused {
        None => (
            Verdict::Ok,
            "a worker with these credentials may work on it".to_owned(),
        ),
        Some(status) => (Verdict::Problem, CommandError::from(status).to_string()),
    };
    Finding::worker(format!("queue {queue}"), verdict, detail)
}

/// Returns whether a call was refused only because its list is empty, after the checks of the credentials and of the queue.
fn is_about_the_list(status: &Status) -> bool {
    status.code() == Code::InvalidArgument
}
