//! Instruments that read the state of TLS and of access control.

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instruments::{CERTIFICATE_END, TOKEN_KEY_FETCHES, TOKEN_KEYS};
use crate::security::{KeyCounts, Security};
use crate::span::attribute;

/// Registers the instruments.
pub(super) fn register(meter: &Meter, security: &Security) {
    let tls = security.tls.clone();
    CERTIFICATE_END.gauge(meter, move |observer| {
        let end = tls.as_ref().map_or(0, |tls| tls.certificate_end());
        observer.observe(end, &[]);
    });
    let access = security.access.clone();
    let counts = move || -> KeyCounts {
        let counts = access.as_ref().and_then(|access| access.key_counts());
        counts.unwrap_or_default()
    };
    let [used, skipped] =
        ["used", "skipped"].map(|usage| [KeyValue::new(attribute::KEY_USE, usage)]);
    let keys = counts.clone();
    TOKEN_KEYS.gauge(meter, move |observer| {
        let counts = keys();
        observer.observe(u64::try_from(counts.used).unwrap_or(u64::MAX), &used);
        observer.observe(u64::try_from(counts.skipped).unwrap_or(u64::MAX), &skipped);
    });
    let [good, failed] =
        ["good", "failed"].map(|result| [KeyValue::new(attribute::FETCH_RESULT, result)]);
    TOKEN_KEY_FETCHES.counter(meter, move |observer| {
        let counts = counts();
        observer.observe(counts.fetched, &good);
        observer.observe(counts.failed, &failed);
    });
}
