//! `claim` and `heartbeat`: get leases, and extend them.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_model::key::hex;
use lease_broker_proto::{self as proto, HeldBack, UnknownKind};
use serde_json::Map;

use super::CommandError;
use super::client_args::ClientArgs;
use super::lease_args::{fail_if_lost, outcome_name, read_lease_ids, renewals, with_results};
use super::operate::complete;
use super::output::{Row, json_value, proto_moment, std_duration};
use crate::grpc::{Words as _, duration_to_proto};
use crate::process::host_name;

/// Claim items and print their leases
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker claim default
  lease-broker claim default --limit 10 --lease 5m --wait 30s --output json | jq -r .lease_id
  lease-broker claim default --output json | lease-broker complete default -")]
pub(super) struct Claim {
    /// Queue to claim from
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Worker name that is stored with the leases [default: HOSTNAME/cli]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Maximum number of items to claim
    #[arg(long, value_name = "N", default_value_t = 1)]
    limit: i32,
    /// Duration of the leases [default: as configured for the queue]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    lease: Option<Duration>,
    /// Maximum time to wait for an item if none is ready, in addition to --timeout [default: do not wait]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
    /// Only items of this group, such as 42. Repeat the flag for several groups
    #[arg(long = "group", value_name = "GROUP", allow_negative_numbers = true)]
    groups: Vec<String>,
    /// Maximum number of consecutive items of a group, as a run. Complete them one after the other, in the order of the output
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_run: i32,
    /// UUID of this claim. A later claim with the same UUID returns the same leases if they are still held
    #[arg(long, value_name = "UUID")]
    request_id: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

impl Claim {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let mut client = self.client.connect(self.wait.unwrap_or_default()).await?;
        let request = proto::ClaimBatchRequest {
            queue: self.queue,
            worker_id: self.worker.unwrap_or_else(default_worker),
            max_items: self.limit,
            lease_duration: self.lease.map(duration_to_proto),
            wait_timeout: self.wait.map(duration_to_proto),
            request_id: self.request_id.unwrap_or_default(),
            groups: self.groups,
            max_run: self.max_run,
            ..proto::ClaimBatchRequest::default()
        };
        let response = client.claim_batch(request).await?.into_inner();
        let none = why_none(&response);
        let leases = response.leases;
        let has_runs = leases.iter().any(|lease| lease.run != 0);
        let mut newer = Vec::new();
        let rows: Vec<Row> = leases
            .into_iter()
            .map(|lease| row_of(lease, has_runs, &mut newer))
            .collect();
        self.client.output.print(&rows, none);
        if newer.is_empty() {
            return Ok(());
        }
        Err(CommandError::failed(format!(
            "the output lacks columns with values of a newer service ({}); use a newer lease-broker",
            newer.join(", ")
        )))
    }
}

/// Returns the sentence for a claim without leases.
fn why_none(response: &proto::ClaimBatchResponse) -> &'static str {
    match response.held_back() {
        HeldBack::TooLarge => "no lease: the ready items are too large to be sent",
        HeldBack::Stopping => "no lease: the service is stopping; claim again",
        HeldBack::Paused => "no lease: the queue is paused",
        HeldBack::GroupsBusy => "no lease: the groups of the ready items hold them back",
        HeldBack::MaxLeases => "no lease: the queue has as many leases as it may have",
        HeldBack::Rate => "no lease: the rate of the queue is used up",
        HeldBack::Suspects => {
            "no lease: items whose last lease expired go alone to a worker that holds nothing else"
        }
        HeldBack::Unspecified | HeldBack::NothingReady | HeldBack::Released => "no item is ready",
    }
}

fn default_worker() -> String {
    host_name().map_or_else(|| "cli".to_owned(), |host| format!("{host}/cli"))
}

/// Returns the row of a lease. `shows_run`: it has the number of its run. Adds to `newer` the columns whose values this program
/// cannot show.
fn row_of(lease: proto::Lease, shows_run: bool, newer: &mut Vec<String>) -> Row {
    let item = lease.item.unwrap_or_default();
    let mut columns = Map::new();
    for (name, value) in item.columns {
        match value.try_into() {
            Ok(value) => drop(columns.insert(name, json_value(&value))),
            Err(UnknownKind) => newer.push(name),
        }
    }
    let mut row = Row::default().key(&item.key);
    if shows_run {
        row = row.field("run", lease.run);
    }
    // The fields that only programs use would make the table too wide.
    row.field("attempt", lease.attempt)
        .field("fencing_token", lease.fencing_token)
        .duration("time_left", std_duration(lease.time_left))
        .data("expire_time", proto_moment(lease.expire_time))
        .field("columns", columns)
        .data("checkpoint", lease.checkpoint.as_deref().map(hex))
        .data("trace_parent", lease.trace_parent)
        .field("lease_id", lease.lease_id)
}

/// Extend leases by a heartbeat
///
/// Each lease then lasts its full duration again, counted from now.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker heartbeat default LEASE_ID --lease 10m

The exit code is 1 if a lease was lost.")]
pub(super) struct Heartbeat {
    /// Queue of the leases
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Lease ids, or - to read them from standard input: one id per line, or the output of `claim --output json`
    #[arg(required = true)]
    lease_ids: Vec<String>,
    /// Time from now until the leases expire [default: the duration that was claimed]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    lease: Option<Duration>,
    #[command(flatten)]
    client: ClientArgs,
}

impl Heartbeat {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let ids = read_lease_ids(self.lease_ids)?;
        let mut client = self.client.connect(Duration::ZERO).await?;
        let request = proto::HeartbeatRequest {
            queue: self.queue,
            renewals: renewals(ids.clone()),
            lease_duration: self.lease.map(duration_to_proto),
        };
        let results = client.heartbeat(request).await?.into_inner().results;
        let results = with_results(ids, results)?;
        let row = |(lease_id, result): &(String, proto::HeartbeatResult)| {
            Row::default()
                .field("lease_id", lease_id.clone())
                .field("outcome", outcome_name(result.outcome()))
                .duration("time_left", std_duration(result.time_left))
                .data("expire_time", proto_moment(result.expire_time))
                .field("state", result.state().known_word())
                .field("cancel_reason", result.cancel_reason.clone())
        };
        let rows: Vec<Row> = results.iter().map(row).collect();
        self.client.output.print(&rows, "no leases");
        fail_if_lost(results.iter().map(|(_, result)| result.outcome()))
    }
}
