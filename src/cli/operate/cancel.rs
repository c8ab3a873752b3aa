//! `cancel`: takes leases away from their workers.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto::{self as proto, Outcome, start_operation_request::Action};

use super::change::{Change, ChangeArgs, OPERATION};
use super::complete;
use super::place_args::with_place;
use crate::cli::CommandError;
use crate::cli::lease_args::{problem, with_results};
use crate::cli::output::Row;
use crate::grpc::{Words as _, duration_to_proto};

/// Cancel leases: take items away from their workers
///
/// Cancels the leases on the items with these keys, at once and with one result per key. Without a key it cancels all leases that fit
/// the filter, by an operation. Asks before it changes more than one. The workers learn it at their next heartbeat. The attempt is
/// counted: an item without attempts left becomes dead.
#[derive(Debug, Args)]
#[command(after_help = with_place(&format!("{OPERATION} With keys the exit code is 1 if an item had no lease.\n\n\
Examples:
  lease-broker cancel default 42 --reason 'the worker hangs'
  lease-broker cancel default 42 --fencing-token 7 --reason 'worker-3 hangs'
  lease-broker cancel default 42 43 --dead-letter --yes --reason 'the order was withdrawn'
  lease-broker cancel default --owner pc-7 --reason 'pc-7 is gone'")))]
pub(in crate::cli) struct Cancel {
    /// Queue of the items
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Keys of the leased items, as `list` and `claim` print them [default: all that fit the filter]
    #[arg(value_name = "KEY", allow_negative_numbers = true, add = ArgValueCandidates::new(complete::leased_keys))]
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
    change: ChangeArgs,
}

impl Cancel {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        if self.fencing_token.is_some() && self.keys.len() != 1 {
            return Err(CommandError::usage(format!(
                "--fencing-token requires exactly one key; {} were given",
                self.keys.len()
            )));
        }
        let held = proto::CancelHeld {
            delay: self.delay.map(duration_to_proto),
            dead_letter: self.dead_letter,
        };
        let change = Change {
            queue: self.queue.clone(),
            keys: &self.keys,
            action: Action::CancelLeases(held),
            reason: self.reason.clone(),
            args: &self.change,
        };
        if self.keys.is_empty() || change.is_dry_run() {
            return change.run().await;
        }
        self.cancel_keys(&change).await
    }

    /// Cancels the leases on the items with the keys.
    async fn cancel_keys(&self, change: &Change<'_>) -> Result<(), CommandError> {
        change.refuse_flags_of_operations()?;
        let admin = self.change.place.change(Some(&self.queue)).await?;
        if self.keys.len() > 1 {
            change.confirm(&admin, false).await?;
        }
        let cancellation = |key: &String| proto::Cancellation {
            key: key.clone(),
            fencing_token: self.fencing_token.unwrap_or(0),
        };
        let request = proto::CancelLeasesRequest {
            queue: self.queue.clone(),
            cancellations: self.keys.iter().map(cancellation).collect(),
            delay: self.delay.map(duration_to_proto),
            dead_letter: self.dead_letter,
            reason: self.reason.clone(),
        };
        let results = admin.cancel_leases(request).await?.results;
        let results = with_results(self.keys.clone(), results)?;
        let row = |(key, result): &(String, proto::CancelResult)| {
            let cancelled = result.outcome() == Outcome::Applied;
            let token = Some(result.fencing_token).filter(|token| *token != 0);
            Row::default()
                .key(key)
                .field("cancelled", cancelled)
                .field("state", result.state().known_word())
                .field("fencing_token", token)
                .data("problem", problem(result.refusal.as_ref()))
        };
        let rows: Vec<Row> = results.iter().map(row).collect();
        self.change.place.output().print(&rows, "no items");
        let refusals = results.iter().filter_map(|(key, result)| {
            let refusal = result.refusal.as_ref()?;
            Some(format!("{key}: {}", problem(Some(refusal))))
        });
        let refusals: Vec<_> = refusals.collect();
        if !refusals.is_empty() {
            return Err(CommandError::failed(refusals.join("\n")));
        }
        let with = |outcome: Outcome| {
            let results = results.iter();
            results.filter(move |(_, result)| result.outcome() == outcome)
        };
        let gone: Vec<_> = with(Outcome::Gone).map(|(key, _)| &**key).collect();
        let lost = results.len() - gone.len() - with(Outcome::Applied).count();
        let mut problems = Vec::new();
        if !gone.is_empty() {
            problems.push(format!("no item has the key {}", gone.join(", ")));
        }
        match (lost, self.fencing_token) {
            (0, _) => {}
            (_, Some(token)) => problems.push(format!(
                "the item has no lease with the fencing token {token}; it was not changed"
            )),
            (1, None) => problems.push("1 item had no lease; it was not changed".to_owned()),
            (others, None) => problems.push(format!(
                "{others} items had no lease; they were not changed"
            )),
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(CommandError::failed(problems.join("; ")))
        }
    }
}
