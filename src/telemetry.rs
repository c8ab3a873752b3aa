//! Metrics: the instruments, the values that they read, and their text for Prometheus.
//!
//! The other layers count in plain atomics and know nothing of OpenTelemetry. This module reads their counters when
//! metrics are collected. No collection asks the database.
//!
//! `instruments.rs` declares every instrument, once. `docs/observability.md` lists them for users.

mod broker_instruments;
mod call_instruments;
mod instruments;
mod log_instruments;
mod operation_durations;
mod process_instruments;
mod status_instruments;

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use uuid::Uuid;

use crate::broker::{Broker, OperationObserver};
use crate::config::StoreKind;
use crate::grpc::CallMetrics;
use crate::logging::LogCounters;
use crate::queue::QueueSpec;

/// The metrics of this process.
pub struct Telemetry {
    instance_id: Uuid,
    registry: Registry,
    provider: SdkMeterProvider,
    queues: Vec<QueueSpec>,
    operation_observer: OperationObserver,
    call_metrics: Arc<CallMetrics>,
}

impl Telemetry {
    /// Creates the metrics of a process that serves these queues of a store.
    ///
    /// # Errors
    /// A message if the exporter cannot be built.
    pub fn start(store: StoreKind, queues: &[QueueSpec]) -> Result<Self, String> {
        let instance_id = Uuid::new_v4();
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            // Otherwise every line would repeat the name of the instrumentation scope.
            .scope_info_enabled(false)
            .build()
            .map_err(|error| format!("cannot start the metrics: {error}"))?;
        let resource = Resource::builder()
            .with_service_name(env!("CARGO_PKG_NAME"))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new(
                "service.instance.id",
                instance_id.to_string(),
            ))
            .build();
        let provider = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_reader(exporter)
            .build();
        let meter = provider.meter(env!("CARGO_PKG_NAME"));
        process_instruments::register(&meter);
        let queue_names: Vec<String> = queues.iter().map(|queue| queue.name.clone()).collect();
        Ok(Self {
            instance_id,
            registry,
            provider,
            queues: queues.to_vec(),
            operation_observer: operation_durations::observer(&meter, store, &queue_names),
            call_metrics: call_instruments::register(&meter),
        })
    }

    /// Returns the function to which the broker passes the duration of each store operation.
    pub fn operation_observer(&self) -> OperationObserver {
        self.operation_observer.clone()
    }

    /// Returns the counters that the gRPC server uses.
    pub fn call_metrics(&self) -> Arc<CallMetrics> {
        self.call_metrics.clone()
    }

    /// Reads the counters of a broker from now on. Its queues must be those of [`Telemetry::start`].
    pub fn observe_broker(&self, broker: &Arc<Broker>) {
        let names: Vec<String> = self.queues.iter().map(|queue| queue.name.clone()).collect();
        broker_instruments::register(&self.meter(), broker, &names);
        status_instruments::register(&self.meter(), broker, &self.queues);
    }

    /// Reads the counters of the log from now on.
    pub fn observe_log(&self, counters: &LogCounters) {
        log_instruments::register(&self.meter(), counters);
    }

    /// Returns the id of this process, random at each start. Metrics carry it as `service.instance.id`.
    pub fn instance_id(&self) -> Uuid {
        self.instance_id
    }

    /// Returns all metrics in version 0.0.4 of the Prometheus text format.
    ///
    /// # Errors
    /// A message if the metrics cannot be encoded.
    pub fn prometheus_text(&self) -> Result<String, String> {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .map_err(|error| format!("cannot encode the metrics: {error}"))
    }

    fn meter(&self) -> Meter {
        self.provider.meter(env!("CARGO_PKG_NAME"))
    }
}
