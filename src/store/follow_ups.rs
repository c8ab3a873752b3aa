//! Checks the follow-up items of a completion before a store changes anything.

use super::{Ending, NewItem, Problem, QueueIndex, Refusal, Settlement, StoreError};

/// Returns the refusal of the first bad follow-up item in `settlement`, or `None` if all of them are good.
///
/// `check_item` checks one item for a queue. For a bad item it returns the column that causes the refusal and the
/// reason.
pub(super) fn refusal(
    settlement: &Settlement,
    check_item: impl Fn(QueueIndex, &NewItem) -> Result<Result<(), (String, Problem)>, StoreError>,
) -> Result<Option<Refusal>, StoreError> {
    let Ending::Complete { follow_ups } = &settlement.ending else {
        return Ok(None);
    };
    for (index, follow_up) in follow_ups.iter().enumerate() {
        if let Err((column, problem)) = check_item(follow_up.queue, &follow_up.item)? {
            return Ok(Some(Refusal::of_follow_up(index, Some(&column), problem)));
        }
    }
    Ok(None)
}
