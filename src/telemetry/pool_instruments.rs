//! Instruments of the connections to the database server. A store without a server shows zeros.

use std::sync::{Arc, Weak};

use lease_broker_store::{PoolStatus, RetryReason};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instruments::{
    CONNECTION_TIMEOUTS, Instrument, STORE_CONNECTIONS, STORE_CONNECTIONS_MAX,
    STORE_CONNECTIONS_WAITING, STORE_RETRIES,
};
use crate::broker::Broker;
use crate::span::attribute;

/// The name of the only pool. The conventions require one.
const POOL: &str = "lease_broker";

/// Reads a number of connections or operations.
type Number = fn(PoolStatus) -> usize;

/// Registers the instruments. They keep no reference that would keep the broker alive.
pub(super) fn register(meter: &Meter, broker: &Arc<Broker>) {
    let broker = Arc::downgrade(broker);
    let status = |broker: &Weak<Broker>| broker.upgrade().map(|broker| broker.pool_status());
    let numbers: [(Instrument, Number); 2] = [
        (STORE_CONNECTIONS_MAX, |status| status.max),
        (STORE_CONNECTIONS_WAITING, |status| status.waiting),
    ];
    for (instrument, number) in numbers {
        let broker = broker.clone();
        instrument.gauge(meter, move |observer| {
            if let Some(status) = status(&broker) {
                observer.observe(number(status) as u64, &[]);
            }
        });
    }
    let pool = broker.clone();
    STORE_CONNECTIONS.gauge(meter, move |observer| {
        if let Some(status) = status(&pool) {
            for (state, number) in [("idle", status.idle), ("used", status.used)] {
                observer.observe(
                    number as u64,
                    &[KeyValue::new(attribute::DB_CLIENT_CONNECTION_STATE, state)],
                );
            }
        }
    });
    let pool = broker.clone();
    CONNECTION_TIMEOUTS.counter(meter, move |observer| {
        if let Some(status) = status(&pool) {
            let pool = KeyValue::new(attribute::DB_CLIENT_CONNECTION_POOL_NAME, POOL);
            observer.observe(status.timeouts, &[pool]);
        }
    });
    STORE_RETRIES.counter(meter, move |observer| {
        if let Some(status) = status(&broker) {
            for (reason, number) in RetryReason::ALL.into_iter().zip(status.retries) {
                observer.observe(
                    number,
                    &[KeyValue::new(attribute::RETRY_REASON, reason.name())],
                );
            }
        }
    });
}
