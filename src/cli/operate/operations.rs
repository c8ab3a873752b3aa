//! `operations`: shows and cancels operations on many items.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use lease_broker_proto as proto;

use super::admin::Admin;
use super::audit_args::AuditArgs;
use super::complete;
use super::listing::{self, Limit, Listing as _, listing, parse_limit};
use super::operation_row::{operation_fingerprint, operation_record, operation_row};
use super::place_args::{PlaceArgs, with_place};
use super::progress::{check_end, follow};
use super::watch::{Entry, Look, watch};
use crate::cli::CommandError;
use crate::cli::output::note;
use crate::grpc::Words as _;

/// Show operations on many items: those of redrive, cancel and purge
///
/// Without an id it lists the operations, the latest first. Operations that ended more than ten days ago are deleted.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = with_place("\
Fields of --output json and csv: operation_id; queue; action (redrive, cancel or purge); items (the state of the items); state \
(running, done, cancelled or failed); changed, refused, examined (numbers of items); create_time, end_time; limit; max_per_second; \
filter; actor; reason; error (the first refusal, or why it failed); broker_id (the broker that runs it); cancelled_by.

Examples:
  lease-broker operations
  lease-broker operations --queue rainfall --running
  lease-broker operations --watch
  lease-broker operations 018f3a52-6a0e-4b8e-9d7c-2f1f0a3b5c6d --watch
  lease-broker operations cancel 018f3a52-6a0e-4b8e-9d7c-2f1f0a3b5c6d

With an id and --watch the command ends with the operation. The exit code is then 4 if it did not do all its work."))]
pub(in crate::cli) struct Operations {
    #[command(subcommand)]
    command: Option<Command>,
    /// Id of the operation to show [default: list operations]
    #[arg(add = ArgValueCandidates::new(complete::operations))]
    id: Option<String>,
    /// Only operations on this queue
    #[arg(long, value_name = "QUEUE", conflicts_with = "id", add = ArgValueCandidates::new(complete::queues))]
    queue: Option<String>,
    /// Only operations that run
    #[arg(long, conflicts_with = "id")]
    running: bool,
    /// Maximum number of operations to list, or `all`
    #[arg(long, value_name = "N", default_value = "20", value_parser = parse_limit)]
    limit: Limit,
    /// Look again each second. A terminal is drawn again. A pipe gets a line for each operation that changes
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Cancel(CancelOperation),
    Continue(ContinueOperation),
}

/// Stop an operation
///
/// The items that it has changed stay as they are.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Examples:
  lease-broker operations cancel 018f3a52-6a0e-4b8e-9d7c-2f1f0a3b5c6d"))]
struct CancelOperation {
    /// Id of the operation
    #[arg(add = ArgValueCandidates::new(complete::operations))]
    id: String,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Run an operation of a database to its end, while no broker runs
///
/// For an operation whose command, with --config or --store, was interrupted. Operations of a service need no such command, because brokers
/// continue them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker operations continue 018f3a52-6a0e-4b8e-9d7c-2f1f0a3b5c6d --config queues.toml

Exit codes: 2, no item fits; 4, the operation failed, was cancelled, or the database refused some of its items.")]
struct ContinueOperation {
    /// Id of the operation
    #[arg(add = ArgValueCandidates::new(complete::operations))]
    id: String,
    #[command(flatten)]
    place: PlaceArgs,
}

impl Operations {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        match self.command {
            Some(Command::Cancel(cancel)) => return cancel.run().await,
            Some(Command::Continue(interrupted)) => return interrupted.run().await,
            None => {}
        }
        let admin = self.place.look(None).await?;
        match &self.id {
            Some(id) => self.show(&admin, id).await,
            None => self.list(&admin).await,
        }
    }

    async fn show(&self, admin: &Admin, id: &str) -> Result<(), CommandError> {
        let request = proto::GetOperationRequest {
            operation_id: id.to_owned(),
        };
        if !self.watch {
            let found = admin.get_operation(request).await?.operation;
            let record = operation_record(&found.unwrap_or_default());
            self.place.output().print_record(&record);
            return Ok(());
        }
        let mut last = proto::Operation::default();
        let look = async || {
            let found = admin.get_operation(request.clone()).await?.operation;
            last = found.unwrap_or_default();
            Ok(Look {
                entries: vec![entry(&last)],
                is_over: last.state() != proto::OperationState::Running,
            })
        };
        watch(self.place.output(), "", look).await?;
        if last.state() == proto::OperationState::Running {
            // The reader of the output is gone.
            return Ok(());
        }
        check_end(&last)
    }

    async fn list(&self, admin: &Admin) -> Result<(), CommandError> {
        let empty = proto::ListOperationsRequest::NONE;
        let output = self.place.output();
        if self.watch {
            let look = async || {
                let (operations, _) = self.find(admin).await?;
                Ok(Look {
                    entries: operations.iter().map(entry).collect(),
                    is_over: false,
                })
            };
            return watch(output, empty, look).await;
        }
        let (operations, has_more) = self.find(admin).await?;
        let rows: Vec<_> = operations.iter().map(operation_row).collect();
        output.print(&rows, empty);
        if has_more {
            note("there are more operations: --limit N lists N, --limit all lists all");
        }
        Ok(())
    }

    /// Returns the operations, and whether there are more than the limit allows.
    async fn find(&self, admin: &Admin) -> Result<(Vec<proto::Operation>, bool), CommandError> {
        let request = proto::ListOperationsRequest {
            queue: self.queue.clone().unwrap_or_default(),
            running_only: self.running,
            ..proto::ListOperationsRequest::default()
        };
        listing::find(admin, request, self.limit).await
    }
}

listing! {
    ListOperationsRequest of list_operations: operations, Operation, "no operations", operation_row
}

fn entry(operation: &proto::Operation) -> Entry {
    Entry {
        name: operation.operation_id.clone(),
        fingerprint: operation_fingerprint(operation),
        row: operation_row(operation),
    }
}

impl ContinueOperation {
    async fn run(self) -> Result<(), CommandError> {
        if self.place.database().is_none() {
            return Err(CommandError::usage(
                "brokers continue the operations of a service; name a database with --config or --store, or wait with `lease-broker \
                 operations ID --watch`",
            ));
        }
        let request = proto::GetOperationRequest {
            operation_id: self.id.clone(),
        };
        let admin = self.place.look(None).await?;
        let found = admin.get_operation(request).await?.operation;
        let found = found.unwrap_or_default();
        if found.action.is_none() && found.state() == proto::OperationState::Running {
            return Err(CommandError::usage(format!(
                "operation {id} was started by a newer version; continue it with that one, or end it with `lease-broker operations \
                 cancel {id}`",
                id = self.id
            )));
        }
        let admin = self.place.change(Some(&found.queue)).await?;
        let ended = follow(&admin, &self.id, None).await?;
        let (id, state) = (&ended.operation_id, ended.state().word());
        let sentence = format!(
            "operation {id} is {state}; it has changed {} items",
            ended.changed
        );
        let row = operation_row(&ended);
        self.place.output().print_result(&sentence, &row);
        check_end(&ended)
    }
}

impl CancelOperation {
    async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.change(None).await?;
        let request = proto::CancelOperationRequest {
            operation_id: self.id,
            reason: self.audit.reason,
        };
        let cancelled = admin.cancel_operation(request).await?.operation;
        let operation = cancelled.unwrap_or_default();
        let sentence = format!(
            "operation {} is {}; it has changed {} items",
            operation.operation_id,
            operation.state().word(),
            operation.changed
        );
        self.place
            .output()
            .print_result(&sentence, &operation_row(&operation));
        Ok(())
    }
}
