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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::bench::layer::Terms;
    use crate::cli::bench::ledger::{Balance, Tally};
    use crate::cli::bench::load::Mix;

    fn load(work: Work) -> Load {
        Load {
            workers: 1,
            connections: 1,
            batch: 1,
            queues: 1,
            work,
            warm_up: Duration::ZERO,
            mix: Mix {
                heartbeats: 0,
                fail: 0.0,
                release: 0.0,
            },
            next: false,
            rate: None,
            terms: Terms {
                lease: None,
                wait: None,
                column: String::new(),
                payload: String::new(),
            },
        }
    }

    /// Ten items were added and eight completed.
    fn measured(balance: Balance) -> Measured {
        Measured {
            total: Tally {
                added: 10,
                completed: 8,
                ..Tally::default()
            },
            balance,
            ..Measured::default()
        }
    }

    fn stock(unfinished: u64, dead: u64) -> Stock {
        Stock { unfinished, dead }
    }

    const TIMED: Work = Work::For {
        time: Duration::from_secs(1),
        backlog: 2,
    };

    #[test]
    fn a_run_in_which_every_item_is_accounted_for_has_no_wrongs() {
        let left = Balance {
            left: 2,
            ..Balance::default()
        };
        let stock = Some([stock(5, 1), stock(7, 1)]);
        let wrongs = wrongs(&load(TIMED), &measured(left), stock, true);
        assert_eq!(wrongs, [] as [&str; 0]);
    }

    #[test]
    fn items_that_the_store_lacks_or_has_too_many_of_are_told() {
        for after in [stock(1, 0), stock(3, 0), stock(2, 1)] {
            let stock = Some([Stock::default(), after]);
            let wrongs = wrongs(&load(TIMED), &measured(Balance::default()), stock, true);
            assert_eq!(wrongs.len(), 1, "{after:?}: {wrongs:?}");
        }
    }

    #[test]
    fn items_ended_again_found_or_left_are_told() {
        let items = load(Work::Items(10));
        let bad = Balance {
            left: 2,
            found: 1,
            again: 1,
        };
        assert_eq!(wrongs(&items, &measured(bad), None, true).len(), 3);
        // Others may have added the one that was found.
        assert_eq!(wrongs(&items, &measured(bad), None, false).len(), 2);
    }

    #[test]
    fn lost_leases_are_told() {
        let mut lost = measured(Balance::default());
        lost.total.lost = 1;
        assert_eq!(
            wrongs(&load(TIMED), &lost, None, true),
            ["1 leases were lost"]
        );
    }

    #[test]
    fn an_item_to_claim_after_all_have_ended_is_told() {
        let mut more = measured(Balance::default());
        more.claimed_after = 1;
        assert_eq!(wrongs(&load(Work::Items(10)), &more, None, true).len(), 1);
    }
}
