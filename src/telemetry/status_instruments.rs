//! Instruments that show the last statistics of each queue. They never ask the database.

use std::sync::{Arc, Weak};

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::QueueIndex;
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::broker_instruments::while_alive;
use super::instruments::{
    GROUPS, GROUPS_CAPPED, ITEMS, ITEMS_CAPPED, Instrument, LEASES_OVER_AGE, MAX_LEASE_AGE,
    OLDEST_HEAD_AGE, OLDEST_LEASE_AGE, OLDEST_READY_AGE, OLDEST_SAMPLED, STATS_AGE,
};
use super::queue_labels::QueueLabels;
use crate::broker::{Broker, GroupSample, QueueStatus};
use crate::span::attribute;

/// Registers the instruments. They keep no reference that would keep the broker alive.
pub(super) fn register(
    meter: &Meter,
    broker: &Arc<Broker>,
    queues: &[QueueSpec],
    labels: &QueueLabels,
) {
    let statuses = Statuses {
        broker: Arc::downgrade(broker),
        labels: labels.iter().cloned().collect(),
    };
    let by_state: [(Instrument, StateField); 2] = [
        (ITEMS, |status, state| status.stats.known_count_of(state)),
        (ITEMS_CAPPED, |status, state| {
            Some(u64::from(status.stats.is_lower_bound(state)))
        }),
    ];
    for (instrument, value) in by_state {
        let statuses = statuses.clone();
        instrument.gauge(meter, move |observer| {
            statuses.for_each(|status, queue| {
                for state in State::ALL {
                    let labels = [
                        KeyValue::new(attribute::ITEM_STATE, state.name()),
                        queue.clone(),
                    ];
                    if let Some(value) = value(status, state) {
                        observer.observe(value, &labels);
                    }
                }
            });
        });
    }
    let sampled = statuses.clone();
    OLDEST_SAMPLED.gauge(meter, move |observer| {
        sampled.for_each(|status, queue| {
            for state in [State::Ready, State::Leased] {
                let is_sampled = status.stats.sampled_states().any(|other| other == state);
                let labels = [
                    KeyValue::new(attribute::ITEM_STATE, state.name()),
                    queue.clone(),
                ];
                observer.observe(u64::from(is_sampled), &labels);
            }
        });
    });
    register_groups(meter, &statuses);
    let ages: [(Instrument, Age); 3] = [
        (OLDEST_READY_AGE, |status| {
            let age = status.stats.oldest_ready?;
            Some((age + status.age).as_secs_f64())
        }),
        (OLDEST_LEASE_AGE, |status| {
            let age = status.stats.oldest_lease?;
            Some((age + status.age).as_secs_f64())
        }),
        (OLDEST_HEAD_AGE, |status| {
            let age = status.groups?.oldest_head?;
            Some((age + status.groups_age).as_secs_f64())
        }),
    ];
    for (instrument, value) in ages {
        let statuses = statuses.clone();
        instrument.seconds(meter, move |observer| {
            statuses.for_each(|status, queue| {
                if let Some(value) = value(status) {
                    observer.observe(value, std::slice::from_ref(queue));
                }
            });
        });
    }
    let queue_labels = statuses.labels.clone();
    let aging = while_alive(&statuses.broker, move |broker, observer| {
        for (index, queue) in queue_labels.iter().enumerate() {
            let age = broker.queue_statistics_age(QueueIndex(index));
            observer.observe(age.as_secs_f64(), std::slice::from_ref(queue));
        }
    });
    STATS_AGE.seconds(meter, aging);
    let limits = queues.iter().map(|queue| queue.max_lease_age);
    let limits: Arc<[_]> = limits.zip(labels.iter().cloned()).collect();
    let settings = limits.clone();
    MAX_LEASE_AGE.seconds(meter, move |observer| {
        for (limit, queue) in &*settings {
            if let Some(limit) = limit {
                observer.observe(limit.as_secs_f64(), std::slice::from_ref(queue));
            }
        }
    });
    let over_age = while_alive(&statuses.broker, move |broker, observer| {
        for (index, (limit, queue)) in limits.iter().enumerate() {
            let status = limit.and_then(|_| broker.queue_status(QueueIndex(index)));
            if let Some(status) = status {
                observer.observe(status.over_age as u64, std::slice::from_ref(queue));
            }
        }
    });
    LEASES_OVER_AGE.gauge(meter, over_age);
}

fn register_groups(meter: &Meter, statuses: &Statuses) {
    let grouped = statuses.clone();
    GROUPS.gauge(meter, move |observer| {
        grouped.for_each(|status, queue| {
            for (state, count) in status.groups.iter().flat_map(GroupSample::counts) {
                let state = KeyValue::new(attribute::GROUP_STATE, state.name());
                observer.observe(count, &[state, queue.clone()]);
            }
        });
    });
    let capped = statuses.clone();
    GROUPS_CAPPED.gauge(meter, move |observer| {
        capped.for_each(|status, queue| {
            if let Some(groups) = &status.groups {
                observer.observe(u64::from(groups.is_partial), std::slice::from_ref(queue));
            }
        });
    });
}

/// Reads a number about one state of a queue. `None`: it is not known.
type StateField = fn(&QueueStatus, State) -> Option<u64>;

/// Reads an age in seconds. `None`: it is not known.
type Age = fn(&QueueStatus) -> Option<f64>;

/// The last statistics of a broker's queues, with the label of each queue.
#[derive(Clone)]
struct Statuses {
    broker: Weak<Broker>,
    labels: Arc<[KeyValue]>,
}

impl Statuses {
    /// Calls `read` with the status and the label of each queue that has been refreshed.
    fn for_each(&self, mut read: impl FnMut(&QueueStatus, &KeyValue)) {
        let Some(broker) = self.broker.upgrade() else {
            return;
        };
        for (index, label) in self.labels.iter().enumerate() {
            if let Some(status) = broker.queue_status(QueueIndex(index)) {
                read(&status, label);
            }
        }
    }
}
