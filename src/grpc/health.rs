//! The standard health service: reports SERVING while the database is healthy and the broker is not draining.

use std::sync::Arc;

use lease_broker_proto::{admin_service_server, lease_service_server};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::broker::Broker;

/// The names that a health check can ask for. The empty name stands for the whole server.
const SERVICES: [&str; 3] = [
    "",
    lease_service_server::SERVICE_NAME,
    admin_service_server::SERVICE_NAME,
];

/// Reports each change of the store's health until the broker announces its drain, then reports `NOT_SERVING`.
pub(super) async fn report_changes(reporter: HealthReporter, broker: Arc<Broker>) {
    let mut store_health = broker.store_health();
    loop {
        let serving = *store_health.borrow_and_update();
        report(&reporter, serving).await;
        tokio::select! {
            changed = store_health.changed() => if changed.is_err() {
                break;
            },
            () = broker.drain_announced() => break,
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
    for name in SERVICES {
        reporter.set_service_status(name, status).await;
    }
}
