//! The items that completions add, looked at before anything is changed.

use super::{Ending, NewItem, QueueIndex, Rejection, Settlement, StoreError};

/// Refuses what can't be added, whether its lease is held or not. `accepts` says of an item for a queue which column is to
/// blame and why.
pub(super) fn check(
    settlements: &[Settlement],
    accepts: impl Fn(QueueIndex, &NewItem) -> Result<Result<(), (String, String)>, StoreError>,
) -> Result<(), StoreError> {
    for (item, settlement) in settlements.iter().enumerate() {
        let Ending::Complete { follow_ups } = &settlement.ending else {
            continue;
        };
        for (at, follow_up) in follow_ups.iter().enumerate() {
            let accepted = accepts(follow_up.queue, &follow_up.item)?;
            accepted.map_err(|(column, problem)| {
                StoreError::Rejected(Rejection {
                    item,
                    follow_up: Some(at),
                    column: Some(column),
                    problem,
                })
            })?;
        }
    }
    Ok(())
}
