//! The request to extend a lease, and its result.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::lease_trace::LeaseTrace;

use super::claim::LeaseExpiry;
use crate::error::Refusal;

/// A request to extend a lease.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The lease.
    pub lease: LeaseRef,
    /// The duration of the lease, counted from now.
    pub duration: Duration,
    /// The checkpoint to store. Empty: the stored one is removed. `None`: the stored one stays. Only for queues with
    /// checkpoints.
    pub checkpoint: Option<Vec<u8>>,
    /// Facts for the lease's span. The store does not read them. `None`: there are none.
    pub trace: Option<Box<LeaseTrace>>,
}

impl Renewal {
    /// Returns a renewal without a checkpoint.
    pub fn new(lease: LeaseRef, duration: Duration) -> Self {
        Self {
            lease,
            duration,
            checkpoint: None,
            trace: None,
        }
    }
}

/// The result of a [`Renewal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease was extended.
    Extended(LeaseExpiry),
    /// The lease is not held. Nothing was changed.
    Lost {
        /// The present state of the item, also if another lease has changed it. `None`: no row has the key of the lease.
        state: Option<State>,
        /// The reason, if the lease was cancelled and the item has not been claimed since then.
        cancel_reason: Option<String>,
    },
    /// The renewal cannot be applied as it was sent. It changed nothing: a lease that was held is still held.
    Refused(Refusal),
}

impl Renewed {
    /// The result for a lease that never existed.
    pub const UNKNOWN: Self = Self::Lost {
        state: None,
        cancel_reason: None,
    };

    /// Returns the new expiry, or `None` if the lease is lost.
    pub const fn expiry(&self) -> Option<LeaseExpiry> {
        match self {
            Self::Extended(expiry) => Some(*expiry),
            Self::Lost { .. } | Self::Refused(_) => None,
        }
    }
}
