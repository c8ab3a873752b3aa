//! What operators look at and change: queues, groups, items, pauses, operations on many items, and brokers.
//!
//! An [`Operator`] needs no running broker: commands use one directly on a database.

mod brokers;
mod definition;
mod groups;
mod items;
mod leases;
mod limits;
mod operations;
mod page_token;
mod pauses;
mod queues;
mod runner;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{Browse, QueueIndex, Store, StoreError};
use uuid::Uuid;

pub use self::brokers::{LEFT_QUEUE, ListedBrokers};
pub use self::definition::{ItemSelection, OperationChange};
pub use self::groups::GroupPage;
pub use self::items::{ItemList, ListItems, MAX_PAGE, OneItem};
pub use self::operations::{DryRun, OperationList, OperationView, StartOperation};
pub use self::queues::{CountLimits, QueueState};
pub(super) use self::runner::OperationRunner;
use super::error::Error;
use super::recorded_leases::RecordedLeases;
use super::wakeups::Wakeups;

/// The caller of a change.
#[derive(Clone, Debug, Default)]
pub struct Actor {
    /// The name of the caller's identity. Empty: it is not known.
    pub name: String,
}

/// Serves operators on the queues of one store.
pub struct Operator {
    /// Reads the database.
    inspect: Arc<dyn Browse>,
    /// Changes the database. `None`: it can only be read.
    store: Option<Arc<dyn Store>>,
    queues: Arc<[QueueSpec]>,
    index_by_name: HashMap<String, QueueIndex>,
    /// The wake-ups of this broker's queues. Empty: no broker runs in this process.
    wakeups: Arc<[Arc<Wakeups>]>,
    /// The maximum number of items per call.
    max_items: usize,
    /// Records leases, and knows the traces of items. `None`: no broker runs in this process.
    pub(super) recorded: Option<Arc<RecordedLeases>>,
    /// The id of this broker. Empty: it has not announced itself.
    pub(super) broker_id: OnceLock<Uuid>,
}

impl Operator {
    /// Serves the queues of a store. `max_items`: the maximum number of items per call.
    pub fn new(store: Arc<dyn Store>, queues: &[QueueSpec], max_items: usize) -> Self {
        Self::with_wakeups(store, queues, max_items, Arc::new([]))
    }

    /// Serves the queues of a store that can only be read. Every change fails with [`Error::StoreMisconfigured`].
    pub fn reading(inspect: Arc<dyn Browse>, queues: &[QueueSpec]) -> Self {
        Self::over(inspect, None, queues, 0, Arc::new([]))
    }

    pub(super) fn with_wakeups(
        store: Arc<dyn Store>,
        queues: &[QueueSpec],
        max_items: usize,
        wakeups: Arc<[Arc<Wakeups>]>,
    ) -> Self {
        Self::over(
            store.reads().clone(),
            Some(store),
            queues,
            max_items,
            wakeups,
        )
    }

    fn over(
        inspect: Arc<dyn Browse>,
        store: Option<Arc<dyn Store>>,
        queues: &[QueueSpec],
        max_items: usize,
        wakeups: Arc<[Arc<Wakeups>]>,
    ) -> Self {
        let names = queues.iter().enumerate();
        Self {
            inspect,
            store,
            queues: queues.into(),
            index_by_name: names
                .map(|(index, queue)| (queue.name.clone(), QueueIndex(index)))
                .collect(),
            wakeups,
            max_items,
            recorded: None,
            broker_id: OnceLock::new(),
        }
    }

    /// Returns the names of the queues, in the order of the configuration.
    pub fn queue_names(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|queue| queue.name.as_str())
    }

    /// Returns the settings of a queue.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`].
    pub fn spec(&self, queue: &str) -> Result<&QueueSpec, Error> {
        self.queue(queue).map(|(_, spec)| spec)
    }

    /// Returns a queue by its name.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`].
    pub(super) fn queue(&self, name: &str) -> Result<(QueueIndex, &QueueSpec), Error> {
        let index = self.index_by_name.get(name);
        let index = *index.ok_or_else(|| Error::QueueNotFound(name.to_owned()))?;
        Ok((index, &self.queues[index.0]))
    }

    fn store(&self) -> Result<&Arc<dyn Store>, Error> {
        let read_only = || Error::StoreMisconfigured("it was opened to be read only".to_owned());
        self.store.as_ref().ok_or_else(read_only)
    }

    /// Notes that items of a queue are ready after this time. If there is a broker, its claims that wait get them.
    fn wake(&self, queue: QueueIndex, delay: Duration) {
        if let Some(wakeups) = self.wakeups.get(queue.0) {
            wakeups.notify_item_ready_in(delay);
        }
    }
}

/// Turns the rejection of a search into the caller's error: a column of the filter is wrong.
fn filter_error(error: StoreError) -> Error {
    match error {
        StoreError::Rejected(rejection) => {
            let column = rejection.column.unwrap_or_default();
            Error::invalid(
                format!("filter.columns[{column:?}]"),
                rejection.problem.text,
            )
        }
        other => other.into(),
    }
}
