//! The messages of the API with only what a load generator looks at. Texts and whole items stay bytes: they are neither
//! copied nor checked, so that the cores are left to the broker.

use prost::Message;
use prost::bytes::Bytes;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClaimBatchRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) worker_id: Bytes,
    #[prost(int32, tag = "3")]
    pub(super) max_items: i32,
    #[prost(message, optional, tag = "4")]
    pub(super) lease_duration: Option<prost_types::Duration>,
    #[prost(message, optional, tag = "5")]
    pub(super) wait_timeout: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClaimBatchResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) leases: Vec<Lease>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Lease {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) lease_id: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(super) item: Option<Item>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Item {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
}

/// Heartbeat's and Release's, whose first fields are the same.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseIds {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) ids: Vec<Bytes>,
    /// Heartbeat's `lease_duration`, Release's `delay`.
    #[prost(message, optional, tag = "3")]
    pub(super) duration: Option<prost_types::Duration>,
}

/// Complete's and Fail's.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Endings {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(super) endings: Vec<Ending>,
}

/// A `Completion` or, with a delay, a `Failure`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Ending {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) lease_id: Bytes,
    #[prost(message, optional, tag = "3")]
    pub(super) retry_delay: Option<prost_types::Duration>,
}

/// Every answer about leases.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Outcomes {
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<Outcome>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Outcome {
    #[prost(int32, tag = "2")]
    pub(super) outcome: i32,
}

/// The same where the state is told: not by Heartbeat, whose third field is a time.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SettleResults {
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<SettleResult>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SettleResult {
    #[prost(int32, tag = "2")]
    pub(super) outcome: i32,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnqueueRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    /// Items as they are encoded.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnqueueResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) keys: Vec<Bytes>,
}
