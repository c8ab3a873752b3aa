//! The histogram of the durations of store operations.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundHistogram, Meter};

use super::instruments::OPERATION_DURATION;
use super::queue_labels::QueueLabels;
use crate::broker::{Operation, OperationObserver};
use crate::config::StoreKind;
use crate::span::attribute;

/// The boundaries that the conventions advise.
const BOUNDARIES: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// Creates the histogram, and returns the function that records an operation in it.
pub(super) fn observer(meter: &Meter, store: StoreKind, queues: &QueueLabels) -> OperationObserver {
    let system = store.system_name();
    let histogram = OPERATION_DURATION.histogram(meter, &BOUNDARIES);
    let series = Operation::ALL.map(|operation| {
        vec![
            KeyValue::new(attribute::DB_SYSTEM_NAME, system),
            KeyValue::new(attribute::DB_OPERATION_NAME, operation.name()),
        ]
    });
    let groups = queues.groups(OPERATION_DURATION, &series);
    let bound: Vec<[BoundHistogram<f64>; Operation::ALL.len()]> = groups
        .iter()
        .map(|group| std::array::from_fn(|operation| histogram.bind(&group.series[operation])))
        .collect();
    let tells_apart = queues.are_on(OPERATION_DURATION);
    Arc::new(move |queue, operation, duration, error| {
        let seconds = duration.as_secs_f64();
        let at = if tells_apart { queue.0 } else { 0 };
        match error {
            None => bound[at][operation as usize].record(seconds),
            // Failures are rare, so their labels are built when they occur.
            Some(error) => {
                let mut labels = groups[at].series[operation as usize].clone();
                labels.push(KeyValue::new(attribute::ERROR_TYPE, error.kind()));
                histogram.record(seconds, &labels);
            }
        }
    })
}
