//! `cancel`: the command that takes leases away from their workers.

use std::time::Duration;

use clap::Args;
use lease_broker_proto::{self as proto, Outcome};

use super::CommandError;
use super::client_args::{ClientArgs, proto_duration};
use super::lease_args::{problem, state_name, with_results};
use super::output::Row;

/// Cancel leases: take items away from their workers
///
/// The workers learn it at their next heartbeat. The attempt is counted: an item without attempts left becomes dead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker cancel default 42 --reason 'the worker hangs'
  lease-broker cancel default 42 --fencing-token 7 --reason 'worker-3 hangs'
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
    /// Cancel only the lease with this fencing token, and not one that another worker has got since. Needs exactly one key
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    fencing_token: Option<i64>,
    #[command(flatten)]
    client: ClientArgs,
}

impl Cancel {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        if self.fencing_token.is_some() && self.keys.len() != 1 {
            return Err(CommandError::usage(format!(
                "--fencing-token requires exactly one key; {} were given",
                self.keys.len()
            )));
        }
        let cancellation = |key: &String| proto::Cancellation {
            key: key.clone(),
            fencing_token: self.fencing_token.unwrap_or(0),
        };
        let request = proto::CancelLeasesRequest {
            queue: self.queue,
            cancellations: self.keys.iter().map(cancellation).collect(),
            delay: self.delay.map(proto_duration),
            dead_letter: self.dead_letter,
            reason: self.reason,
        };
        let mut client = self.client.connect_admin().await?;
        let results = client.cancel_leases(request).await?.into_inner().results;
        let results = with_results(self.keys, results)?;
        let row = |(key, result): &(String, proto::CancelResult)| {
            let cancelled = result.outcome() == Outcome::Applied;
            let token = Some(result.fencing_token).filter(|token| *token != 0);
            Row::default()
                .field("key", key.clone())
                .field("cancelled", cancelled)
                .field("state", state_name(result.state()))
                .field("fencing_token", token)
                .data("problem", problem(result.refusal.as_ref()))
        };
        let rows: Vec<Row> = results.iter().map(row).collect();
        self.client.output.print(&rows, "no items");
        let refusals = results.iter().filter_map(|(key, result)| {
            let refusal = result.refusal.as_ref()?;
            Some(format!("{key}: {}", problem(Some(refusal))))
        });
        let refusals: Vec<_> = refusals.collect();
        if !refusals.is_empty() {
            return Err(CommandError::failed(refusals.join("\n")));
        }
        let lost = results.iter();
        let lost = lost.filter(|(_, result)| result.outcome() != Outcome::Applied);
        match (lost.count(), self.fencing_token) {
            (0, _) => Ok(()),
            (_, Some(token)) => Err(CommandError::failed(format!(
                "the item has no lease with the fencing token {token}; it was not changed"
            ))),
            (1, None) => Err(CommandError::failed(
                "1 item had no lease; it was not changed",
            )),
            (others, None) => Err(CommandError::failed(format!(
                "{others} items had no lease; they were not changed"
            ))),
        }
    }
}
