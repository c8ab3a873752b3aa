//! Calls, and the group of calls that one store operation takes together.

use std::sync::Arc;

use lease_broker_model::call_source::SourceNumber;
use lease_broker_store::{Beginning, StoreError};
use tokio::sync::oneshot;

use crate::broker::admission::Arrival;
use crate::broker::error::Error;
use crate::call_trace::RecordedCall;

/// The largest number of items of one store operation, unless a single call has more. SQL Server locks the whole table for a
/// statement that takes about 5,000 locks on one index, and a heartbeat takes two for each item there.
pub(in crate::broker) const MAX_GROUP_ITEMS: usize = 1_000;
/// A call group with this many calls, or with [`LARGE_ITEMS`] items, is large. On a database that runs operations at the same time a
/// smaller group waits for the running one to end. Otherwise the database would run many small operations instead of a few large ones.
const LARGE_CALLS: usize = 16;
const LARGE_ITEMS: usize = 250;

/// The reason why a call has failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallFailure {
    /// The store's error. The index in a [`StoreError::Rejected`] counts from the first item of the call.
    Store(StoreError),
    /// The call has waited too long, and the store has not been asked.
    Refused(Error),
}

impl From<CallFailure> for Error {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::Store(error) => error.into(),
            CallFailure::Refused(error) => error,
        }
    }
}

/// The results of a call, one for each of its items.
pub(super) type CallResult<R> = Result<Vec<R>, CallFailure>;

/// A submitted call: its items, and the channel for their results.
pub(super) struct Call<I, R> {
    pub(super) items: Vec<I>,
    pub(super) arrival: Arrival,
    pub(super) source: SourceNumber,
    /// The call, if it is recorded.
    pub(super) recorded: Option<Arc<RecordedCall>>,
    pub(super) beginning: Beginning,
    pub(super) reply: oneshot::Sender<CallResult<R>>,
}

/// The calls that the next operation takes together.
pub(super) struct CallGroup<I, R> {
    pub(super) calls: Vec<Call<I, R>>,
    item_count: usize,
    /// A call that no longer fitted. It is the first of the group after this one.
    overflow: Option<Call<I, R>>,
}

impl<I, R> Default for CallGroup<I, R> {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            item_count: 0,
            overflow: None,
        }
    }
}

impl<I, R> CallGroup<I, R> {
    /// Adds the call if it fits. Otherwise the call waits for the next group, and this one takes no further call.
    pub(super) fn push(&mut self, call: Call<I, R>) {
        debug_assert!(self.overflow.is_none(), "the group takes calls");
        if !self.calls.is_empty() && self.item_count + call.items.len() > MAX_GROUP_ITEMS {
            self.overflow = Some(call);
            return;
        }
        self.item_count += call.items.len();
        self.calls.push(call);
    }

    pub(super) fn takes_calls(&self) -> bool {
        self.overflow.is_none() && self.item_count < MAX_GROUP_ITEMS
    }

    /// Returns the calls. The group begins again, with the call that did not fit.
    pub(super) fn take(&mut self) -> Vec<Call<I, R>> {
        let taken = std::mem::take(self);
        if let Some(call) = taken.overflow {
            self.push(call);
        }
        taken.calls
    }

    /// Returns the number of its items.
    pub(super) const fn items(&self) -> usize {
        self.item_count
    }

    /// Returns whether the group need not wait for further calls.
    pub(super) fn is_large(&self) -> bool {
        !self.takes_calls() || self.calls.len() >= LARGE_CALLS || self.item_count >= LARGE_ITEMS
    }
}
