//! The rpcs of `AdminService`: those of a running service, or those on a database that this process has opened.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use lease_broker_proto as proto;
use tonic::{Response, Status};
use tonic_types::StatusExt as _;

use super::database_user::database_user;
use super::service::Service;
use crate::broker::Operator;
use crate::cli::command_error::CommandError;
use crate::cli::config_args::unknown_queue;
use crate::grpc::{AdminApi, Caller};
use crate::security::rpcs;

/// The service, or the database.
#[derive(Clone)]
pub(super) enum Admin {
    /// A running service.
    Service(Arc<Service>),
    /// A database that this process has opened.
    Database(Database),
}

/// A database that this process has opened.
#[derive(Clone)]
pub(super) struct Database {
    api: AdminApi,
    operator: Arc<Operator>,
    caller: Caller,
}

impl Database {
    pub(super) fn new(operator: Operator) -> Self {
        let operator = Arc::new(operator);
        Self {
            api: AdminApi::new(operator.clone(), None),
            operator,
            caller: Caller::named(database_user()),
        }
    }
}

macro_rules! admin {
    (Leases { $($leases:tt)* } Admin {
        $($(#[$doc:meta])* $rpc:ident $method:ident($request:ident) -> $response:ident $roles:tt;)*
    }) => {
        impl Admin {$(
            pub(super) async fn $method(
                &self,
                request: proto::$request,
            ) -> Result<proto::$response, CommandError> {
                let answer = match self {
                    Self::Service(service) => {
                        let mut client = service.client().await?;
                        // Boxed, because the futures of calls are large.
                        Box::pin(async move { client.$method(request).await })
                            .await
                            .map(Response::into_inner)
                    }
                    Self::Database(database) => {
                        Box::pin(database.api.$method(&database.caller, request)).await
                    }
                };
                match answer {
                    Ok(answer) => Ok(answer),
                    Err(status) => Err(self.error(status).await),
                }
            }
        )*}
    };
}

rpcs!(admin);

impl Admin {
    /// Runs operations of the database in this process, for as long as it is polled. For a service it does nothing: brokers run them.
    pub(super) async fn run_operations(&self) -> Infallible {
        let Self::Database(database) = self else {
            return pending().await;
        };
        match Box::pin(database.operator.run_operations()).await {
            Ok(never) => never,
            // Without a right to write no operation was started.
            Err(_) => pending().await,
        }
    }

    /// Returns whether operations run in this process.
    pub(super) fn runs_operations(&self) -> bool {
        matches!(self, Self::Database(_))
    }

    /// Returns the names of the queues.
    pub(super) async fn queue_names(&self) -> Vec<String> {
        match self {
            Self::Database(database) => {
                let names = database.operator.queue_names();
                names.map(str::to_owned).collect()
            }
            Self::Service(service) => {
                let request = proto::ListQueuesRequest::default();
                let Ok(mut client) = service.client().await else {
                    return Vec::new();
                };
                let listed = Box::pin(client.list_queues(request)).await;
                let listed = listed.map(Response::into_inner).unwrap_or_default();
                listed.queues.into_iter().map(|row| row.queue).collect()
            }
        }
    }

    /// Turns a status into the error of a command, and notes an outage.
    async fn error(&self, status: Status) -> CommandError {
        let error = self.explain(status).await;
        if let Self::Service(service) = self
            && error.is_outage()
        {
            service.note_outage();
        }
        error
    }

    async fn explain(&self, status: Status) -> CommandError {
        let Some(info) = status.get_details_error_info() else {
            return status.into();
        };
        match &*info.reason {
            "QUEUE_NOT_FOUND" => {
                let names = self.queue_names().await;
                let queue = info.metadata.get("queue").map(String::as_str);
                unknown_queue(names.iter().map(String::as_str), queue)
            }
            "PURGE_NOT_ALLOWED" | "STORE_MISCONFIGURED" => {
                CommandError::usage(status.message().to_owned())
            }
            "OPERATION_RUNNING" if self.runs_operations() => {
                let id = info.metadata.get("operation_id");
                let hint = continue_hint(id.map_or("ID", String::as_str));
                CommandError::from(status).with_hint(&hint)
            }
            "STORE_UNAVAILABLE" if self.runs_operations() => {
                CommandError::io(status.message().to_owned())
            }
            _ => status.into(),
        }
    }
}

/// Returns the remedy for an operation of a database that no process runs.
pub(super) fn continue_hint(operation_id: &str) -> String {
    format!(
        "while no broker runs, `lease-broker operations continue {operation_id}` with the same --config or --store runs it to its end"
    )
}
