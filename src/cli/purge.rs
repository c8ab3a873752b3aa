//! `purge`: deletes old items of a queue, directly in the store.

use std::io::{IsTerminal as _, Write as _, stderr, stdin};
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use lease_broker_model::queue::{KeepFor, OnComplete, QueueSpec};
use lease_broker_store::{QueueIndex, Store, StoreError};

use super::CommandError;
use super::config_args::{ConfigArgs, open_queue};
use super::output::{note, plural, print_line};
use crate::broker::retention::{Walk, purge_archive_step};

/// Delete items that were completed, or became dead, long ago
///
/// Counts the items first. On a terminal the command shows the number and asks before it deletes. Deletes at most 500 rows
/// per transaction and rests between transactions, so workers can continue. Opens the store directly with the
/// configuration of the service. The service need not run. The setting `keep_for` of a queue deletes old items all the
/// time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker purge rainfall --state completed --older-than 7d --dry-run    count only
  lease-broker purge rainfall --state completed --older-than 7d
  lease-broker purge rainfall --state archive --older-than 90d --yes         for scripts")]
pub(super) struct Purge {
    /// Queue of the items
    queue: String,
    /// State of the items, or `archive` for the rows of the queue's archive table
    #[arg(long, value_enum)]
    state: Purgeable,
    /// Time since the items were completed or became dead. Items whose time is unknown are kept
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    older_than: Duration,
    /// Count the items and delete none
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Delete without asking. Required if standard input is not a terminal
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Purgeable {
    Completed,
    Dead,
    Archive,
}

/// Parses an age of 1 s to 10,000 days.
fn parse_age(text: &str) -> Result<Duration, String> {
    let age = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if age < Duration::from_secs(1) || age > Duration::from_secs(10_000 * 86_400) {
        return Err("must be 1s to 10000days".to_owned());
    }
    Ok(age)
}

impl Purge {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let config = self.config.load(Vec::new())?;
        if let Some(queue) = config.queues.iter().find(|queue| queue.name == self.queue) {
            self.check(queue)?;
        }
        let (store, queue) = open_queue(&config, &self.queue).await?;
        let count = self.count(&*store, queue).await?;
        let found = self.describe(count);
        if self.dry_run || count == 0 {
            print_line!("{found}");
            return Ok(());
        }
        if !self.yes && !confirm(&found)? {
            return Err(CommandError::failed("nothing was deleted"));
        }
        let deleted = self.delete(&*store, queue, count).await?;
        print_line!("{} deleted", plural(deleted, "row"));
        Ok(())
    }

    /// Refuses a queue whose rows may not be deleted, and a script that does not confirm.
    fn check(&self, queue: &QueueSpec) -> Result<(), CommandError> {
        if !queue.allows_purge {
            return Err(CommandError::usage(format!(
                "queue {:?}: the broker did not create the table {:?}; set purge = true in the queue's section of the \
                 configuration to allow that its rows are deleted",
                queue.name, queue.table
            )));
        }
        if self.state == Purgeable::Archive && !matches!(queue.on_complete, OnComplete::Archive(_))
        {
            return Err(CommandError::usage(format!(
                "queue {:?} has no archive table",
                queue.name
            )));
        }
        if !self.yes && !self.dry_run && !stdin().is_terminal() {
            return Err(CommandError::usage(
                "purge asks before it deletes, and standard input is not a terminal; give --yes to delete without asking, or \
                 --dry-run to count",
            ));
        }
        Ok(())
    }

    fn describe(&self, count: u64) -> String {
        let age = humantime::format_duration(self.older_than);
        let queue = &self.queue;
        let (items, rows) = (plural(count, "item"), plural(count, "row"));
        let (were, have) = if count == 1 {
            ("was", "has")
        } else {
            ("were", "have")
        };
        match self.state {
            Purgeable::Completed => {
                format!("{items} of {queue} {were} completed more than {age} ago")
            }
            Purgeable::Dead => format!("{items} of {queue} {have} been dead for more than {age}"),
            Purgeable::Archive => {
                format!("{rows} in the archive of {queue} {were} completed more than {age} ago")
            }
        }
    }

    fn keep_for(&self) -> KeepFor {
        let age_of = |state| (self.state == state).then_some(self.older_than);
        KeepFor {
            completed: age_of(Purgeable::Completed),
            dead: age_of(Purgeable::Dead),
            archive: None,
        }
    }

    async fn count(&self, store: &dyn Store, queue: QueueIndex) -> Result<u64, StoreError> {
        if self.state == Purgeable::Archive {
            return store.count_old_archived(queue, self.older_than).await;
        }
        let bar = progress(None, "counting");
        let mut walk = Walk::new(store, queue, self.keep_for(), false);
        while let Some(old) = walk.next().await? {
            bar.inc(old as u64);
        }
        bar.finish_and_clear();
        Ok(bar.position())
    }

    async fn delete(
        &self,
        store: &dyn Store,
        queue: QueueIndex,
        count: u64,
    ) -> Result<u64, StoreError> {
        let bar = progress(Some(count), "deleting");
        if self.state == Purgeable::Archive {
            loop {
                match purge_archive_step(store, queue, self.older_than).await? {
                    0 => break,
                    rows => bar.inc(rows as u64),
                }
            }
        } else {
            let mut walk = Walk::new(store, queue, self.keep_for(), true);
            while let Some(old) = walk.next().await? {
                bar.inc(old as u64);
            }
            if let Some(error) = &walk.refused().first {
                let refusals = plural(walk.refused().count, "deletion");
                note(&format!(
                    "the database refused {refusals}, and the rows are kept: {error}"
                ));
            }
        }
        bar.finish_and_clear();
        Ok(bar.position())
    }
}

/// Shows the number and asks on standard error. Returns true if the answer is yes.
fn confirm(found: &str) -> Result<bool, CommandError> {
    let _ = write!(stderr(), "{found}. Delete? [y/N] ");
    let mut answer = String::new();
    stdin()
        .read_line(&mut answer)
        .map_err(|error| CommandError::io(format!("standard input: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Returns a progress bar on standard error, or a hidden one if that is not a terminal.
fn progress(total: Option<u64>, action: &'static str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{msg} {wide_bar} {human_pos} of {human_len}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}: {human_pos}"),
    };
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(action)
}
