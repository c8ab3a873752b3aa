//! Instruments that read the counters of the broker.
//!
//! Each label has values from the configuration or from a fixed list. Clients choose none of them.

use std::sync::{Arc, Weak};

use lease_broker_model::lease_trace::ReleaseReason;
use lease_broker_store::QueueIndex;
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instruments::{
    CLAIMS_WAITING, DIFFERING_QUEUES, ITEMS_DEAD, ITEMS_ENQUEUED, ITEMS_PROMOTED, ITEMS_PURGED,
    Instrument, LEASES_CLAIMED, LEASES_ENDED, LEASES_EXTENDED, LEASES_UNDELIVERED,
    SETTLEMENTS_REFUSED, SETTLEMENTS_REPEATED, STATEMENT_CALLS, STATEMENT_ITEMS, STATEMENTS,
    STORE_CLOCK_OFFSET, STORE_CLOCK_STEPS, STORE_UP, UNKNOWN_LEASE_IDS,
};
use crate::broker::{Broker, LeaseCall, LeaseEnd, Operation, OperationCount, QueueCounters};

/// Registers the instruments. They keep no reference that would keep the broker alive.
pub(super) fn register(meter: &Meter, broker: &Arc<Broker>, queue_names: &[String]) {
    let queues = Queues {
        broker: Arc::downgrade(broker),
        names: queue_names.into(),
    };
    register_operations(meter, &queues);
    register_queues(meter, &queues);
    let store = queues.broker.clone();
    STORE_UP.gauge(meter, move |observer| {
        if let Some(broker) = store.upgrade() {
            observer.observe(u64::from(*broker.store_health().borrow()), &[]);
        }
    });
    let settings = queues.broker.clone();
    DIFFERING_QUEUES.gauge(meter, move |observer| {
        if let Some(broker) = settings.upgrade() {
            observer.observe(broker.differing_queues() as u64, &[]);
        }
    });
    let store = queues.broker;
    STORE_CLOCK_OFFSET.seconds(meter, move |observer| {
        if let Some(offset) = store
            .upgrade()
            .and_then(|broker| broker.clock_offset_seconds())
        {
            observer.observe(offset, &[]);
        }
    });
}

/// A broker and the names of its queues.
#[derive(Clone)]
struct Queues {
    broker: Weak<Broker>,
    names: Arc<[String]>,
}

/// Reads a number from the counters of an operation.
type OperationField = fn(OperationCount) -> u64;

/// Reads a number from the counters of a queue.
type QueueField = fn(&QueueCounters) -> u64;

/// A series of an instrument: its labels besides the queue, and the counter that it shows.
type Series = (Vec<KeyValue>, fn(&QueueCounters, usize) -> u64);

impl Queues {
    /// Calls `read` with the broker, and with the index and the label of each queue.
    fn for_each(&self, mut read: impl FnMut(&Broker, QueueIndex, KeyValue)) {
        let Some(broker) = self.broker.upgrade() else {
            return;
        };
        for (index, name) in self.names.iter().enumerate() {
            read(
                &broker,
                QueueIndex(index),
                KeyValue::new("queue", name.clone()),
            );
        }
    }
}

fn register_operations(meter: &Meter, queues: &Queues) {
    let fields: [(Instrument, OperationField); 3] = [
        (STATEMENT_CALLS, |count| count.calls),
        (STATEMENTS, |count| count.statements),
        (STATEMENT_ITEMS, |count| count.items),
    ];
    for (instrument, field) in fields {
        let queues = queues.clone();
        instrument.counter(meter, move |observer| {
            queues.for_each(|broker, queue, name| {
                for operation in Operation::ALL {
                    let count = broker.queue_operation_count(queue, operation);
                    let operation = KeyValue::new("operation", operation.name());
                    observer.observe(field(count), &[name.clone(), operation]);
                }
            });
        });
    }
}

fn register_queues(meter: &Meter, queues: &Queues) {
    let plain: [(Instrument, QueueField); 7] = [
        (LEASES_CLAIMED, |counters| counters.claimed.get()),
        (LEASES_EXTENDED, |counters| counters.extended.get()),
        (UNKNOWN_LEASE_IDS, |counters| counters.unknown_ids.get()),
        (ITEMS_ENQUEUED, |counters| counters.enqueued.get()),
        (ITEMS_PROMOTED, |counters| counters.promoted.get()),
        (ITEMS_PURGED, |counters| counters.purged.get()),
        (STORE_CLOCK_STEPS, |counters| counters.clock_steps.get()),
    ];
    for (instrument, value) in plain {
        let queues = queues.clone();
        instrument.counter(meter, move |observer| {
            queues.for_each(|broker, queue, name| {
                observer.observe(value(broker.queue_counters(queue)), &[name]);
            });
        });
    }
    let waiting = queues.clone();
    CLAIMS_WAITING.gauge(meter, move |observer| {
        waiting.for_each(|broker, queue, name| {
            observer.observe(broker.queue_counters(queue).waiting.get(), &[name]);
        });
    });
    for (instrument, series) in [
        (LEASES_ENDED, ended_series()),
        (LEASES_UNDELIVERED, undelivered_series()),
        (SETTLEMENTS_REPEATED, repeated_series()),
        (SETTLEMENTS_REFUSED, refused_series()),
        (ITEMS_DEAD, dead_series()),
    ] {
        let queues = queues.clone();
        instrument.counter(meter, move |observer| {
            queues.for_each(|broker, queue, name| {
                for (index, (labels, value)) in series.iter().enumerate() {
                    let mut labels = labels.clone();
                    labels.push(name.clone());
                    observer.observe(value(broker.queue_counters(queue), index), &labels);
                }
            });
        });
    }
}

fn ended_series() -> Vec<Series> {
    let series = LeaseEnd::ALL.into_iter().map(|end| -> Series {
        let labels = vec![KeyValue::new("outcome", end.name())];
        (labels, |counters, index| counters.ended[index].get())
    });
    series.collect()
}

fn undelivered_series() -> Vec<Series> {
    let series = ReleaseReason::ALL.into_iter().map(|reason| -> Series {
        let labels = vec![KeyValue::new("reason", reason.name())];
        (labels, |counters, index| counters.undelivered[index].get())
    });
    series.collect()
}

/// A heartbeat is not a settlement, so it cannot be repeated in this sense.
fn repeated_series() -> Vec<Series> {
    let calls = [LeaseCall::Complete, LeaseCall::Fail, LeaseCall::Release];
    let series = calls.into_iter().map(|call| -> Series {
        let labels = vec![KeyValue::new("operation", call.name())];
        (labels, |counters, index| counters.repeated[index].get())
    });
    series.collect()
}

fn refused_series() -> Vec<Series> {
    let series = |call: LeaseCall, reason, value| -> Series {
        let call = KeyValue::new("operation", call.name());
        (vec![call, KeyValue::new("reason", reason)], value)
    };
    let lost = LeaseCall::ALL
        .map(|call| series(call, "lost", |counters, index| counters.lost[index].get()));
    let others = [
        series(LeaseCall::Complete, "gone", |counters, _| {
            counters.gone.get()
        }),
        series(LeaseCall::Complete, "refused", |counters, _| {
            counters.refused[LeaseCall::Complete as usize].get()
        }),
        series(LeaseCall::Fail, "refused", |counters, _| {
            counters.refused[LeaseCall::Fail as usize].get()
        }),
    ];
    lost.into_iter().chain(others).collect()
}

fn dead_series() -> Vec<Series> {
    let series = |cause, value| -> Series { (vec![KeyValue::new("cause", cause)], value) };
    vec![
        series("failed", |counters, _| counters.dead_by_failure.get()),
        series("expired", |counters, _| counters.dead_by_expiry.get()),
        series("cancelled", |counters, _| {
            counters.dead_by_cancellation.get()
        }),
    ]
}
