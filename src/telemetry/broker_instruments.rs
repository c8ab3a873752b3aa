//! Instruments that read the counters of the broker.

use std::sync::{Arc, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instruments::{CALLS, ITEMS_SERVED, Instrument, STATEMENTS, STORE_UP};
use crate::broker::{Broker, Operation, OperationCount};
use crate::store::QueueIndex;

/// Registers the instruments. They keep no reference that would keep the broker alive.
pub(super) fn register(meter: &Meter, broker: &Arc<Broker>, queue_names: &[String]) {
    let of_operations: [(Instrument, fn(OperationCount) -> u64); 3] = [
        (CALLS, |count| count.calls),
        (STATEMENTS, |count| count.statements),
        (ITEMS_SERVED, |count| count.items),
    ];
    let attributes = operation_attributes(queue_names);
    for (instrument, field) in of_operations {
        let (broker, attributes) = (Arc::downgrade(broker), attributes.clone());
        meter
            .u64_observable_counter(instrument.name)
            .with_unit(instrument.unit)
            .with_description(instrument.description)
            .with_callback(move |observer| {
                let Some(broker) = Weak::upgrade(&broker) else {
                    return;
                };
                for (queue, operation, attributes) in &*attributes {
                    let count = broker.queue_operation_count(*queue, *operation);
                    observer.observe(field(count), attributes);
                }
            })
            .build();
    }
    let broker = Arc::downgrade(broker);
    meter
        .u64_observable_gauge(STORE_UP.name)
        .with_description(STORE_UP.description)
        .with_callback(move |observer| {
            if let Some(broker) = broker.upgrade() {
                observer.observe(u64::from(*broker.store_health().borrow()), &[]);
            }
        })
        .build();
}

/// The attributes of a series, with the queue and the operation that they name.
type OperationAttributes = Arc<[(QueueIndex, Operation, [KeyValue; 2])]>;

fn operation_attributes(queue_names: &[String]) -> OperationAttributes {
    let queues = queue_names.iter().enumerate();
    let series = queues.flat_map(|(index, name)| {
        Operation::ALL.map(|operation| {
            let attributes = [
                KeyValue::new("queue", name.clone()),
                KeyValue::new("operation", operation.name()),
            ];
            (QueueIndex(index), operation, attributes)
        })
    });
    series.collect()
}
