//! Suspects: ready items whose last lease expired. Processing one of them may have crashed its worker.
//!
//! A worker's process holds several leases, and a crash loses all of them. If the items were claimed together again, the one that
//! crashes workers would use up the attempts of its neighbours. So a suspect goes alone to a worker that holds no other lease, over
//! all its connections, and that worker gets nothing else until it has settled the suspect.
//!
//! A worker without leases gets the suspect that waits longest before other items. Workers with several slots may never be without
//! a lease. So if a suspect has waited for the queue's default duration of a lease, workers that hold leases get nothing until they
//! have settled them.
//!
//! `tests/proof/poison.rs` checks these rules. The stores keep a list of the suspects, `lease_broker_suspect`. A claim reads it
//! first, and decides by [`share_of`] only if it has entries.

/// The leases that a worker holds, on any connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// None.
    Nothing,
    /// Leases of items that were no suspects.
    Items,
    /// The lease of a suspect.
    Suspect,
}

/// The items that a claim may lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All ready items.
    All,
    /// The suspect that waits longest, and no other item.
    Suspect,
    /// All ready items that are not suspects.
    Others,
    /// None.
    Nothing,
}

/// Returns the share of a claim. `is_overdue`: whether the suspect that waits longest has waited for the queue's default duration of
/// a lease. `None`: no suspect waits.
pub const fn share_of(holding: Holding, is_overdue: Option<bool>) -> Share {
    match (holding, is_overdue) {
        (Holding::Suspect, _) | (Holding::Items, Some(true)) => Share::Nothing,
        (_, None) => Share::All,
        (Holding::Nothing, Some(_)) => Share::Suspect,
        (Holding::Items, Some(false)) => Share::Others,
    }
}
