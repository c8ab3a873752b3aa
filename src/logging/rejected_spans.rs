//! Counts the spans that a collector has rejected.
//!
//! A collector can accept a message and reject some of its spans. The exporter tells this only by an event of the crate
//! `tracing`, with the number in a field.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The target of the exporter's events.
pub(super) const TARGET: &str = "opentelemetry-otlp";
const FIELD: &str = "rejected_spans";

/// The layer that counts, and its count.
#[derive(Clone, Debug, Default)]
pub(super) struct RejectedSpans(Arc<AtomicU64>);

impl RejectedSpans {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S: Subscriber> Layer<S> for RejectedSpans {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == TARGET {
            event.record(&mut Counter(&self.0));
        }
    }
}

struct Counter<'a>(&'a AtomicU64);

impl Visit for Counter<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == FIELD {
            let spans = u64::try_from(value).unwrap_or(0);
            self.0.fetch_add(spans, Ordering::Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
