//! Broken promises, in builds with the feature `sabotage` only. `tests/chaos` uses such a build to prove that its checker finds
//! each of them.
//!
//! The environment variable `LEASE_BROKER_SABOTAGE` chooses one. Without it the build keeps every promise.

use super::quote::quote;
use crate::queue::{SoftLock, SoftLockColumn};

/// The value with which a settlement ends the lease on its item, whichever lease that is.
const SETTLE_WITHOUT_FENCE: &str = "settle_without_fence";
/// The value with which a heartbeat extends the lease on its item, whichever lease that is.
const HEARTBEAT_WITHOUT_CHECK: &str = "heartbeat_without_check";
/// The value with which a completion adds no follow-ups.
const DROP_FOLLOW_UPS: &str = "drop_follow_ups";

fn is_chosen(sabotage: &str) -> bool {
    std::env::var("LEASE_BROKER_SABOTAGE").is_ok_and(|chosen| chosen == sabotage)
}

/// Returns whether completions add no follow-ups.
pub(super) fn drops_follow_ups() -> bool {
    is_chosen(DROP_FOLLOW_UPS)
}

/// Removes the condition on the lease from the chosen statements: those that settle, or the one of a heartbeat.
pub(super) fn change(settlements: [&mut String; 3], heartbeat: &mut String, soft_lock: &SoftLock) {
    let name = |column| quote(soft_lock.name(column));
    let condition = format!(
        "{} = ?4 AND {} = ?7 AND {} > ?5",
        name(SoftLockColumn::Token),
        name(SoftLockColumn::Fence),
        name(SoftLockColumn::DueTime)
    );
    let changed = if is_chosen(SETTLE_WITHOUT_FENCE) {
        Vec::from(settlements)
    } else if is_chosen(HEARTBEAT_WITHOUT_CHECK) {
        vec![heartbeat]
    } else {
        vec![]
    };
    for sql in changed {
        // The parameters stay, because the caller binds them.
        *sql = sql.replace(&condition, "coalesce(?4, ?7, ?5) IS NOT NULL");
    }
}
