//! The reasons why a claim gets no lease.

use std::time::Duration;

use lease_broker_model::named_enum;
use lease_broker_store::{Claimed, Limited};
use parking_lot::Mutex;
use tokio::time::Instant;

named_enum! {
    /// Why a claim gets no lease.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HeldBack {
        /// No item is ready.
        NothingReady = "nothing_ready",
        /// The ready items that the claim looked at are larger than its response may be.
        TooLarge = "too_large",
        /// The queue is paused.
        Paused = "paused",
        /// The broker stops.
        Stopping = "stopping",
        /// The claim was ended by a release of its request id.
        Released = "released",
        /// Items are ready, and their groups hold them back.
        GroupsBusy = "groups_busy",
        /// The queue has as many leases as it may have.
        MaxLeases = "max_leases",
        /// The rate of the queue is used up.
        Rate = "rate",
        /// The worker holds an item whose last lease expired, or it holds leases while such an item waits.
        Suspects = "suspects",
    }
}

impl HeldBack {
    /// Reports whether the end of a lease can let the claim get an item.
    pub(super) fn ends_with_a_lease(self) -> bool {
        matches!(self, Self::GroupsBusy | Self::MaxLeases | Self::Suspects)
    }
}

/// Why the last store operation of a queue left claims without items.
pub(super) struct LastReason(Mutex<(HeldBack, Option<Instant>)>);

impl Default for LastReason {
    fn default() -> Self {
        Self(Mutex::new((HeldBack::NothingReady, None)))
    }
}

impl LastReason {
    /// Notes the results of a store operation. Returns the time until a rate allows an item, if that is the reason.
    pub(super) fn note(&self, results: &[Claimed]) -> Option<Duration> {
        let is_paused = results.iter().any(|claimed| claimed.is_paused);
        // Suspects are a reason for one worker only.
        let mut limited = results.iter().filter_map(|claimed| claimed.limited);
        let limited = limited.find(|limited| *limited != Limited::Suspects);
        let (held_back, wait) = match limited {
            _ if is_paused => (HeldBack::Paused, None),
            None | Some(Limited::Suspects) => (HeldBack::NothingReady, None),
            Some(Limited::GroupsBusy { wait }) => (HeldBack::GroupsBusy, wait),
            Some(Limited::MaxLeases) => (HeldBack::MaxLeases, None),
            Some(Limited::Rate { wait }) => (HeldBack::Rate, Some(wait)),
        };
        // The rate of a group holds only this group back. Another can have items before.
        let known = wait.filter(|_| held_back == HeldBack::Rate);
        let until = known.and_then(|wait| Instant::now().checked_add(wait));
        *self.0.lock() = (held_back, until);
        wait
    }

    /// Returns the reason, and the time to wait before the next claim, if it is known.
    pub(super) fn get(&self) -> (HeldBack, Option<Duration>) {
        let (held_back, until) = *self.0.lock();
        (held_back, until.map(|until| until - Instant::now()))
    }
}
