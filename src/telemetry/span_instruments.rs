//! Instruments that show what became of the spans.

use std::sync::{Arc, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::export_queue::ExportQueue;
use super::instruments::{SPAN_QUEUE_CAPACITY, SPAN_QUEUE_SIZE, SPANS, SPANS_EMITTED};
use super::span_counters::SpanCounters;
use crate::logging::LogCounters;
use crate::span::attribute;

/// Reads a number of spans.
type Counter = fn(&SpanCounters) -> u64;

/// Registers the instruments. They keep no reference that would keep the export queue open. `log` has seen the collector's
/// messages about rejected spans.
pub(super) fn register(
    meter: &Meter,
    counters: &Arc<SpanCounters>,
    export_queue: &Weak<ExportQueue>,
    log: &LogCounters,
) {
    let emitted = counters.clone();
    SPANS_EMITTED.counter(meter, move |observer| {
        observer.observe(emitted.emitted(), &[]);
    });
    let results: [(&str, Counter); 4] = [
        ("exported", SpanCounters::exported),
        ("failed", SpanCounters::failed),
        ("dropped", SpanCounters::dropped),
        ("not_kept", SpanCounters::not_kept),
    ];
    let (counters, log) = (counters.clone(), log.clone());
    SPANS.counter(meter, move |observer| {
        for (result, count) in results {
            observer.observe(
                count(&counters),
                &[KeyValue::new(attribute::SPAN_RESULT, result)],
            );
        }
        let rejected = KeyValue::new(attribute::SPAN_RESULT, "rejected");
        observer.observe(log.rejected_spans(), &[rejected]);
    });
    for (instrument, index) in [(SPAN_QUEUE_SIZE, 0), (SPAN_QUEUE_CAPACITY, 1)] {
        let export_queue = export_queue.clone();
        instrument.gauge(meter, move |observer| {
            if let Some(export_queue) = export_queue.upgrade() {
                let (waiting, max) = export_queue.queue_size();
                observer.observe([waiting, max][index] as u64, &[]);
            }
        });
    }
}
