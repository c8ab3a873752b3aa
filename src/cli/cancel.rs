//! `cancel`: the command that takes leases away from their workers.

use std::time::Duration;

use clap::Args;
use lease_broker_proto as proto;

use super::CommandError;
use super::client_args::{ClientArgs, proto_duration};
use super::lease_args::state_name;
use super::output::Row;

/// Cancel leases: take items away from their workers
///
/// The workers learn it at their next heartbeat. The attempt is counted: an item without attempts left becomes dead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker cancel default 42 --reason 'the worker hangs'
  lease-broker cancel default 42 43 --dead-letter --reason 'the order was withdrawn'

The exit code is 1 if an item had no lease.")]
pub(super) struct Cancel {
    /// Queue of the items
    queue: String,
    /// Keys of the leased items, as `list` and `claim` print them
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Reason to store with the items and to tell the workers
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Delay until the items are ready again [default: none]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "dead_letter")]
    delay: Option<Duration>,
    /// Make the items dead
    #[arg(long)]
    dead_letter: bool,
    #[command(flatten)]
    client: ClientArgs,
}

impl Cancel {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let request = proto::CancelLeasesRequest {
            queue: self.queue,
            keys: self.keys,
            delay: self.delay.map(proto_duration),
            dead_letter: self.dead_letter,
            reason: self.reason,
        };
        let mut client = self.client.connect(Duration::ZERO).await?;
        let results = client.cancel_leases(request).await?.into_inner().results;
        let row = |result: &proto::CancelResult| {
            Row::default()
                .field("key", result.key.clone())
                .field("cancelled", result.cancelled)
                .field("state", state_name(result.state()))
        };
        let rows: Vec<Row> = results.iter().map(row).collect();
        self.client.output.print(&rows, "no items");
        match results.iter().filter(|result| !result.cancelled).count() {
            0 => Ok(()),
            1 => Err(CommandError::failed(
                "1 item had no lease; it was not changed",
            )),
            others => Err(CommandError::failed(format!(
                "{others} items had no lease; they were not changed"
            ))),
        }
    }
}
