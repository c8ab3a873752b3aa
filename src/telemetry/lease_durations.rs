//! The histograms of how long leases, items and claims last and wait.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_store::QueueIndex;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundHistogram, Histogram, Meter};

use super::instruments::{ITEM_WAIT, LEASE_HELD, REAP_DELAY, TURN_WAIT};
use super::queue_labels::QueueLabels;
use crate::broker::{LeaseEnd, LeaseObserver};
use crate::span::attribute;

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

/// The boundaries of the waits for a turn, in seconds: up to the time after which the claim fails.
const TURNS: [f64; 9] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

/// The histograms of one queue, or of all. They are bound to their labels once, because to look up labels costs more than to record.
struct QueueHistograms {
    held: [BoundHistogram<f64>; LeaseEnd::ALL.len()],
    waited: BoundHistogram<f64>,
    reaped: BoundHistogram<f64>,
}

struct LeaseDurations {
    histograms: Vec<QueueHistograms>,
    /// False: all queues share the first of `histograms`.
    tells_apart: bool,
    /// Not bound: a queue without groups and limits has no turns, and so no series.
    turns: Histogram<f64>,
    turn_labels: Vec<Vec<KeyValue>>,
}

/// Creates the histograms. The returned observer records durations in them.
pub(super) fn observer(meter: &Meter, queues: &QueueLabels) -> Arc<dyn LeaseObserver> {
    let held = LEASE_HELD.histogram(meter, &HELD);
    let waited = ITEM_WAIT.histogram(meter, &WAITED);
    let reaped = REAP_DELAY.histogram(meter, &REAPED);
    let outcomes =
        LeaseEnd::ALL.map(|end| vec![KeyValue::new(attribute::LEASE_OUTCOME, end.name())]);
    // All three tell the same queues apart.
    let by_outcome = queues.groups(LEASE_HELD, &outcomes);
    let plain = queues.groups(ITEM_WAIT, &[Vec::new()]);
    let groups = by_outcome.iter().zip(&plain);
    let histograms = groups.map(|(by_outcome, plain)| QueueHistograms {
        held: std::array::from_fn(|end| held.bind(&by_outcome.series[end])),
        waited: waited.bind(&plain.series[0]),
        reaped: reaped.bind(&plain.series[0]),
    });
    let turns = queues.groups(TURN_WAIT, &[Vec::new()]).into_iter();
    Arc::new(LeaseDurations {
        histograms: histograms.collect(),
        tells_apart: queues.are_on(LEASE_HELD),
        turns: TURN_WAIT.histogram(meter, &TURNS),
        turn_labels: turns.flat_map(|turn| turn.series).collect(),
    })
}

impl LeaseDurations {
    fn of(&self, queue: QueueIndex) -> &QueueHistograms {
        &self.histograms[if self.tells_apart { queue.0 } else { 0 }]
    }
}

impl LeaseObserver for LeaseDurations {
    fn held(&self, queue: QueueIndex, end: LeaseEnd, duration: Duration) {
        self.of(queue).held[end as usize].record(duration.as_secs_f64());
    }

    fn waited(&self, queue: QueueIndex, duration: Duration) {
        self.of(queue).waited.record(duration.as_secs_f64());
    }

    fn reaped(&self, queue: QueueIndex, delay: Duration) {
        self.of(queue).reaped.record(delay.as_secs_f64());
    }

    fn waited_for_turn(&self, queue: QueueIndex, duration: Duration) {
        let labels = &self.turn_labels[queue.0];
        self.turns.record(duration.as_secs_f64(), labels);
    }
}
