//! A worker process of the demo: what a worker in any language does. It claims a batch, keeps it by heartbeats while it
//! works, and completes it with its results as follow-ups.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use tonic::transport::Channel;
use uuid::Uuid;

use super::journal::{Action, Journal};
use crate::cli::CommandError;
use crate::cli::client_args::proto_duration;
use crate::grpc::proto::lease_broker_service_client::LeaseBrokerServiceClient;
use crate::grpc::proto::{self, value::Kind};

/// What the work on one row costs.
const WORK_PER_ITEM: Duration = Duration::from_millis(3);
/// How long a claim waits for rows.
const WAIT: Duration = Duration::from_secs(1);

/// Works for the demo until its standard input ends.
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// Processes events.
    Process,
    /// Moves results from the outbox to where they go.
    Transfer,
}

impl Role {
    /// Returns the role as the command line spells it.
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

impl DemoWorker {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let mut client = LeaseBrokerServiceClient::connect(self.address.clone())
            .await
            .map_err(|error| CommandError::unavailable(format!("{}: {error}", self.address)))?;
        let mut journal = Journal::open(&self.journal)?;
        let mut stdin = tokio::io::stdin();
        let ended = async {
            let _ = stdin.read_u8().await;
        };
        tokio::pin!(ended);
        loop {
            let leases = tokio::select! {
                () = &mut ended => return Ok(()),
                leases = self.claim(client.clone()) => leases?,
            };
            if !leases.is_empty() {
                self.process(&mut client, &mut journal, leases).await?;
            }
        }
    }

    async fn claim(
        &self,
        mut client: LeaseBrokerServiceClient<Channel>,
    ) -> Result<Vec<proto::Lease>, CommandError> {
        let request = proto::ClaimBatchRequest {
            queue: self.role.queue(),
            worker_id: self.name.clone(),
            max_items: self.batch,
            wait_timeout: Some(proto_duration(WAIT)),
            // If this reply were lost, the same request would find the same leases.
            request_id: Uuid::new_v4().to_string(),
            ..proto::ClaimBatchRequest::default()
        };
        Ok(client.claim_batch(request).await?.into_inner().leases)
    }

    async fn process(
        &self,
        client: &mut LeaseBrokerServiceClient<Channel>,
        journal: &mut Journal,
        leases: Vec<proto::Lease>,
    ) -> Result<(), CommandError> {
        journal.write(Action::Claimed, leases.iter().map(key))?;
        let ids: Vec<String> = leases.iter().map(|lease| lease.lease_id.clone()).collect();
        let keep = self.keep(client.clone(), ids, min_time_left(&leases));
        let work = self.work(&leases);
        let completions = tokio::select! {
            completions = work => completions,
            lost = keep => return Err(lost),
        };
        if self.role == Role::Transfer {
            journal.write(Action::Moved, leases.iter().map(event_id))?;
        }
        let request = proto::CompleteRequest {
            queue: self.role.queue(),
            completions,
            next: None,
        };
        let results = client.complete(request).await?.into_inner().results;
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

    /// Extends the leases whenever a third of their time has passed; returns only if that fails.
    async fn keep(
        &self,
        mut client: LeaseBrokerServiceClient<Channel>,
        lease_ids: Vec<String>,
        min_time_left: Duration,
    ) -> CommandError {
        loop {
            tokio::time::sleep(min_time_left / 3).await;
            let request = proto::HeartbeatRequest {
                queue: self.role.queue(),
                lease_ids: lease_ids.clone(),
                lease_duration: None,
            };
            // A lease that was lost shows at completion, which changes nothing for it.
            if let Err(status) = client.heartbeat(request).await {
                return status.into();
            }
        }
    }

    /// Does the work: for an event its result, which goes to the outbox with the completion.
    async fn work(&self, leases: &[proto::Lease]) -> Vec<proto::Completion> {
        if self.role == Role::Process {
            let items = u32::try_from(leases.len()).unwrap_or(u32::MAX);
            tokio::time::sleep_until(Instant::now() + WORK_PER_ITEM * items).await;
        }
        let completion = |lease: &proto::Lease| proto::Completion {
            lease_id: lease.lease_id.clone(),
            follow_ups: match self.role {
                Role::Process => vec![self.result_of(lease)],
                Role::Transfer => Vec::new(),
            },
        };
        leases.iter().map(completion).collect()
    }

    fn result_of(&self, lease: &proto::Lease) -> proto::FollowUp {
        let millimetres = match column(lease, "Millimetres") {
            Some(Kind::DoubleValue(millimetres)) => millimetres,
            _ => 0.0,
        };
        let columns = [
            ("event_id", column(lease, "Event_ID")),
            ("worker", Some(Kind::StringValue(self.name.clone()))),
            ("litres", Some(Kind::DoubleValue(millimetres * 1_000.0))),
        ];
        proto::FollowUp {
            queue: Role::Transfer.queue(),
            item: Some(proto::NewItem {
                columns: columns
                    .map(|(name, kind)| (name.to_owned(), proto::Value { kind }))
                    .into_iter()
                    .collect(),
                delay: None,
            }),
        }
    }
}

/// The time that all of the leases have left.
fn min_time_left(leases: &[proto::Lease]) -> Duration {
    let left = leases.iter().filter_map(|lease| lease.time_left);
    let left = left.filter_map(|left| Duration::try_from(left).ok());
    left.min().unwrap_or(WAIT)
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
