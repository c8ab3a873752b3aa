//! Metrics and spans on their way out: as text for Prometheus, and as messages to a collector of OpenTelemetry.
//!
//! The other layers count in plain atomics and know nothing of OpenTelemetry. This module reads their counters when
//! metrics are collected. No collection asks the database.
//!
//! `instruments.rs` declares every instrument, once. `docs/observability.md` lists them for users. `export_queue.rs` takes the
//! spans.

mod broker_instruments;
mod call_instruments;
mod export_queue;
mod instruments;
mod lease_durations;
mod log_instruments;
mod metric_push;
mod operation_durations;
mod otlp;
mod pool_instruments;
mod process_instruments;
mod queue_labels;
mod security_instruments;
mod span_counters;
mod span_data;
mod span_instruments;
mod status_instruments;

pub use self::span_counters::SpanCounters;

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use lease_broker_model::queue::QueueSpec;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_prometheus::{ExporterBuilder, PrometheusExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use opentelemetry_sdk::trace::SpanExporter as _;
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};
use uuid::Uuid;

use self::export_queue::{ExportQueue, ExportQueueSettings};
use self::metric_push::{MetricPush, SharedReader};
use self::otlp::Credentials;
use self::queue_labels::QueueLabels;
use crate::broker::{Broker, Observers};
use crate::config::{self, Config, Signal};
use crate::grpc::CallMetrics;
use crate::logging::LogCounters;
use crate::process::Pauses;
use crate::security::Security;
use crate::span::{Spans, attribute};

/// The metrics and spans of this process.
pub struct Telemetry {
    instance_id: Uuid,
    registry: Registry,
    provider: SdkMeterProvider,
    /// The gauges that can be absent, as Prometheus reads them and as the collector gets them. The SDK shows the observations of
    /// one reader's collection to all readers of a provider. So with one provider, a reader would show a gauge that another reader
    /// saw before it became absent.
    absent_gauges: Vec<SdkMeterProvider>,
    absent_registry: Registry,
    /// Unset until the store is open.
    broker: Arc<OnceLock<Weak<Broker>>>,
    queues: Vec<QueueSpec>,
    labels: QueueLabels,
    observers: Observers,
    call_metrics: Arc<CallMetrics>,
    export_queue: Option<Arc<ExportQueue>>,
    span_counters: Arc<SpanCounters>,
    metric_push: Mutex<Option<MetricPush>>,
    flush_timeout: Duration,
}

impl Telemetry {
    /// Starts the metrics of a process, and what exports metrics and spans. `log`: the counters of the process's log. `process`: its
    /// random id, and the time at which it started.
    ///
    /// Must be called inside a tokio runtime. A collector is not asked for anything here.
    ///
    /// # Errors
    /// A message that names the setting, if an exporter cannot be built.
    pub fn start(
        config: &Config,
        log: &LogCounters,
        process: (Uuid, Instant),
    ) -> Result<Self, String> {
        let settings = &config.telemetry;
        let (instance_id, start) = process;
        let (registry, absent_registry) = (Registry::new(), Registry::new());
        let resource = resource(instance_id);
        let credentials = Credentials::read(settings)?;
        let names = config.queues.iter().map(|queue| queue.name.as_str());
        let labels = QueueLabels::new(names, settings.per_queue);
        let with_view = || {
            SdkMeterProvider::builder()
                .with_resource(resource.clone())
                .with_view(labels.view())
        };
        let mut provider = with_view().with_reader(built(prometheus_reader(&registry))?);
        // The first registry has `target_info`.
        let scraped = prometheus_reader(&absent_registry).without_target_info();
        let scraped = with_view().with_reader(built(scraped)?);
        let mut absent_gauges = vec![scraped.build()];
        let mut metric_push = None;
        if let Some(destination) = settings.destination(Signal::Metrics) {
            let exporter = otlp::metric_exporter(&destination, &credentials)?;
            let readers = [(); 2].map(|()| SharedReader::new(exporter.temporality()));
            provider = provider.with_reader(readers[0].clone());
            absent_gauges.push(with_view().with_reader(readers[1].clone()).build());
            metric_push = Some(MetricPush::start(
                readers,
                exporter,
                settings.metrics_interval,
                settings.export_timeout,
            ));
        }
        let provider = provider.build();
        let span_counters = Arc::new(SpanCounters::default());
        let export_queue = match settings.destination(Signal::Traces) {
            None => None,
            Some(destination) => {
                let mut exporter = otlp::span_exporter(&destination, &credentials)?;
                exporter.set_resource(&resource);
                let export_queue = ExportQueue::open(
                    exporter,
                    export_queue_settings(settings),
                    span_counters.clone(),
                );
                Some(Arc::new(export_queue))
            }
        };
        let meter = provider.meter_with_scope(span_data::scope());
        process_instruments::register(&meter, start);
        log_instruments::register(&meter, log);
        let broker = Arc::default();
        broker_instruments::register_store_up(&meter, Arc::clone(&broker));
        let weak_queue = export_queue.as_ref().map_or_else(Weak::new, Arc::downgrade);
        span_instruments::register(&meter, &span_counters, &weak_queue, log);
        Ok(Self {
            instance_id,
            registry,
            provider,
            absent_gauges,
            absent_registry,
            broker,
            queues: config.queues.clone(),
            observers: Observers {
                operations: operation_durations::observer(&meter, config.store.kind, &labels),
                leases: lease_durations::observer(&meter, &labels),
                spans: export_queue
                    .clone()
                    .map_or_else(Spans::default, |export_queue| Spans::to(export_queue)),
            },
            labels,
            call_metrics: call_instruments::register(&meter),
            export_queue,
            span_counters,
            metric_push: Mutex::new(metric_push),
            flush_timeout: settings.flush_timeout,
        })
    }

    /// Returns the place to which the layers report spans. Without a collector, no one wants spans.
    pub fn spans(&self) -> Spans {
        self.observers.spans.clone()
    }

    /// Returns the numbers of spans.
    pub fn span_counters(&self) -> &SpanCounters {
        &self.span_counters
    }

    /// Sends the metrics to the collector once more, for at most `telemetry.flush_timeout`, and then no more. Others can then send
    /// metrics of the same process.
    pub async fn stop_metrics(&self) {
        let push = self.metric_push.lock().take();
        if let Some(push) = push {
            push.stop(self.flush_timeout).await;
        }
    }

    /// Sends the spans that are left, for at most `telemetry.flush_timeout`. Later spans are dropped and counted.
    pub async fn close(&self) {
        let spans = async {
            if let Some(export_queue) = &self.export_queue {
                export_queue.close(self.flush_timeout).await;
            }
        };
        tokio::join!(spans, self.stop_metrics());
    }

    /// Returns the observers that take the broker's measurements and spans.
    pub fn broker_observers(&self) -> Observers {
        self.observers.clone()
    }

    /// Returns the counters that the gRPC server uses.
    pub fn call_metrics(&self) -> Arc<CallMetrics> {
        self.call_metrics.clone()
    }

    /// Reads the counters of a broker from now on. Its queues must be those of [`Telemetry::start`].
    pub fn observe_broker(&self, broker: &Arc<Broker>) {
        let _ = self.broker.set(Arc::downgrade(broker));
        broker_instruments::register(&self.meter(), broker, &self.labels);
        for provider in &self.absent_gauges {
            let meter = provider.meter_with_scope(span_data::scope());
            status_instruments::register(&meter, broker, &self.queues, &self.labels);
        }
        pool_instruments::register(&self.meter(), broker);
    }

    /// Shows the pauses of this process from now on.
    pub fn observe_pauses(&self, pauses: Arc<Pauses>) {
        process_instruments::register_pauses(&self.meter(), pauses);
    }

    /// Reads the state of TLS and of access control from now on.
    pub fn observe_security(&self, security: &Security) {
        security_instruments::register(&self.meter(), security);
    }

    /// Returns the id of this process. Metrics carry it as `service.instance.id`.
    pub fn instance_id(&self) -> Uuid {
        self.instance_id
    }

    /// Returns all metrics in version 0.0.4 of the Prometheus text format.
    ///
    /// # Errors
    /// A message if the metrics cannot be encoded.
    pub fn prometheus_text(&self) -> Result<String, String> {
        let mut families = self.registry.gather();
        families.extend(self.absent_registry.gather());
        families.sort_by(|left, right| left.name().cmp(right.name()));
        TextEncoder::new()
            .encode_to_string(&families)
            .map_err(|error| format!("cannot encode the metrics: {error}"))
    }

    fn meter(&self) -> Meter {
        self.provider.meter_with_scope(span_data::scope())
    }
}

/// Returns the builder of the reader that fills a registry of `/metrics`.
fn prometheus_reader(registry: &Registry) -> ExporterBuilder {
    opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        // Otherwise every line would repeat the name of the instrumentation scope.
        .scope_info_enabled(false)
}

fn built(reader: ExporterBuilder) -> Result<PrometheusExporter, String> {
    reader
        .build()
        .map_err(|error| format!("cannot start the metrics: {error}"))
}

/// Describes this process to a collector. The variables `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` replace parts. The first
/// takes precedence over the second.
fn resource(instance_id: Uuid) -> Resource {
    let own = [
        (attribute::SERVICE_NAME, env!("CARGO_PKG_NAME").to_owned()),
        (
            attribute::SERVICE_VERSION,
            env!("CARGO_PKG_VERSION").to_owned(),
        ),
        (attribute::SERVICE_INSTANCE_ID, instance_id.to_string()),
    ];
    let variable = |name| std::env::var(name).unwrap_or_default();
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES");
    let attributes = config::pairs(&attributes);
    let name = variable("OTEL_SERVICE_NAME").trim().to_owned();
    let name = (!name.is_empty()).then(|| KeyValue::new(attribute::SERVICE_NAME, name));
    // A later value of an attribute replaces an earlier one.
    Resource::builder()
        .with_attributes(own.map(|(name, value)| KeyValue::new(name, value)))
        .with_attributes(attributes.map(|(name, value)| KeyValue::new(name, value)))
        .with_attributes(name)
        .build()
}

fn export_queue_settings(settings: &config::Telemetry) -> ExportQueueSettings {
    let rate = u32::try_from(settings.max_spans_per_second).unwrap_or(u32::MAX);
    ExportQueueSettings {
        queue_size: settings.queue_size,
        batch_size: settings.batch_size.min(settings.queue_size),
        schedule_delay: settings.schedule_delay,
        export_timeout: settings.export_timeout,
        max_spans_per_second: NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN),
    }
}
