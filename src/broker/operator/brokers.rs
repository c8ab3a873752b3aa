//! The list of broker processes, and the order to stop.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_store::{BrokerList, Instance, ListedBroker, SettingsHash};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Operator;
use crate::broker::error::Error;

/// The warning about a queue that brokers have left.
pub const LEFT_QUEUE: &str = "brokers served this queue within the last day, and none serves it now: nobody works on its items, and its \
                              leases do not expire (docs/operations.md, \"Remove a queue\")";
/// The time between two looks at the queues that brokers have left.
const LEFT_QUEUES_INTERVAL: Duration = Duration::from_secs(60);

/// The broker processes that were seen in the last day.
#[derive(Clone, Debug)]
pub struct ListedBrokers {
    /// The processes, and the clock of the database.
    pub list: BrokerList,
    /// The id of this process. `None`: it is no broker, or has not announced itself.
    pub own: Option<Uuid>,
}

impl Operator {
    /// Lists the brokers.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list_brokers(&self) -> Result<ListedBrokers, Error> {
        let mut list = self.inspect.brokers().await?;
        sort(&mut list.brokers);
        Ok(ListedBrokers {
            list,
            own: self.broker_id.get().copied(),
        })
    }

    /// Returns the queues whose settings at a broker differ from those here.
    pub fn differing_queues(&self, broker: &ListedBroker) -> Vec<String> {
        let queues = self.queues.iter().filter(|queue| {
            let theirs = broker.instance.settings.get(&queue.name);
            theirs.is_some_and(|theirs| SettingsHash::new(queue).difference(theirs).is_some())
        });
        queues.map(|queue| queue.name.clone()).collect()
    }

    /// Looks for queues that brokers have left until `stop` is cancelled, because the last broker that serves one can end after this one
    /// has started. Each is logged once.
    pub(in crate::broker) async fn log_left_queues(self: Arc<Self>, stop: CancellationToken) {
        let mut logged = BTreeSet::new();
        loop {
            if let Ok(list) = self.inspect.brokers().await {
                for queue in list.left_queues(&self.queues) {
                    if logged.insert(queue.to_owned()) {
                        tracing::warn!(queue, "{LEFT_QUEUE}");
                    }
                }
            }
            let pause = sleep(LEFT_QUEUES_INTERVAL);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// Tells a broker process to drain and to end. Returns this process only.
    ///
    /// # Errors
    /// [`Error::BrokerNotFound`], and those of the store.
    pub async fn drain_broker(&self, broker: Uuid) -> Result<ListedBrokers, Error> {
        let store = self.store()?;
        let mut listed = self.list_brokers().await?;
        let brokers = &mut listed.list.brokers;
        brokers.retain(|listed| listed.instance.id == broker && listed.is_live());
        let told = brokers.first_mut().ok_or(Error::BrokerNotFound(broker))?;
        if !store.request_drain(broker).await? {
            return Err(Error::BrokerNotFound(broker));
        }
        // It reads the order a moment later.
        told.instance.draining = true;
        Ok(listed)
    }
}

/// Sorts brokers into an order that changes only if one starts or stops. In the order in which they were seen, two of them would change
/// their places with each reading.
fn sort(brokers: &mut [ListedBroker]) {
    brokers.sort_by_cached_key(|broker| {
        let start = Reverse(broker.start_time);
        let Instance { id, address, .. } = &broker.instance;
        (!broker.is_live(), address.clone(), start, *id)
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    fn broker(id: u128, address: &str, silence: Duration, start_time: i64) -> ListedBroker {
        ListedBroker {
            instance: Instance {
                id: Uuid::from_u128(id),
                address: address.to_owned(),
                version: String::new(),
                draining: false,
                settings: BTreeMap::new(),
                activity: BTreeMap::new(),
            },
            silence,
            ahead: Duration::ZERO,
            start_time,
        }
    }

    #[test]
    fn brokers_keep_their_places_while_they_run() {
        let (now, long_ago) = (Duration::ZERO, Duration::from_secs(86_000));
        let mut brokers = vec![
            broker(2, "two:1", now, 5),
            broker(1, "one:1", now, 6),
            broker(4, "one:1", long_ago, 3),
            broker(3, "one:1", long_ago, 4),
        ];
        for _ in 0..brokers.len() {
            brokers.rotate_left(1);
            sort(&mut brokers);
            let ids = brokers.iter().map(|broker| broker.instance.id.as_u128());
            assert!(ids.eq(1..=4), "{brokers:?}");
        }
    }
}
