//! Errors of calls, counted by rpc and reason.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::latency::Rpc;

/// The number of errors of each rpc, by the reason in the error's details, or else by its status code.
pub(crate) type ErrorCounts = BTreeMap<Rpc, BTreeMap<String, u64>>;

/// Counts the errors of a run.
#[derive(Default)]
pub(crate) struct Errors(Mutex<ErrorCounts>);

impl Errors {
    pub(crate) fn add(&self, rpc: Rpc, reason: String) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(rpc).or_default().entry(reason).or_default() += 1;
    }

    /// Returns the counts.
    pub(crate) fn counts(&self) -> ErrorCounts {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }

    /// Removes all counts.
    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}
