//! Counts the spans that a collector has rejected, and logs its reason.
//!
//! A collector can accept a message and reject some of its spans or metrics. The exporter tells this only by an event of the
//! crate `tracing`, with the number and the collector's message in its fields.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The target of the exporter's events.
pub(super) const TARGET: &str = "opentelemetry-otlp";
/// The number of characters of a collector's message that the log shows.
const MAX_ANSWER: usize = 500;

/// The layer that counts, and its count. It must be the last layer, because it writes a line of its own while it sees the event.
#[derive(Clone, Debug, Default)]
pub(super) struct RejectedSpans(Arc<AtomicU64>);

impl RejectedSpans {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S: Subscriber> Layer<S> for RejectedSpans {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != TARGET {
            return;
        }
        let mut rejected = Rejected::default();
        event.record(&mut rejected);
        let Rejected { number, of, answer } = rejected;
        if of.is_empty() {
            return;
        }
        if of == "spans" {
            self.0.fetch_add(number, Ordering::Relaxed);
        }
        tracing::warn!(
            number,
            of,
            answer,
            "the collector rejected a part of a message"
        );
    }
}

/// The part of a message that a collector has rejected.
#[derive(Default)]
struct Rejected {
    number: u64,
    /// `spans` or `data_points`. Empty: the event is another one.
    of: &'static str,
    /// The collector's message.
    answer: String,
}

impl Visit for Rejected {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.of = match field.name() {
            "rejected_spans" => "spans",
            "rejected_data_points" => "data_points",
            _ => return,
        };
        self.number = u64::try_from(value).unwrap_or(0);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "error_message" {
            // A collector can send any text.
            self.answer = value.chars().take(MAX_ANSWER).collect();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
