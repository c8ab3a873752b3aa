//! `purge`: deletes items that have ended.

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use lease_broker_proto::{self as proto, ItemState, start_operation_request::Action};

use super::archive;
use super::change::{Change, ChangeArgs, OPERATION};
use super::complete;
use super::place_args::with_place;
use crate::cli::CommandError;

/// Delete items that are completed or dead
///
/// Deletes the items with these keys or, without a key, all items of the state that fit the filter. Asks before it deletes more than
/// one. The setting `keep_for` of a queue deletes old items all the time. The role for this command is admin.
#[derive(Debug, Args)]
#[command(after_help = with_place(&format!("{OPERATION}\n\n\
Rows of the queue's archive table (--state archive) are deleted by this command itself and not by an operation, so it needs --config \
or --store, and --before.

Examples:
  lease-broker purge rainfall --state completed --before 7d --dry-run    count only
  lease-broker purge rainfall --state completed --before 7d
  lease-broker purge rainfall --state dead --error 'no such customer'
  lease-broker purge rainfall --state archive --before 90d --config queues.toml --yes")))]
pub(in crate::cli) struct Purge {
    /// Queue of the items
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Keys of the items, as `list` prints them [default: all that fit the filter]
    #[arg(value_name = "KEY", allow_negative_numbers = true, add = ArgValueCandidates::new(complete::dead_keys))]
    keys: Vec<String>,
    /// State of the items, or `archive` for the rows of the queue's archive table
    #[arg(long, value_enum)]
    state: Purgeable,
    /// Reason, for the list of operations and the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Purgeable {
    Completed,
    Dead,
    Archive,
}

impl Purge {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let state = match self.state {
            Purgeable::Completed => ItemState::Completed,
            Purgeable::Dead => ItemState::Dead,
            Purgeable::Archive => {
                return archive::purge(&self.queue, &self.keys, &self.change).await;
            }
        };
        let change = Change {
            queue: self.queue,
            keys: &self.keys,
            action: Action::Purge(proto::Purge {
                state: state.into(),
            }),
            reason: self.reason.unwrap_or_default(),
            args: &self.change,
        };
        change.run().await
    }
}
