//! The list of broker processes, and the order to stop.

use lease_broker_store::{BrokerList, ListedBroker, SettingsHash};
use uuid::Uuid;

use super::Operator;
use crate::broker::error::Error;

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
        Ok(ListedBrokers {
            list: self.inspect.brokers().await?,
            own: self.broker_id.get().copied(),
        })
    }

    /// Returns the queues whose settings at a broker differ from those here.
    pub fn differing_queues(&self, broker: &ListedBroker) -> Vec<String> {
        let queues = self.queues.iter().filter(|queue| {
            let theirs = broker.settings.get(&queue.name);
            theirs.is_some_and(|theirs| SettingsHash::new(queue).difference(theirs).is_some())
        });
        queues.map(|queue| queue.name.clone()).collect()
    }

    /// Tells a broker process to drain and to end. Returns this process only.
    ///
    /// # Errors
    /// [`Error::BrokerNotFound`], and those of the store.
    pub async fn drain_broker(&self, broker: Uuid) -> Result<ListedBrokers, Error> {
        if !self.store()?.request_drain(broker).await? {
            return Err(Error::BrokerNotFound(broker));
        }
        let mut listed = self.list_brokers().await?;
        let brokers = &mut listed.list.brokers;
        brokers.retain(|listed| listed.id == broker);
        let told = brokers.first_mut().ok_or(Error::BrokerNotFound(broker))?;
        // It reads the order a moment later.
        told.draining = true;
        Ok(listed)
    }
}
