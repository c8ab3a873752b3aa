//! New items: what a producer or a completion adds.

use std::time::Duration;

use lease_broker_value::Value;

use super::queue_index::QueueIndex;

/// An item that a completion adds to a queue.
#[derive(Clone, Debug)]
pub struct FollowUp {
    /// The queue to which the item is added. It can be another queue than that of the completed item.
    pub queue: QueueIndex,
    /// The item.
    pub item: NewItem,
}

/// An item to add.
#[derive(Clone, Debug, Default)]
pub struct NewItem {
    /// The columns that the item sets, with their values. All other columns take the table's defaults.
    pub columns: Vec<(String, Value)>,
    /// The delay until the item is ready; zero makes it ready immediately.
    pub delay: Duration,
    /// The W3C trace context of the producer.
    pub trace_parent: Option<String>,
}
