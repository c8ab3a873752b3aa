//! The check of a run: every item was settled exactly once, no lease was lost, and the store contains the expected
//! items.

use super::args::LoadArgs;
use super::samples::Measured;
use super::target::StoreCounts;

/// Returns the errors of a run, one sentence each.
///
/// `store_counts`: the counts before and after the run, if the store is known. `exclusive`: no other program can use
/// the queues, so every item must come from this run.
pub(super) fn errors(
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
    use crate::cli::bench::item_ledger::ItemCounts;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn load(flags: &[&str]) -> LoadArgs {
        let flags = Flags::parse_from([&["bench"], flags].concat());
        flags.load.resolve(1).expect("valid flags")
    }

    fn timed() -> LoadArgs {
        load(&["--duration", "1s", "--backlog", "2"])
    }

    fn ten_items() -> LoadArgs {
        load(&["--items", "10"])
    }

    /// Ten items were enqueued and eight completed.
    fn measured(items: ItemCounts) -> Measured {
        Measured {
            items: ItemCounts {
                enqueued: 10,
                completed: 8,
                ..items
            },
            ..Measured::default()
        }
    }

    fn store_counts(unfinished: u64, dead: u64) -> StoreCounts {
        StoreCounts { unfinished, dead }
    }

    #[test]
    fn complete_accounts_pass() {
        let run = measured(ItemCounts {
            unfinished: 2,
            ..ItemCounts::default()
        });
        let counts = Some([store_counts(5, 1), store_counts(7, 1)]);
        let errors = errors(&timed(), &run, counts, true);
        assert_eq!(errors, [] as [&str; 0]);
    }

    #[test]
    fn wrong_store_counts_are_errors() {
        for after in [store_counts(1, 0), store_counts(3, 0), store_counts(2, 1)] {
            let counts = Some([StoreCounts::default(), after]);
            let run = measured(ItemCounts::default());
            let errors = errors(&timed(), &run, counts, true);
            assert_eq!(errors.len(), 1, "{after:?}: {errors:?}");
        }
    }

    #[test]
    fn repeated_foreign_and_unfinished_items_are_errors() {
        let run = measured(ItemCounts {
            unfinished: 2,
            unexpected: 1,
            settled_twice: 1,
            ..ItemCounts::default()
        });
        assert_eq!(errors(&ten_items(), &run, None, true).len(), 3);
        // In a shared queue, another program can have enqueued the unexpected item.
        assert_eq!(errors(&ten_items(), &run, None, false).len(), 2);
    }

    #[test]
    fn lost_leases_are_errors() {
        let run = measured(ItemCounts {
            leases_lost: 1,
            ..ItemCounts::default()
        });
        let errors = errors(&timed(), &run, None, true);
        assert_eq!(errors, ["1 leases were lost"]);
    }

    #[test]
    fn an_item_claimed_after_the_end_is_an_error() {
        let mut run = measured(ItemCounts::default());
        run.claimed_after_end = 1;
        assert_eq!(errors(&ten_items(), &run, None, true).len(), 1);
    }
}
