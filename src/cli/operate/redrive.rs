//! `redrive`: makes dead items ready again.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto::{self as proto, start_operation_request::Action};

use super::change::{Change, ChangeArgs, OPERATION};
use super::complete;
use super::place_args::with_place;
use crate::cli::CommandError;
use crate::grpc::duration_to_proto;

/// Make dead items ready again and reset their attempts
///
/// Changes the items with these keys or, without a key, all dead items that fit the filter. Asks before it changes more than one.
/// Items that become dead after the start are left alone, so a redrive never meets its own results.
#[derive(Debug, Args)]
#[command(after_help = with_place(&format!("{OPERATION}\n\n\
Examples:
  lease-broker redrive rainfall --dry-run                    count only
  lease-broker redrive rainfall --limit 1                    redrive one item first
  lease-broker redrive rainfall 4711 4712                    redrive two items
  lease-broker redrive rainfall --error timeout --since 1h   those that died so in the last hour
  lease-broker redrive rainfall --rate 50/s --yes            slowly, for scripts")))]
pub(in crate::cli) struct Redrive {
    /// Queue of the dead items
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Keys of the items, as `list` prints them [default: all that fit the filter]
    #[arg(value_name = "KEY", allow_negative_numbers = true, add = ArgValueCandidates::new(complete::dead_keys))]
    keys: Vec<String>,
    /// Delay until the items are ready [default: none]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    delay: Option<Duration>,
    /// Keep the number of attempts that the items have used. Those that had none left become dead again at their next failure
    #[arg(long)]
    keep_attempts: bool,
    /// Remove the checkpoints, so that the next attempts start from the beginning [default: keep them]
    #[arg(long)]
    clear_checkpoint: bool,
    /// Reason, for the list of operations and the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Redrive {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let redrive = proto::Redrive {
            delay: self.delay.map(duration_to_proto),
            keep_attempts: self.keep_attempts,
            clear_checkpoint: self.clear_checkpoint,
        };
        let change = Change {
            queue: self.queue,
            keys: &self.keys,
            action: Action::Redrive(redrive),
            reason: self.reason.unwrap_or_default(),
            args: &self.change,
        };
        change.run().await
    }
}
