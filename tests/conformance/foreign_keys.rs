//! Warnings about foreign keys that refer to the table of a queue.

use lease_broker_model::queue::OnComplete;

use crate::harness::Harness;
use crate::harness::fixture::{HOUR, item_table, queue};

/// Creates the queue's table, and three tables that refer to it.
async fn start<H: Harness>() -> H {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    for (name, action) in [
        ("line", ""),
        ("part", "ON DELETE CASCADE"),
        ("remark", "ON DELETE SET NULL"),
    ] {
        let table = format!(
            "CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, item_id bigint NULL REFERENCES item (id) {action})"
        );
        harness.run_sql(&table).await.expect(&table);
    }
    harness
}

pub(crate) async fn keys_that_refuse_or_change_removals_are_warned_of<H: Harness>() {
    let harness = start::<H>().await;
    let mut spec = queue("item");
    for (on_complete, removes) in [
        (OnComplete::Delete, "deletes completed rows"),
        (OnComplete::Archive("done".to_owned()), "to its archive"),
    ] {
        spec.on_complete = on_complete;
        let warnings = harness.warnings(&spec).await;
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        for (warning, (table, effect)) in warnings.iter().zip([
            ("line", "cannot be completed"),
            ("part", "also deletes and locks"),
            ("remark", "also changes and locks"),
        ]) {
            for part in [table, effect, removes] {
                assert!(warning.contains(part), "no {part}: {warning}");
            }
        }
    }
}

pub(crate) async fn keys_that_refuse_retention_are_warned_of<H: Harness>() {
    let harness = start::<H>().await;
    let mut spec = queue("item");
    spec.keep_for.dead = Some(HOUR);
    for on_complete in [OnComplete::Keep, OnComplete::Recur(HOUR)] {
        spec.on_complete = on_complete;
        let warnings = harness.warnings(&spec).await;
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        for (warning, (table, effect)) in warnings.iter().zip([
            ("line", "is kept, however old it is"),
            ("part", "each deletion also deletes and locks"),
            ("remark", "each deletion also changes and locks"),
        ]) {
            for part in [table, effect, "deletes old rows (keep_for)"] {
                assert!(warning.contains(part), "no {part}: {warning}");
            }
        }
    }
}

pub(crate) async fn keys_do_not_matter_where_rows_are_kept<H: Harness>() {
    let harness = start::<H>().await;
    assert_eq!(harness.warnings(&queue("item")).await, [""; 0]);
}
