//! The histograms of how long leases and items last and wait.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_store::QueueIndex;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundHistogram, Meter};

use super::instruments::{ITEM_WAIT, LEASE_HELD, REAP_DELAY};
use crate::broker::{LeaseEnd, LeaseObserver};

/// The boundaries of the durations of leases, in seconds: up to twelve hours.
const HELD: [f64; 11] = [
    0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 43_200.0,
];
/// The boundaries of the waits of items, in seconds: up to a day.
const WAITED: [f64; 11] = [
    0.005, 0.05, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 86_400.0,
];
/// The boundaries of the reaper's delay, in seconds.
const REAPED: [f64; 9] = [0.005, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// The histograms of one queue. They are bound to their labels once, because to look up labels costs more than to record.
struct QueueHistograms {
    held: [BoundHistogram<f64>; LeaseEnd::ALL.len()],
    waited: BoundHistogram<f64>,
    reaped: BoundHistogram<f64>,
}

struct LeaseDurations(Vec<QueueHistograms>);

/// Creates the histograms. The returned observer records durations in them.
pub(super) fn observer(meter: &Meter, queue_names: &[String]) -> Arc<dyn LeaseObserver> {
    let held = LEASE_HELD.histogram(meter, &HELD);
    let waited = ITEM_WAIT.histogram(meter, &WAITED);
    let reaped = REAP_DELAY.histogram(meter, &REAPED);
    let of_queue = |name: &String| {
        let queue = KeyValue::new("queue", name.clone());
        QueueHistograms {
            held: LeaseEnd::ALL.map(|end| {
                let outcome = KeyValue::new("outcome", end.name());
                held.bind(&[queue.clone(), outcome])
            }),
            waited: waited.bind(std::slice::from_ref(&queue)),
            reaped: reaped.bind(&[queue]),
        }
    };
    Arc::new(LeaseDurations(queue_names.iter().map(of_queue).collect()))
}

impl LeaseObserver for LeaseDurations {
    fn held(&self, queue: QueueIndex, end: LeaseEnd, duration: Duration) {
        self.0[queue.0].held[end as usize].record(duration.as_secs_f64());
    }

    fn waited(&self, queue: QueueIndex, duration: Duration) {
        self.0[queue.0].waited.record(duration.as_secs_f64());
    }

    fn reaped(&self, queue: QueueIndex, delay: Duration) {
        self.0[queue.0].reaped.record(delay.as_secs_f64());
    }
}
