//! Instruments that read the state of access control.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instruments::TOKEN_KEYS;
use crate::security::Access;
use crate::span::attribute;

/// Registers the instruments.
pub(super) fn register(meter: &Meter, access: Option<Arc<Access>>) {
    let [used, skipped] =
        ["used", "skipped"].map(|usage| [KeyValue::new(attribute::KEY_USE, usage)]);
    TOKEN_KEYS.gauge(meter, move |observer| {
        let counts = access.as_ref().and_then(|access| access.key_counts());
        let counts = counts.unwrap_or_default();
        observer.observe(u64::try_from(counts.used).unwrap_or(u64::MAX), &used);
        observer.observe(u64::try_from(counts.skipped).unwrap_or(u64::MAX), &skipped);
    });
}
