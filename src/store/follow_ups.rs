//! Checks the follow-up items of completions before a store changes anything.

use super::{Ending, NewItem, QueueIndex, Rejection, Settlement, StoreError};

/// Checks every follow-up item in `settlements`, also those of lost leases, and rejects the first bad one.
///
/// `check_item` checks one item for a queue. For a bad item it returns the column that causes the rejection and the
/// reason.
pub(super) fn check(
    settlements: &[Settlement],
    check_item: impl Fn(QueueIndex, &NewItem) -> Result<Result<(), (String, String)>, StoreError>,
) -> Result<(), StoreError> {
    for (item, settlement) in settlements.iter().enumerate() {
        let Ending::Complete { follow_ups } = &settlement.ending else {
            continue;
        };
        for (index, follow_up) in follow_ups.iter().enumerate() {
            let checked = check_item(follow_up.queue, &follow_up.item)?;
            checked.map_err(|(column, problem)| {
                StoreError::Rejected(Rejection {
                    item,
                    follow_up: Some(index),
                    column: Some(column),
                    problem,
                })
            })?;
        }
    }
    Ok(())
}
