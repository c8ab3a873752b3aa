//! Groups: items with the same value in one column of the table. A queue can keep order inside each group, lets groups take turns,
//! and can limit leases.

use crate::rate::Rate;

/// The groups of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The column. Rows with NULL in it belong to no group.
    pub column: String,
    /// The order inside a group.
    pub order: GroupOrder,
    /// The maximum number of items of each group that are given out per time. `None`: any number.
    pub rate: Option<Rate>,
}

/// The order inside a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOrder {
    /// Items of a group are processed one after the other, in the queue's order.
    Strict {
        /// True: a dead item holds those behind it back. False: the group goes on.
        halts: bool,
        /// The maximum number of consecutive items of a group that one claim can lease together, as a run: 1 to
        /// [`Groups::MAX_RUN`].
        run: u32,
    },
    /// Items of a group can be processed at the same time.
    Parallel {
        /// The maximum number of leases of a group, 1 to 1,000. `None`: any number.
        max_leases: Option<u32>,
        /// Whether a group can have more leases while no other group can give an item.
        bursts: bool,
    },
}

/// The limits of a queue, over all brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// The maximum number of leases, 1 to 10,000. `None`: any number.
    pub max_leases: Option<u32>,
    /// The maximum number of items that are given out per time. `None`: any number.
    pub rate: Option<Rate>,
}

impl Groups {
    /// The largest number of leases of a group.
    pub const MAX_LEASES: u32 = 1_000;

    /// The largest number of items of a run.
    pub const MAX_RUN: u32 = 100;

    /// Returns whether the items of a group are processed one after the other.
    pub const fn is_strict(&self) -> bool {
        matches!(self.order, GroupOrder::Strict { .. })
    }

    /// Returns whether a dead item holds the rest of its group back.
    pub const fn halts(&self) -> bool {
        matches!(self.order, GroupOrder::Strict { halts: true, .. })
    }

    /// Returns the maximum number of consecutive items of a group that one claim can lease.
    pub const fn run(&self) -> u32 {
        match self.order {
            GroupOrder::Strict { run, .. } => run,
            GroupOrder::Parallel { .. } => 1,
        }
    }

    /// Returns whether a group can have more leases than its limit while no other group can give an item.
    pub const fn bursts(&self) -> bool {
        matches!(self.order, GroupOrder::Parallel { bursts: true, .. })
    }

    /// Returns the policy as the database stores it. Brokers with different policies must not serve a queue together. The limits are
    /// not part of it, because the database's row decides about them.
    pub fn policy(&self) -> String {
        let kind = match self.order {
            GroupOrder::Strict { halts: false, .. } => "strict",
            GroupOrder::Strict { halts: true, .. } => "strict, halts at dead items",
            GroupOrder::Parallel { bursts: false, .. } => "parallel",
            GroupOrder::Parallel { bursts: true, .. } => "parallel with burst",
        };
        let runs = match self.run() {
            ..=1 => String::new(),
            run => format!(", runs of up to {run}"),
        };
        format!("{kind}{runs}, by {}", self.column)
    }
}

impl QueueLimits {
    /// The largest number of leases of a queue: a claim counts them.
    pub const MAX_LEASES: u32 = 10_000;

    /// Returns whether there is no limit.
    pub const fn is_none(&self) -> bool {
        self.max_leases.is_none() && self.rate.is_none()
    }
}
