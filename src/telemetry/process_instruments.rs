//! Instruments for the resources that this process uses.

use std::time::Instant;

use opentelemetry::metrics::Meter;

use super::instruments::{CPU_TIME, MEMORY_USAGE, OPEN_FILE_DESCRIPTORS, UPTIME};
use crate::process;

/// Registers the instruments. The uptime counts from now.
pub(super) fn register(meter: &Meter) {
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
    let start = Instant::now();
    meter
        .f64_observable_gauge(UPTIME.name)
        .with_unit(UPTIME.unit)
        .with_description(UPTIME.description)
        .with_callback(move |observer| observer.observe(start.elapsed().as_secs_f64(), &[]))
        .build();
    for (instrument, read) in [
        (
            MEMORY_USAGE,
            (|| process::resident_bytes("self")) as fn() -> Option<u64>,
        ),
        (OPEN_FILE_DESCRIPTORS, process::open_file_descriptors),
    ] {
        meter
            .u64_observable_gauge(instrument.name)
            .with_unit(instrument.unit)
            .with_description(instrument.description)
            .with_callback(move |observer| {
                if let Some(value) = read() {
                    observer.observe(value, &[]);
                }
            })
            .build();
    }
}
