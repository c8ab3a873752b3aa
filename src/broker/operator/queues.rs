//! The present state of queues: counts, ages, pauses, rates and running operations.

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{Activity, QueueIndex, QueuePause, Stats, StoreError};

use super::Operator;
use super::operations::OperationView;
use crate::broker::error::Error;

/// The reason why a table cannot be read, as a caller gets it. The cause can name hosts, logins and statements.
const UNREADABLE: &str = "the table cannot be read: the schema, the login or the configuration must be corrected; the broker's log has the cause";

/// The present state of a queue.
#[derive(Clone, Debug)]
pub struct QueueState<'a> {
    /// The settings of the queue here.
    pub spec: &'a QueueSpec,
    /// The counts and ages.
    ///
    /// # Errors
    /// The reason why the table cannot be read, for the caller.
    pub stats: Result<Stats, &'static str>,
    /// The pause. `None`: the queue is not paused.
    pub pause: Option<QueuePause>,
    /// The activity of all live brokers together.
    pub activity: Activity,
    /// The operations that run.
    pub operations: Vec<OperationView>,
}

impl Operator {
    /// Returns the state of queues, each once and sorted by name: of these, or of those that `is_visible` accepts if
    /// there is no name. `exact`: every item is counted. A queue whose table cannot be read does not hide the others.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], and those of the store.
    pub async fn list_queues(
        &self,
        names: &[String],
        exact: bool,
        is_visible: impl Fn(&str) -> bool,
    ) -> Result<Vec<QueueState<'_>>, Error> {
        let mut selected = Vec::new();
        for name in names {
            selected.push(self.queue(name)?.0);
        }
        if names.is_empty() {
            let visible = self.queue_names().filter(|name| is_visible(name));
            selected.extend(visible.filter_map(|name| self.index_by_name.get(name).copied()));
        }
        selected.sort_unstable_by_key(|index| index.0);
        selected.dedup();
        let pauses = self.inspect.pauses().await?;
        let brokers = self.inspect.brokers().await?.brokers;
        let visible: Vec<String> = selected
            .iter()
            .map(|index| self.queues[index.0].name.clone())
            .collect();
        let running = self.running_operations(visible).await?;
        let mut states = Vec::with_capacity(selected.len());
        for index in selected {
            let spec = &self.queues[index.0];
            let mut activity = Activity::default();
            for broker in brokers.iter().filter(|broker| broker.is_live()) {
                activity += broker.activity.get(&spec.name).copied().unwrap_or_default();
            }
            let mut pauses = pauses.iter();
            let operations = running
                .iter()
                .filter(|view| view.operation.queue == spec.name);
            states.push(QueueState {
                spec,
                stats: self.count_items(index, exact).await?,
                pause: pauses.find(|pause| pause.queue == spec.name).cloned(),
                activity,
                operations: operations.cloned().collect(),
            });
        }
        Ok(states)
    }

    /// Counts the items of a queue. The inner error is that of its table.
    async fn count_items(
        &self,
        index: QueueIndex,
        exact: bool,
    ) -> Result<Result<Stats, &'static str>, Error> {
        let counted = if exact {
            self.inspect.exact_stats(index).await
        } else {
            self.inspect.stats(index).await
        };
        match counted {
            Ok(stats) => Ok(Ok(stats)),
            Err(StoreError::Misconfigured(problem)) => {
                let queue = &self.queues[index.0].name;
                tracing::error!(queue, %problem, "queue cannot be read");
                Ok(Err(UNREADABLE))
            }
            Err(error) => Err(error.into()),
        }
    }
}
