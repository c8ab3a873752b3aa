//! Instruments for the resources that this process uses.

use std::sync::Arc;
use std::time::Instant;

use opentelemetry::metrics::Meter;

use super::instruments::{CPU_TIME, MEMORY_USAGE, OPEN_FILE_DESCRIPTORS, PAUSES, UPTIME};
use crate::process::{self, Pauses};

/// Registers the instrument of the pauses.
pub(super) fn register_pauses(meter: &Meter, pauses: Arc<Pauses>) {
    PAUSES.counter(meter, move |observer| observer.observe(pauses.count(), &[]));
}

/// Registers the instruments. `start`: the time at which the process started.
pub(super) fn register(meter: &Meter, start: Instant) {
    meter
        .f64_observable_counter(CPU_TIME.name)
        .with_unit(CPU_TIME.unit)
        .with_description(CPU_TIME.description)
        .with_callback(|observer| {
            if let Some(time) = process::cpu_time("self") {
                observer.observe(time.as_secs_f64(), &[]);
            }
        })
        .build();
    UPTIME.seconds(meter, move |observer| {
        observer.observe(start.elapsed().as_secs_f64(), &[]);
    });
    MEMORY_USAGE.gauge(meter, |observer| {
        if let Some(bytes) = process::resident_bytes("self") {
            observer.observe(bytes, &[]);
        }
    });
    OPEN_FILE_DESCRIPTORS.gauge(meter, |observer| {
        if let Some(count) = process::open_file_descriptors() {
            observer.observe(count, &[]);
        }
    });
}
