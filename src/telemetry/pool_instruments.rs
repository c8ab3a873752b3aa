//! Instruments of the connections to the database server. A store without a server shows zeros.

use std::sync::Arc;

use lease_broker_store::{PoolStatus, RetryReason};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::broker_instruments::while_alive;
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
    let numbers: [(Instrument, Number); 2] = [
        (STORE_CONNECTIONS_MAX, |status| status.max),
        (STORE_CONNECTIONS_WAITING, |status| status.waiting),
    ];
    for (instrument, number) in numbers {
        let observe = while_alive(&broker, move |broker, observer| {
            observer.observe(number(broker.pool_status()) as u64, &[]);
        });
        instrument.gauge(meter, observe);
    }
    let connections = while_alive(&broker, |broker, observer| {
        let status = broker.pool_status();
        for (state, number) in [("idle", status.idle), ("used", status.used)] {
            let state = KeyValue::new(attribute::DB_CLIENT_CONNECTION_STATE, state);
            observer.observe(number as u64, &[state]);
        }
    });
    STORE_CONNECTIONS.gauge(meter, connections);
    let timeouts = while_alive(&broker, |broker, observer| {
        let pool = KeyValue::new(attribute::DB_CLIENT_CONNECTION_POOL_NAME, POOL);
        observer.observe(broker.pool_status().timeouts, &[pool]);
    });
    CONNECTION_TIMEOUTS.counter(meter, timeouts);
    let retries = while_alive(&broker, |broker, observer| {
        let numbers = broker.pool_status().retries;
        for (reason, number) in RetryReason::ALL.into_iter().zip(numbers) {
            let reason = KeyValue::new(attribute::RETRY_REASON, reason.name());
            observer.observe(number, &[reason]);
        }
    });
    STORE_RETRIES.counter(meter, retries);
}
