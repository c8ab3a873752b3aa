//! Keeps the health service true: serving while the store answers and nobody drains.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::broker::Broker;

/// The service's full name, as health checks ask for it; the empty name stands for the server as a whole.
pub(super) const SERVICE: &str = "leasebroker.v1.LeaseBrokerService";

/// Follows the store's health until `draining` is cancelled, then reports that nothing is served.
pub(super) async fn follow(
    reporter: HealthReporter,
    broker: Arc<Broker>,
    draining: CancellationToken,
) {
    let mut answers = broker.store_health();
    loop {
        let serving = *answers.borrow_and_update();
        report(&reporter, serving).await;
        tokio::select! {
            changed = answers.changed() => if changed.is_err() {
                break;
            },
            () = draining.cancelled() => break,
        }
    }
    report(&reporter, false).await;
}

async fn report(reporter: &HealthReporter, serving: bool) {
    let status = if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    };
    for name in ["", SERVICE] {
        reporter.set_service_status(name, status).await;
    }
}
