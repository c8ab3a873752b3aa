//! Deletes old rows of a queue's archive table, directly in the database.

use std::slice;

use lease_broker_model::queue::OnComplete;
use lease_broker_store::{ArchiveCutoff, QueueIndex};
use serde_json::json;

use super::change::ChangeArgs;
use crate::broker::retention::purge_archive_step;
use crate::cli::CommandError;
use crate::cli::config_args::{configured_queue, open_existing_store};
use crate::cli::confirm::confirm_change;
use crate::cli::output::{Row, plural};
use crate::grpc::millis;

/// The only queue of the store that is opened.
const QUEUE: QueueIndex = QueueIndex(0);

/// Deletes the rows of the archive that were completed before the moment of `--before`.
pub(super) async fn purge(
    queue: &str,
    keys: &[String],
    args: &ChangeArgs,
) -> Result<(), CommandError> {
    let Some(config) = args.place.database() else {
        return Err(CommandError::usage(
            "--state archive: the service has no rpc for the archive; open the database with --config or --store",
        ));
    };
    if !keys.is_empty() || !args.has_only_before()? {
        return Err(CommandError::usage(
            "--state archive: only --before selects rows of the archive, and it cannot be combined with keys, --limit, --rate or \
             other filters",
        ));
    }
    let before = args.filter.before.as_ref();
    let before = before.ok_or_else(|| CommandError::usage("--state archive requires --before"))?;
    let before = millis(before);
    let config = config.load(Vec::new())?;
    let spec = configured_queue(&config, queue)?;
    if !spec.allows_purge {
        return Err(CommandError::usage(format!(
            "the rows of queue {queue:?} may not be deleted: the broker did not create its table, and its settings lack purge = true"
        )));
    }
    if !matches!(spec.on_complete, OnComplete::Archive(_)) {
        return Err(CommandError::usage(format!(
            "queue {queue:?} has no archive table"
        )));
    }
    let store = open_existing_store(&config, slice::from_ref(spec)).await?;
    let count = store.count_archived(QUEUE, before).await?;
    let row = |name: &str, rows: u64| {
        Row::default()
            .field("queue", queue)
            .field("action", "purge")
            .field("items", "archived")
            .field(name, json!(rows))
    };
    let rows = plural(count, "row");
    if args.is_dry_run() {
        let fits = if count == 1 { "fits" } else { "fit" };
        let sentence = format!("{rows} in the archive of queue {queue} {fits}");
        args.place
            .output()
            .print_result(&sentence, &row("matched", count));
    }
    if count == 0 {
        return Err(CommandError::nothing_matched(format!(
            "no row in the archive of queue {queue} fits"
        )));
    }
    if args.is_dry_run() {
        return Ok(());
    }
    if count > 1 {
        let question = format!("Delete {rows} from the archive of queue {queue}?");
        confirm_change(&question, args.says_yes())?;
    }
    let cutoff = ArchiveCutoff::Time(before);
    let mut deleted = 0;
    loop {
        match purge_archive_step(&*store, QUEUE, cutoff).await? {
            0 => break,
            rows => deleted += rows as u64,
        }
    }
    let (rows, was) = match deleted {
        1 => ("1 row".to_owned(), "was"),
        _ => (plural(deleted, "row"), "were"),
    };
    args.place
        .output()
        .print_result(&format!("{rows} {was} deleted"), &row("changed", deleted));
    Ok(())
}
