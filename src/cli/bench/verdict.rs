//! Whether the work was done as it must be: every item once, no lease lost, nothing gone.

use super::load::{Load, Work};
use super::measured::Measured;
use super::stock::Stock;

/// Returns what is wrong, a sentence each. `stock` is what the store said that it had before and after, and `alone` tells
/// whether nobody else uses the queues.
pub(super) fn wrongs(
    load: &Load,
    measured: &Measured,
    stock: Option<[Stock; 2]>,
    alone: bool,
) -> Vec<String> {
    let Measured { total, balance, .. } = measured;
    let mut wrongs = Vec::new();
    let mut check = |wrong: bool, text: &dyn Fn() -> String| {
        if wrong {
            wrongs.push(text());
        }
    };
    check(balance.again > 0, &|| {
        format!("{} items were ended more than once", balance.again)
    });
    check(total.lost > 0, &|| {
        format!("{} leases were lost", total.lost)
    });
    check(alone && balance.found > 0, &|| {
        format!("{} items came that nobody had added", balance.found)
    });
    if matches!(load.work, Work::Items(_)) {
        check(balance.left > 0, &|| {
            format!("{} of {} items were not ended", balance.left, total.added)
        });
        check(alone && measured.claimed_after > 0, &|| {
            "a claim got an item after all had ended".to_owned()
        });
    }
    if let Some([before, after]) = stock {
        let ended = total.completed + total.dead;
        let expected = (before.unfinished + total.added).saturating_sub(ended);
        check(after.unfinished != expected, &|| {
            format!(
                "{} items were added and {ended} ended, so {expected} must be left, and the store has {}",
                total.added, after.unfinished
            )
        });
        let dead = after.dead.saturating_sub(before.dead);
        check(dead != total.dead, &|| {
            format!("{} items were given up, and {dead} are dead", total.dead)
        });
    }
    wrongs
}
