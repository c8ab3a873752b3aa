//! `complete`, `fail` and `release`: the commands that settle leases.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_model::text;
use lease_broker_proto as proto;

use super::CommandError;
use super::client_args::ClientArgs;
use super::item_input::{columns_from_flags, item_from_text};
use super::lease_args::{fail_if_lost, outcome_name, problem, read_lease_ids, with_results};
use super::operate::complete;
use super::output::{OutputFormat, Row};
use crate::grpc::{Words as _, duration_to_proto};

/// Arguments of every command that settles leases.
#[derive(Debug, Args)]
struct LeaseArgs {
    /// Queue of the leases
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Lease ids, or - to read them from standard input: one id per line, or the output of `claim --output json`
    #[arg(required = true)]
    lease_ids: Vec<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Complete leases: the items are done
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker complete default LEASE_ID
  lease-broker complete orders LEASE_ID --set Total=17.5
  lease-broker complete orders LEASE_ID --follow-up 'outbox={\"payload\": \"shipped\"}'

The exit code is 1 if a lease was lost.")]
pub(super) struct Complete {
    #[command(flatten)]
    leases: LeaseArgs,
    /// Item to add to another queue in the same transaction: the queue and a JSON object of columns. Repeat for more
    /// items. Requires exactly one lease
    #[arg(long, value_name = "QUEUE=JSON")]
    follow_up: Vec<String>,
    /// Column and value to write into the row of each item. The queue's setting `writable` lists the possible columns.
    /// Repeat for more columns
    #[arg(long, value_name = "COLUMN=VALUE")]
    set: Vec<String>,
}

/// Fail leases: the items are retried after a delay
///
/// An item without attempts left becomes dead instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker fail default LEASE_ID --error 'the printer is on fire'
  lease-broker fail default LEASE_ID --error 'no such customer' --dead-letter

The exit code is 1 if a lease was lost.")]
pub(super) struct Fail {
    #[command(flatten)]
    leases: LeaseArgs,
    /// Error message to store with the item
    #[arg(long, value_name = "TEXT", default_value = "")]
    error: String,
    /// Delay until the next attempt [default: the backoff configured for the queue]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    retry_delay: Option<Duration>,
    /// Make the item dead immediately, even if attempts are left
    #[arg(long)]
    dead_letter: bool,
    /// Column and value to write into the row of each item. The queue's setting `writable` lists the possible columns.
    /// Repeat for more columns
    #[arg(long, value_name = "COLUMN=VALUE")]
    set: Vec<String>,
}

/// Release leases: the items become ready again
///
/// The attempt is not counted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker release default LEASE_ID
  lease-broker release default LEASE_ID --delay 5m

The exit code is 1 if a lease was lost.")]
pub(super) struct Release {
    #[command(flatten)]
    leases: LeaseArgs,
    /// Delay until the items are ready again [default: none]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    delay: Option<Duration>,
}

impl Complete {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let follow_ups = self
            .follow_up
            .iter()
            .map(|text| follow_up(text))
            .collect::<Result<Vec<_>, _>>()?;
        let columns = columns_from_flags(&self.set)?;
        let ids = read_lease_ids(self.leases.lease_ids)?;
        if !follow_ups.is_empty() && ids.len() != 1 {
            return Err(CommandError::usage(format!(
                "--follow-up requires exactly one lease; {} were given",
                ids.len()
            )));
        }
        let completions = ids.iter().cloned().map(|lease_id| proto::Completion {
            lease_id,
            follow_ups: follow_ups.clone(),
            columns: columns.clone(),
        });
        let request = proto::CompleteRequest {
            queue: self.leases.queue,
            completions: completions.collect(),
            next: None,
        };
        let mut client = self.leases.client.connect(Duration::ZERO).await?;
        let results = client.complete(request).await?.into_inner().results;
        print(self.leases.client.output, ids, results)
    }
}

fn follow_up(text: &str) -> Result<proto::FollowUp, CommandError> {
    let flag = || format!("--follow-up {text}");
    let (queue, json) = text
        .split_once('=')
        .ok_or_else(|| CommandError::usage("must be QUEUE=JSON").with_context(flag()))?;
    Ok(proto::FollowUp {
        queue: queue.to_owned(),
        item: Some(
            item_from_text(json)
                .map_err(|reason| CommandError::usage(reason).with_context(flag()))?,
        ),
    })
}

impl Fail {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let columns = columns_from_flags(&self.set)?;
        let ids = read_lease_ids(self.leases.lease_ids)?;
        let failures = ids.iter().cloned().map(|lease_id| proto::Failure {
            lease_id,
            error_message: self.error.clone(),
            retry_delay: self.retry_delay.map(duration_to_proto),
            dead_letter: self.dead_letter,
            columns: columns.clone(),
            checkpoint: None,
        });
        let request = proto::FailRequest {
            queue: self.leases.queue,
            failures: failures.collect(),
            next: None,
        };
        let mut client = self.leases.client.connect(Duration::ZERO).await?;
        let results = client.fail(request).await?.into_inner().results;
        print(self.leases.client.output, ids, results)
    }
}

impl Release {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let ids = read_lease_ids(self.leases.lease_ids)?;
        let releases = ids.iter().cloned().map(|lease_id| proto::Release {
            lease_id,
            delay: self.delay.map(duration_to_proto),
            checkpoint: None,
        });
        let request = proto::ReleaseRequest {
            queue: self.leases.queue,
            releases: releases.collect(),
        };
        let mut client = self.leases.client.connect(Duration::ZERO).await?;
        let results = client.release(request).await?.into_inner().results;
        print(self.leases.client.output, ids, results)
    }
}

fn print(
    output: OutputFormat,
    lease_ids: Vec<String>,
    results: Vec<proto::SettleResult>,
) -> Result<(), CommandError> {
    let results = with_results(lease_ids, results)?;
    let any_refused = results.iter().any(|(_, result)| result.refusal.is_some());
    let row = |(lease_id, result): &(String, proto::SettleResult)| {
        let problem = problem(result.refusal.as_ref());
        let row = Row::default()
            .field("lease_id", lease_id.clone())
            .field("outcome", outcome_name(result.outcome()))
            .field("state", result.state().known_word())
            .data("problem", problem.as_str());
        if any_refused {
            row.shown("problem", text::cell(&problem))
        } else {
            row
        }
    };
    let rows: Vec<Row> = results.iter().map(row).collect();
    output.print(&rows, "no leases");
    fail_if_lost(results.iter().map(|(_, result)| result.outcome()))
}
