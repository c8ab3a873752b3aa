//! The name of a queue towards a store.

/// Identifies a queue by its index in the list of queues that the store was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueIndex(pub usize);
