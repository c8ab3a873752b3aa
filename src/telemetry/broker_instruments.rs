//! Instruments that read the counters of the broker.
//!
//! Each label has values from the configuration or from a fixed list. Clients choose none of them.

use std::sync::{Arc, OnceLock, Weak};

use lease_broker_model::lease_trace::ReleaseReason;
use lease_broker_store::{OutageCause, QueueIndex};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};

use super::instruments::{
    CLAIMS_HELD_BACK, CLAIMS_WAITING, CONNECTIONS_OPEN, DIFFERING_QUEUES, GROUPS_VISITED,
    ITEMS_DEAD, ITEMS_ENQUEUED, ITEMS_PROMOTED, ITEMS_PURGED, Instrument, LEASES_CLAIMED,
    LEASES_ENDED, LEASES_EXTENDED, LEASES_UNDELIVERED, SETTLEMENTS_REFUSED, SETTLEMENTS_REPEATED,
    STATEMENT_CALLS, STATEMENT_ITEMS, STATEMENTS, STORE_CLOCK_OFFSET, STORE_CLOCK_STEPS,
    STORE_FAILURES, STORE_OLDEST_OPERATION, STORE_UP, UNKNOWN_LEASE_IDS, WALKS_CUT,
};
use super::queue_labels::QueueLabels;
use crate::broker::{
    Broker, HeldBack, LeaseCall, LeaseEnd, Operation, OperationCount, QueueCounters,
};
use crate::span::attribute;

/// Registers the instruments. They keep no reference that would keep the broker alive.
pub(super) fn register(meter: &Meter, broker: &Arc<Broker>, labels: &QueueLabels) {
    let queues = Queues {
        broker: Arc::downgrade(broker),
        labels: labels.clone(),
    };
    register_operations(meter, &queues);
    register_queues(meter, &queues);
    let oldest = while_alive(&queues.broker, |broker, observer| {
        let age = broker.store_status().oldest_operation;
        observer.observe(age.as_secs_f64(), &[]);
    });
    STORE_OLDEST_OPERATION.seconds(meter, oldest);
    let failures = while_alive(&queues.broker, |broker, observer| {
        for cause in OutageCause::ALL {
            let label = KeyValue::new(attribute::STORE_CAUSE, cause.name());
            observer.observe(broker.store_failures(cause), &[label]);
        }
    });
    STORE_FAILURES.counter(meter, failures);
    let connections = while_alive(&queues.broker, |broker, observer| {
        observer.observe(broker.ledger().open_connections() as u64, &[]);
    });
    CONNECTIONS_OPEN.gauge(meter, connections);
    let differing = while_alive(&queues.broker, |broker, observer| {
        observer.observe(broker.differing_queues() as u64, &[]);
    });
    DIFFERING_QUEUES.gauge(meter, differing);
    let offset = while_alive(&queues.broker, |broker, observer| {
        if let Some(offset) = broker.clock_offset_seconds() {
            observer.observe(offset, &[]);
        }
    });
    STORE_CLOCK_OFFSET.seconds(meter, offset);
}

/// Returns the function that observes an instrument for as long as the broker exists.
pub(super) fn while_alive<T>(
    broker: &Weak<Broker>,
    observe: impl Fn(&Broker, &dyn AsyncInstrument<T>) + Send + Sync + 'static,
) -> impl Fn(&dyn AsyncInstrument<T>) + Send + Sync + 'static {
    let broker = broker.clone();
    move |observer| {
        if let Some(broker) = broker.upgrade() {
            observe(&broker, observer);
        }
    }
}

/// Registers the instrument that tells whether the store is healthy. Until `broker` is set the store is being opened, and serves
/// nothing.
pub(super) fn register_store_up(meter: &Meter, broker: Arc<OnceLock<Weak<Broker>>>) {
    STORE_UP.gauge(meter, move |observer| {
        let is_up = match broker.get().map(Weak::upgrade) {
            None => false,
            Some(Some(broker)) => *broker.store_health().borrow(),
            // The broker has stopped.
            Some(None) => return,
        };
        observer.observe(u64::from(is_up), &[]);
    });
}

/// A broker and the labels of its queues.
struct Queues {
    broker: Weak<Broker>,
    labels: QueueLabels,
}

/// Reads a number from the counters of an operation.
type OperationField = fn(OperationCount) -> u64;

/// Reads a number from the counters of a queue.
type QueueField = fn(&QueueCounters) -> u64;

/// Reads the number of the series with this index.
type SeriesField = fn(&QueueCounters, usize) -> u64;

/// A series of an instrument: its labels besides the queue, and the counter that it shows.
type Series = (Vec<KeyValue>, SeriesField);

impl Queues {
    /// Returns the function that observes an instrument. `series`: its labels besides the queue. `read`: the number of a queue for the
    /// series with this index. The numbers of queues that the instrument does not tell apart are added up.
    fn reader(
        &self,
        instrument: Instrument,
        series: &[Vec<KeyValue>],
        read: impl Fn(&Broker, QueueIndex, usize) -> u64 + Send + Sync + 'static,
    ) -> impl Fn(&dyn AsyncInstrument<u64>) + Send + Sync + 'static {
        let groups = self.labels.groups(instrument, series);
        while_alive(&self.broker, move |broker, observer| {
            for group in &groups {
                for (index, labels) in group.series.iter().enumerate() {
                    let queues = group.queues.clone().map(QueueIndex);
                    let sum = queues.map(|queue| read(broker, queue, index)).sum();
                    observer.observe(sum, labels);
                }
            }
        })
    }
}

fn register_operations(meter: &Meter, queues: &Queues) {
    let fields: [(Instrument, OperationField); 3] = [
        (STATEMENT_CALLS, |count| count.calls),
        (STATEMENTS, |count| count.statements),
        (STATEMENT_ITEMS, |count| count.items),
    ];
    let series = Operation::ALL.map(|operation| {
        vec![KeyValue::new(
            attribute::DB_OPERATION_NAME,
            operation.name(),
        )]
    });
    for (instrument, field) in fields {
        let read = queues.reader(instrument, &series, move |broker, queue, index| {
            field(broker.queue_operation_count(queue, Operation::ALL[index]))
        });
        instrument.counter(meter, read);
    }
}

fn register_queues(meter: &Meter, queues: &Queues) {
    let plain: [(Instrument, QueueField); 9] = [
        (LEASES_CLAIMED, |counters| counters.claimed.get()),
        (LEASES_EXTENDED, |counters| counters.extended.get()),
        (GROUPS_VISITED, |counters| counters.groups_visited.get()),
        (WALKS_CUT, |counters| counters.walks_cut.get()),
        (UNKNOWN_LEASE_IDS, |counters| counters.unknown_ids.get()),
        (ITEMS_ENQUEUED, |counters| counters.enqueued.get()),
        (ITEMS_PROMOTED, |counters| counters.promoted.get()),
        (ITEMS_PURGED, |counters| counters.purged.get()),
        (STORE_CLOCK_STEPS, |counters| counters.clock_steps.get()),
    ];
    for (instrument, value) in plain {
        let read = queues.reader(instrument, &[Vec::new()], move |broker, queue, _| {
            value(broker.queue_counters(queue))
        });
        instrument.counter(meter, read);
    }
    let waiting = queues.reader(CLAIMS_WAITING, &[Vec::new()], |broker, queue, _| {
        broker.queue_counters(queue).waiting.get()
    });
    CLAIMS_WAITING.gauge(meter, waiting);
    let ended = LeaseEnd::ALL.map(LeaseEnd::name);
    let ended = label_series(attribute::LEASE_OUTCOME, ended, |counters, index| {
        counters.ended[index].get()
    });
    let undelivered = ReleaseReason::ALL.map(ReleaseReason::name);
    let undelivered = label_series(attribute::RELEASE_REASON, undelivered, |counters, index| {
        counters.undelivered[index].get()
    });
    let held_back = HeldBack::ALL.map(HeldBack::name);
    let held_back = label_series(attribute::HELD_BACK_REASON, held_back, |counters, index| {
        counters.held_back[index].get()
    });
    // A heartbeat is not a settlement, so it cannot be repeated in this sense.
    let repeated = [LeaseCall::Complete, LeaseCall::Fail, LeaseCall::Release].map(LeaseCall::name);
    let repeated = label_series(
        attribute::SETTLEMENT_OPERATION,
        repeated,
        |counters, index| counters.repeated[index].get(),
    );
    for (instrument, series) in [
        (LEASES_ENDED, ended),
        (LEASES_UNDELIVERED, undelivered),
        (CLAIMS_HELD_BACK, held_back),
        (SETTLEMENTS_REPEATED, repeated),
        (SETTLEMENTS_REFUSED, refused_series()),
        (ITEMS_DEAD, dead_series()),
    ] {
        let (labels, values): (Vec<_>, Vec<_>) = series.into_iter().unzip();
        let read = queues.reader(instrument, &labels, move |broker, queue, index| {
            values[index](broker.queue_counters(queue), index)
        });
        instrument.counter(meter, read);
    }
}

/// Returns a series for each value of a label.
fn label_series<const N: usize>(
    label: &'static str,
    values: [&'static str; N],
    field: SeriesField,
) -> Vec<Series> {
    let series = values.map(|value| (vec![KeyValue::new(label, value)], field));
    series.into()
}

fn refused_series() -> Vec<Series> {
    let series = |call: LeaseCall, reason, value| -> Series {
        let call = KeyValue::new(attribute::SETTLEMENT_OPERATION, call.name());
        (
            vec![call, KeyValue::new(attribute::SETTLEMENT_REASON, reason)],
            value,
        )
    };
    let lost = LeaseCall::ALL
        .map(|call| series(call, "lost", |counters, index| counters.lost[index].get()));
    // They stand behind those of lost leases.
    let refused = LeaseCall::ALL.map(|call| {
        series(call, "refused", |counters, index| {
            counters.refused[index - LeaseCall::ALL.len()].get()
        })
    });
    let gone = series(LeaseCall::Complete, "gone", |counters, _| {
        counters.gone.get()
    });
    lost.into_iter().chain(refused).chain([gone]).collect()
}

fn dead_series() -> Vec<Series> {
    let series = |cause, value| -> Series {
        (
            vec![KeyValue::new(attribute::ITEM_DEAD_CAUSE, cause)],
            value,
        )
    };
    vec![
        series("failed", |counters, _| counters.dead_by_failure.get()),
        series("expired", |counters, _| counters.dead_by_expiry.get()),
        series("cancelled", |counters, _| {
            counters.dead_by_cancellation.get()
        }),
        series("unclaimable", |counters, _| counters.dead_by_claim.get()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_about_a_lease_has_a_series_of_refusals() {
        let series: Vec<String> = refused_series()
            .into_iter()
            .map(|(labels, _)| format!("{} {}", labels[0].value, labels[1].value))
            .collect();
        for call in LeaseCall::ALL.map(LeaseCall::name) {
            for reason in ["lost", "refused"] {
                let expected = format!("{call} {reason}");
                assert!(series.contains(&expected), "{expected}: {series:?}");
            }
        }
    }
}
