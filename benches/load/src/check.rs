//! The check of a run: every item was settled exactly once, no lease was lost, and the store contains the expected
//! items.

use crate::args::LoadArgs;
use crate::samples::Measured;
use crate::target::StoreCounts;

/// Returns the errors of a run, one sentence each.
///
/// `store_counts`: the counts before and after the run, if the store is known. `exclusive`: no other program can use
/// the queues, so every item must come from this run.
pub(crate) fn errors(
    load: &LoadArgs,
    measured: &Measured,
    store_counts: Option<[StoreCounts; 2]>,
    exclusive: bool,
) -> Vec<String> {
    let items = &measured.items;
    let mut errors = Vec::new();
    if items.settled_twice > 0 {
        errors.push(format!("{} items were settled twice", items.settled_twice));
    }
    if items.leases_lost > 0 {
        errors.push(format!("{} leases were lost", items.leases_lost));
    }
    if exclusive && items.unexpected > 0 {
        errors.push(format!(
            "{} items were settled that this run did not enqueue",
            items.unexpected
        ));
    }
    if load.items.is_some() && items.unfinished > 0 {
        errors.push(format!(
            "{} of {} items were not completed",
            items.unfinished, items.enqueued
        ));
    }
    if exclusive && measured.claimed_after_end > 0 {
        errors.push("a claim returned an item after all items were completed".to_owned());
    }
    if let Some([before, after]) = store_counts {
        let finished = items.finished();
        let expected = (before.unfinished + items.enqueued).saturating_sub(finished);
        if after.unfinished != expected {
            errors.push(format!(
                "{} items were enqueued and {finished} finished, so the store must contain {expected} unfinished \
                 items, but it contains {}",
                items.enqueued, after.unfinished
            ));
        }
        let dead = after.dead.saturating_sub(before.dead);
        if dead != items.dead {
            errors.push(format!(
                "{} items were reported dead, but the store contains {dead} more dead items",
                items.dead
            ));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const TIMED: &str = "bench --duration 1s --backlog 2";
    const TEN_ITEMS: &str = "bench --items 10";

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        load: LoadArgs,
    }

    /// Checks a run that enqueued ten items and completed eight. `store_counts`: the unfinished and the dead items.
    fn check(
        flags: &str,
        mut run: Measured,
        store_counts: Option<[(u64, u64); 2]>,
        exclusive: bool,
    ) -> Vec<String> {
        let flags = Flags::parse_from(flags.split(' '));
        let load = flags.load.resolve(1).expect("valid flags");
        (run.items.enqueued, run.items.completed) = (10, 8);
        let to_counts = |(unfinished, dead)| StoreCounts { unfinished, dead };
        let store_counts = store_counts.map(|counts| counts.map(to_counts));
        errors(&load, &run, store_counts, exclusive)
    }

    #[test]
    fn complete_accounts_pass() {
        let mut run = Measured::default();
        run.items.unfinished = 2;
        let errors = check(TIMED, run, Some([(5, 1), (7, 1)]), true);
        assert_eq!(errors, [] as [&str; 0]);
    }

    #[test]
    fn wrong_store_counts_are_errors() {
        for after in [(1, 0), (3, 0), (2, 1)] {
            let errors = check(TIMED, Measured::default(), Some([(0, 0), after]), true);
            assert_eq!(errors.len(), 1, "{after:?}: {errors:?}");
        }
    }

    #[test]
    fn repeated_foreign_and_unfinished_items_are_errors() {
        // In a shared queue, another program can have enqueued the unexpected item.
        for (exclusive, expected) in [(true, 3), (false, 2)] {
            let mut run = Measured::default();
            (run.items.unfinished, run.items.unexpected) = (2, 1);
            run.items.settled_twice = 1;
            assert_eq!(check(TEN_ITEMS, run, None, exclusive).len(), expected);
        }
    }

    #[test]
    fn lost_leases_are_errors() {
        let mut run = Measured::default();
        run.items.leases_lost = 1;
        assert_eq!(check(TIMED, run, None, true), ["1 leases were lost"]);
    }

    #[test]
    fn an_item_claimed_after_the_end_is_an_error() {
        let run = Measured {
            claimed_after_end: 1,
            ..Measured::default()
        };
        assert_eq!(check(TEN_ITEMS, run, None, true).len(), 1);
    }
}
