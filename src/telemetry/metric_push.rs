//! The task that sends the metrics to a collector.

use std::sync::{Arc, Weak};
use std::time::Duration;

use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{InstrumentKind, ManualReader, Pipeline, Temporality};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

/// A reader that the provider of the metrics and the task share.
#[derive(Clone, Debug)]
pub(super) struct SharedReader(Arc<ManualReader>);

impl SharedReader {
    pub(super) fn new(temporality: Temporality) -> Self {
        Self(Arc::new(
            ManualReader::builder()
                .with_temporality(temporality)
                .build(),
        ))
    }
}

impl MetricReader for SharedReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

/// The running task.
pub(super) struct MetricPush {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl MetricPush {
    /// Starts to send the metrics of the readers at this interval. Must be called inside a tokio runtime. If it is dropped without
    /// being stopped, it sends nothing more.
    pub(super) fn start(
        readers: [SharedReader; 2],
        exporter: MetricExporter,
        interval: Duration,
        export_timeout: Duration,
    ) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut ticks = interval_at(Instant::now() + interval, interval);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let is_stopped = tokio::select! {
                    _ = ticks.tick() => false,
                    stopped = &mut stopped => match stopped {
                        Ok(()) => true,
                        Err(_) => return,
                    },
                };
                for reader in &readers {
                    push(reader, &exporter, export_timeout).await;
                }
                if is_stopped {
                    return;
                }
            }
        });
        Self { stop, task }
    }

    /// Sends the metrics once more, for at most `limit`, and ends the task.
    pub(super) async fn stop(self, limit: Duration) {
        let _ = self.stop.send(());
        let abort = self.task.abort_handle();
        if timeout(limit, self.task).await.is_err() {
            abort.abort();
        }
    }
}

async fn push(reader: &SharedReader, exporter: &MetricExporter, limit: Duration) {
    let mut metrics = ResourceMetrics::default();
    if let Err(error) = reader.collect(&mut metrics) {
        tracing::warn!(problem = %error, "metrics not collected");
        return;
    }
    let problem = match timeout(limit, exporter.export(&metrics)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the collector did not answer in time".to_owned(),
    };
    tracing::warn!(%problem, "metrics not exported");
}
