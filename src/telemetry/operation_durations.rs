//! The histogram of the durations of store operations.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundHistogram, Meter};

use super::instruments::OPERATION_DURATION;
use crate::broker::{Operation, OperationObserver};
use crate::config::StoreKind;

/// The boundaries that the conventions advise.
const BOUNDARIES: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// Creates the histogram, and returns the function that records an operation in it.
pub(super) fn observer(
    meter: &Meter,
    store: StoreKind,
    queue_names: &[String],
) -> OperationObserver {
    let system = store.system_name();
    let histogram = OPERATION_DURATION.histogram(meter, &BOUNDARIES);
    let labels = move |queue: &str, operation: Operation| {
        vec![
            KeyValue::new("db.system.name", system),
            KeyValue::new("db.operation.name", operation.name()),
            KeyValue::new("queue", queue.to_owned()),
        ]
    };
    let queues = queue_names.iter();
    let bound: Vec<[BoundHistogram<f64>; Operation::ALL.len()]> = queues
        .map(|queue| Operation::ALL.map(|operation| histogram.bind(&labels(queue, operation))))
        .collect();
    let queue_names = queue_names.to_vec();
    Arc::new(move |queue, operation, duration, error| {
        let seconds = duration.as_secs_f64();
        match error {
            None => bound[queue.0][operation as usize].record(seconds),
            // Failures are rare, so their labels are built when they occur.
            Some(error) => {
                let mut labels = labels(&queue_names[queue.0], operation);
                labels.push(KeyValue::new("error.type", error.kind()));
                histogram.record(seconds, &labels);
            }
        }
    })
}
