//! Leases on their way to the worker that claimed them.

use super::group_commit::GroupCommit;
use crate::lease::State;
use crate::store::{ClaimedItem, Ending, Settlement};

/// Leases that nobody has taken yet: those that are dropped are released at once, so that a caller who has gone away
/// keeps no item from others.
pub struct UndeliveredLeases {
    items: Vec<ClaimedItem>,
    releases: GroupCommit<Settlement, Option<State>>,
}

impl UndeliveredLeases {
    pub(super) fn new(
        items: Vec<ClaimedItem>,
        releases: GroupCommit<Settlement, Option<State>>,
    ) -> Self {
        Self { items, releases }
    }

    /// Returns the leases.
    pub fn items(&self) -> &[ClaimedItem] {
        &self.items
    }

    /// Takes the leases over, but gives back those after the first `most`.
    pub fn deliver(mut self, most: usize) -> Vec<ClaimedItem> {
        let rest = self.items.split_off(most.min(self.items.len()));
        let taken = std::mem::replace(&mut self.items, rest);
        drop(self);
        taken
    }
}

impl Drop for UndeliveredLeases {
    fn drop(&mut self) {
        let unclaimed = std::mem::take(&mut self.items);
        self.releases.post(releases_of(unclaimed));
    }
}

/// Returns what gives leases back untouched.
pub(super) fn releases_of(items: Vec<ClaimedItem>) -> Vec<Settlement> {
    let releases = items.into_iter().map(|item| Settlement {
        lease: item.lease,
        ending: Ending::Release {
            delay: std::time::Duration::ZERO,
        },
    });
    releases.collect()
}
