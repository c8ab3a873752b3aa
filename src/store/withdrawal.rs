//! Withdraws operations that a store has accepted and not begun.
//!
//! While a database does not answer, operations wait: for the write lock of a file, or for a connection. When the broker
//! gives them up, those that have not begun are withdrawn, so that their callers can be told that nothing was applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::watch;

use crate::{OutageCause, StoreError};

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The beginning of one operation: it either begins or is withdrawn, whichever comes first. Clones are of the same operation.
#[derive(Clone, Debug, Default)]
pub struct Beginning(Arc<AtomicU8>);

impl Beginning {
    /// Begins the operation, unless it was withdrawn. Returns whether it may run, also if it has begun before.
    pub fn begin(&self) -> bool {
        self.change_to(BEGUN) != WITHDRAWN
    }

    /// Withdraws the operation, unless it has begun. Returns whether it never begins.
    pub fn withdraw(&self) -> bool {
        self.change_to(WITHDRAWN) != BEGUN
    }

    /// Changes the state of an operation that waits. Returns the state before.
    fn change_to(&self, state: u8) -> u8 {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let before = self.0.compare_exchange(WAITING, state, success, failure);
        before.unwrap_or_else(|before| before)
    }
}

/// Withdraws all operations of a store that wait at a moment. Clones are of the same store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Withdrawals(watch::Sender<()>);

impl Withdrawals {
    /// Withdraws the operations that wait now.
    pub(crate) fn withdraw_waiting(&self) {
        self.0.send_replace(());
    }

    /// Waits until the operation is withdrawn. Returns its error. Never returns if the operation has begun before.
    pub(crate) fn next(&self, beginning: &Beginning) -> impl Future<Output = StoreError> + use<> {
        let (mut moments, beginning) = (self.0.subscribe(), beginning.clone());
        async move {
            if moments.changed().await.is_ok() && beginning.withdraw() {
                let cause = OutageCause::NoAnswer;
                return StoreError::not_begun(cause, cause.to_string());
            }
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_begins_or_is_withdrawn() {
        let begun = Beginning::default();
        assert!(begun.begin() && begun.clone().begin());
        assert!(!begun.withdraw());
        let withdrawn = Beginning::default();
        assert!(withdrawn.withdraw() && withdrawn.clone().withdraw());
        assert!(!withdrawn.begin());
    }

    #[tokio::test]
    async fn only_operations_that_wait_are_withdrawn() {
        let withdrawals = Withdrawals::default();
        let (begun, waiting) = (Beginning::default(), Beginning::default());
        assert!(begun.begin());
        let of_begun = withdrawals.next(&begun);
        let of_waiting = withdrawals.next(&waiting);
        withdrawals.withdraw_waiting();
        tokio::select! {
            biased;
            error = of_begun => panic!("{error}"),
            error = of_waiting => assert_eq!(error.applied(), crate::Applied::No),
        }
        assert!(!waiting.begin());
    }
}
