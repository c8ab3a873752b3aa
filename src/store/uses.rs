//! The reasons against removing the parts of a queue now, and against a new epoch: leases that are held, and brokers that run.

use lease_broker_model::queue::QueueSpec;

use super::instance::{BrokerList, LIVE_TIME};

/// Returns a sentence about the leases of the queue that are held, unless there are none. `count` goes up to 1,000.
pub(super) fn held_leases(queue: &QueueSpec, count: i64) -> Option<String> {
    let leases = match count {
        ..=0 => return None,
        1 => "1 lease of its items is".to_owned(),
        1000.. => "1000 or more leases of its items are".to_owned(),
        count => format!("{count} leases of its items are"),
    };
    Some(format!(
        "queue {:?} is in use: {leases} held; wait until their workers have finished",
        queue.name
    ))
}

/// Returns a sentence for each broker that runs.
pub(super) fn running_brokers(list: &BrokerList) -> Vec<String> {
    let sentences = list.running().map(|broker| {
        format!(
            "the broker {} (version {}) runs on this database, seen {} s ago: stop it first; a broker that was \
             killed counts as running for {} s",
            broker.instance.address,
            broker.instance.version,
            broker.silence.as_secs(),
            LIVE_TIME.as_secs()
        )
    });
    sentences.collect()
}
