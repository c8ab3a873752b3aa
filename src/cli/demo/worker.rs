//! A worker process of the demo. It does the same as a worker in any language: it claims a batch, extends the leases by
//! heartbeats while it works, and completes the batch. Each completion writes the result into its row and adds it to the
//! outbox, in one transaction.
//!
//! If the broker answers UNAVAILABLE, for example while the disk is busy, the worker sends the same call again. Every
//! call of the API is safe to send again. If the demo was killed, its worker gives up.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lease_broker_proto as proto;
use lease_broker_proto::column_value::Kind;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use rustix::process::{Pid, getppid};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use uuid::Uuid;

use super::journal::{Action, Journal};
use crate::cli::CommandError;
use crate::cli::lease_args::renewals;
use crate::grpc::duration_to_proto;

/// The simulated work on one row.
const WORK_PER_ITEM: Duration = Duration::from_millis(3);
/// The time that a claim waits for rows.
const WAIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for which a call is sent again while the broker answers UNAVAILABLE.
pub(super) const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before a call is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Claims and completes items of the demo until standard input is closed
#[derive(Debug, Args)]
pub(in crate::cli) struct DemoWorker {
    #[arg(long)]
    address: String,
    #[arg(long)]
    name: String,
    #[arg(long)]
    batch: i32,
    #[arg(long)]
    journal: PathBuf,
    #[arg(long, value_enum)]
    role: Role,
    /// Let one row in a thousand fail for good at its first attempt
    #[arg(long)]
    lets_rows_fail: bool,
    #[arg(skip = Parent::current())]
    parent: Parent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// Processes the rows of the table and adds a result to the outbox for each.
    Process,
    /// Moves the results from the outbox to their destination.
    Transfer,
}

impl Role {
    /// Returns the value of `--role`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Transfer => "transfer",
        }
    }

    fn queue(self) -> String {
        match self {
            Self::Process => "rainfall".to_owned(),
            Self::Transfer => "outbox".to_owned(),
        }
    }
}

/// The demo, of which this process is a child.
#[derive(Clone, Copy, Debug)]
struct Parent(Option<Pid>);

impl Parent {
    fn current() -> Self {
        Self(getppid())
    }

    /// Returns whether the demo runs. If it has ended, another process became the parent.
    fn is_alive(self) -> bool {
        getppid() == self.0
    }
}

impl DemoWorker {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let mut client = LeaseServiceClient::connect(self.address.clone())
            .await
            .map_err(|error| CommandError::unavailable(format!("{}: {error}", self.address)))?;
        let mut journal = Journal::open(&self.journal)?;
        let mut stdin = tokio::io::stdin();
        let stop_requested = async {
            let _ = stdin.read_u8().await;
        };
        tokio::pin!(stop_requested);
        loop {
            let leases = tokio::select! {
                () = &mut stop_requested => return Ok(()),
                leases = self.claim(client.clone()) => leases?,
            };
            if !leases.is_empty() {
                self.process(&mut client, &mut journal, leases).await?;
            }
        }
    }

    async fn claim(
        &self,
        mut client: LeaseServiceClient<Channel>,
    ) -> Result<Vec<proto::Lease>, CommandError> {
        let request = proto::ClaimBatchRequest {
            queue: self.role.queue(),
            worker_id: self.name.clone(),
            max_items: self.batch,
            wait_timeout: Some(duration_to_proto(WAIT_TIMEOUT)),
            // If the reply is lost, the same request returns the same leases.
            request_id: Uuid::new_v4().to_string(),
            ..proto::ClaimBatchRequest::default()
        };
        let call = async || client.claim_batch(request.clone()).await;
        Ok(self.retry_while_unavailable(call).await?.leases)
    }

    async fn process(
        &self,
        client: &mut LeaseServiceClient<Channel>,
        journal: &mut Journal,
        leases: Vec<proto::Lease>,
    ) -> Result<(), CommandError> {
        journal.write(Action::Claimed, leases.iter().map(key))?;
        let ids: Vec<String> = leases.iter().map(|lease| lease.lease_id.clone()).collect();
        let heartbeats = self.send_heartbeats(client.clone(), ids, min_time_left(&leases));
        let work = self.work(&leases);
        let completions = tokio::select! {
            completions = work => completions,
            error = heartbeats => return Err(error),
        };
        if self.role == Role::Transfer {
            journal.write_moved(leases.iter().map(|lease| (key(lease), event_id(lease))))?;
        }
        let (failing, completions): (Vec<_>, Vec<_>) = leases
            .iter()
            .zip(completions)
            .partition(|(lease, _)| self.lets_fail(lease));
        self.fail(client, failing.into_iter().map(|(lease, _)| lease))
            .await?;
        let (leases, completions): (Vec<_>, Vec<_>) = completions.into_iter().unzip();
        let request = proto::CompleteRequest {
            queue: self.role.queue(),
            completions,
            next: None,
        };
        // Recorded first: the demo kills only a worker that has not sent the completion of its batch.
        journal.write(Action::Completing, leases.iter().copied().map(key))?;
        let call = async || client.complete(request.clone()).await;
        let results = self.retry_while_unavailable(call).await?.results;
        for action in [Action::Completed, Action::Lost] {
            let applied = action == Action::Completed;
            let done = leases
                .iter()
                .zip(&results)
                .filter(|(_, result)| (result.outcome() == proto::Outcome::Applied) == applied);
            journal.write(action, done.map(|(lease, _)| key(lease)))?;
        }
        Ok(())
    }

    /// Returns whether the row of a lease fails. It succeeds after a redrive.
    fn lets_fail(&self, lease: &proto::Lease) -> bool {
        let is_chosen = |id: i64| id % 1_000 == 0;
        self.lets_rows_fail
            && lease.fencing_token == 1
            && matches!(column(lease, "Event_ID"), Some(Kind::Int64Value(id)) if is_chosen(id))
    }

    /// Makes the items of leases dead.
    async fn fail(
        &self,
        client: &mut LeaseServiceClient<Channel>,
        leases: impl Iterator<Item = &proto::Lease>,
    ) -> Result<(), CommandError> {
        let failure = |lease: &proto::Lease| {
            let station = match column(lease, "Station") {
                Some(Kind::StringValue(station)) => station,
                _ => "the station".to_owned(),
            };
            proto::Failure {
                lease_id: lease.lease_id.clone(),
                error_message: format!("{station} is not calibrated"),
                dead_letter: true,
                ..proto::Failure::default()
            }
        };
        let request = proto::FailRequest {
            queue: self.role.queue(),
            failures: leases.map(failure).collect(),
            ..proto::FailRequest::default()
        };
        if !request.failures.is_empty() {
            let call = async || client.fail(request.clone()).await;
            self.retry_while_unavailable(call).await?;
        }
        Ok(())
    }

    /// Extends the leases each time a third of their duration has passed. Returns only if a call fails.
    async fn send_heartbeats(
        &self,
        mut client: LeaseServiceClient<Channel>,
        lease_ids: Vec<String>,
        time_left: Duration,
    ) -> CommandError {
        let request = proto::HeartbeatRequest {
            queue: self.role.queue(),
            renewals: renewals(lease_ids),
            lease_duration: None,
        };
        loop {
            tokio::time::sleep(time_left / 3).await;
            // The worker ignores lost leases here. It learns of them when it completes the batch, which does not change
            // their items.
            let call = async || client.heartbeat(request.clone()).await;
            if let Err(error) = self.retry_while_unavailable(call).await {
                return error;
            }
        }
    }

    /// Does the simulated work. Returns one completion per lease. The completion of a row carries its result, which goes
    /// into the row and to the outbox in the same transaction.
    async fn work(&self, leases: &[proto::Lease]) -> Vec<proto::Completion> {
        if self.role == Role::Process {
            let items = u32::try_from(leases.len()).unwrap_or(u32::MAX);
            tokio::time::sleep_until(Instant::now() + WORK_PER_ITEM * items).await;
        }
        let completion = |lease: &proto::Lease| match self.role {
            Role::Process => self.completion_with_result(lease),
            Role::Transfer => proto::Completion {
                lease_id: lease.lease_id.clone(),
                ..proto::Completion::default()
            },
        };
        leases.iter().map(completion).collect()
    }

    fn completion_with_result(&self, lease: &proto::Lease) -> proto::Completion {
        let millimetres = match column(lease, "Millimetres") {
            Some(Kind::DecimalValue(digits)) => digits.parse().unwrap_or(0.0),
            _ => 0.0,
        };
        let litres = Some(Kind::DoubleValue(millimetres * 1_000.0));
        let columns = [
            ("event_id", column(lease, "Event_ID")),
            ("worker", Some(Kind::StringValue(self.name.clone()))),
            ("litres", litres.clone()),
        ];
        let follow_up = proto::FollowUp {
            queue: Role::Transfer.queue(),
            item: Some(proto::NewItem {
                columns: columns
                    .map(|(name, kind)| (name.to_owned(), proto::ColumnValue { kind }))
                    .into(),
                ..proto::NewItem::default()
            }),
        };
        proto::Completion {
            lease_id: lease.lease_id.clone(),
            follow_ups: vec![follow_up],
            columns: [("Litres".to_owned(), proto::ColumnValue { kind: litres })].into(),
        }
    }

    /// Sends a call. While the broker answers UNAVAILABLE and the demo runs, sends it again, for up to [`RETRY_TIMEOUT`].
    async fn retry_while_unavailable<T>(
        &self,
        mut call: impl AsyncFnMut() -> Result<Response<T>, Status>,
    ) -> Result<T, CommandError> {
        let start = Instant::now();
        loop {
            match call().await {
                Err(status)
                    if status.code() == Code::Unavailable
                        && start.elapsed() < RETRY_TIMEOUT
                        && self.parent.is_alive() =>
                {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                outcome => return Ok(outcome?.into_inner()),
            }
        }
    }
}

/// Returns the shortest time left of all leases.
fn min_time_left(leases: &[proto::Lease]) -> Duration {
    let left = leases.iter().filter_map(|lease| lease.time_left);
    let left = left.filter_map(|left| Duration::try_from(left).ok());
    left.min().unwrap_or(WAIT_TIMEOUT)
}

fn key(lease: &proto::Lease) -> String {
    lease.item.clone().unwrap_or_default().key
}

fn event_id(lease: &proto::Lease) -> String {
    match column(lease, "event_id") {
        Some(Kind::Int64Value(id)) => id.to_string(),
        other => format!("{other:?}"),
    }
}

fn column(lease: &proto::Lease, name: &str) -> Option<Kind> {
    lease.item.as_ref()?.columns.get(name)?.kind.clone()
}
