//! Instruments that read the counters of the log.

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instruments::LOG_LINES;
use crate::logging::LogCounters;
use crate::span::attribute;

/// Registers the instruments.
pub(super) fn register(meter: &Meter, counters: &LogCounters) {
    let counters = counters.clone();
    let [dropped, folded, audit_folded] = ["dropped", "folded", "audit_folded"]
        .map(|result| [KeyValue::new(attribute::LOG_RESULT, result)]);
    LOG_LINES.counter(meter, move |observer| {
        observer.observe(counters.dropped(), &dropped);
        observer.observe(counters.folded(), &folded);
        observer.observe(counters.audit_folded(), &audit_folded);
    });
}
