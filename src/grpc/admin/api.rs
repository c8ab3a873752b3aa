//! The rpcs of `AdminService`: each checks the caller's role, converts the request, asks the operator's part of the broker, and converts
//! the result.

use std::sync::Arc;

use lease_broker_model::trace_context::Span;
use lease_broker_proto as proto;
use lease_broker_store::{ItemFilter, LimitChange, PauseMode};
use tonic::Status;
use uuid::Uuid;

use super::audit::{audited, cancelled_keys, of_keys};
use super::groups::{group_page_to_proto, group_pause_to_proto};
use super::limits::{limits_from_proto, limits_to_proto};
use super::messages::{
    brokers_to_proto, item_list_to_proto, list_items_from_proto, one_item_to_proto,
    operation_to_proto, pause_to_proto, queue_state_to_proto, start_from_proto, until_from_proto,
    value_from_proto,
};
use crate::broker::{CountLimits, Error, ListedBrokers, Operator};
use crate::grpc::caller::Caller;
use crate::grpc::messages::{cancel_from_proto, cancel_results, uuid_from_proto};
use crate::security::Rpc;

type Answer<T> = Result<T, Status>;

/// The rpcs of `AdminService` on one store.
#[derive(Clone)]
pub struct AdminApi {
    operator: Arc<Operator>,
    count_limits: CountLimits,
    /// The span of the call that is served. `None`: it is not recorded.
    call: Option<Span>,
}

impl AdminApi {
    /// Serves by this operator. `call`: the span of the call that is served. `None`: it is not recorded.
    pub fn new(operator: Arc<Operator>, call: Option<Span>) -> Self {
        let count_limits = CountLimits::CALL;
        Self {
            operator,
            count_limits,
            call,
        }
    }

    /// Serves the pages of the dashboard, which wait less long for counts.
    pub fn of_pages(operator: Arc<Operator>) -> Self {
        let count_limits = CountLimits::PAGE;
        Self {
            operator,
            count_limits,
            call: None,
        }
    }

    /// Lists queues.
    pub async fn list_queues(
        &self,
        caller: &Caller,
        request: proto::ListQueuesRequest,
    ) -> Answer<proto::ListQueuesResponse> {
        for queue in &request.queues {
            caller.check(Rpc::ListQueues, queue)?;
        }
        caller.check_somewhere(Rpc::ListQueues)?;
        let is_visible = |queue: &str| caller.may(Rpc::ListQueues, queue);
        let limits = (!request.exact).then_some(self.count_limits);
        let states = self
            .operator
            .list_queues(&request.queues, limits, is_visible);
        let states = states.await?;
        Ok(proto::ListQueuesResponse {
            queues: states.into_iter().map(queue_state_to_proto).collect(),
        })
    }

    /// Lists items.
    pub async fn list_items(
        &self,
        caller: &Caller,
        request: proto::ListItemsRequest,
    ) -> Answer<proto::ListItemsResponse> {
        caller.check(Rpc::ListItems, &request.queue)?;
        let list = list_items_from_proto(request)?;
        Ok(item_list_to_proto(self.operator.list_items(list).await?))
    }

    /// Returns an item.
    pub async fn get_item(
        &self,
        caller: &Caller,
        request: proto::GetItemRequest,
    ) -> Answer<proto::GetItemResponse> {
        caller.check(Rpc::GetItem, &request.queue)?;
        let item = self.operator.get_item(&request.queue, &request.key).await?;
        let spec = self.operator.spec(&request.queue)?;
        Ok(one_item_to_proto(item, spec))
    }

    /// Pauses a queue.
    pub async fn pause_queue(
        &self,
        caller: &Caller,
        request: proto::PauseQueueRequest,
    ) -> Answer<proto::PauseQueueResponse> {
        let (rpc, queue, reason) = (Rpc::PauseQueue, &request.queue, &request.reason);
        caller.check(rpc, queue)?;
        let mode = value_from_proto::<proto::PauseMode>("mode", request.mode)?;
        let mode = mode.unwrap_or(PauseMode::Claims);
        let until = until_from_proto(request.until)?;
        let actor = caller.actor();
        let paused = self
            .operator
            .pause_queue(&actor, queue, mode, reason, until);
        let pause = audited(caller, rpc, queue, mode.name(), reason, paused).await?;
        Ok(proto::PauseQueueResponse {
            pause: Some(pause_to_proto(pause)),
        })
    }

    /// Ends the pause of a queue.
    pub async fn resume_queue(
        &self,
        caller: &Caller,
        request: proto::ResumeQueueRequest,
    ) -> Answer<proto::ResumeQueueResponse> {
        let (rpc, queue) = (Rpc::ResumeQueue, &request.queue);
        caller.check(rpc, queue)?;
        let resumed = self.operator.resume_queue(queue);
        let ended = audited(caller, rpc, queue, "", &request.reason, resumed).await?;
        Ok(proto::ResumeQueueResponse {
            ended: ended.map(pause_to_proto),
        })
    }

    /// Changes limits of a queue.
    pub async fn set_queue_limits(
        &self,
        caller: &Caller,
        request: proto::SetQueueLimitsRequest,
    ) -> Answer<proto::SetQueueLimitsResponse> {
        let (rpc, queue) = (Rpc::SetQueueLimits, &request.queue);
        caller.check(rpc, queue)?;
        let change = limits_from_proto(request.limits.unwrap_or_default())?;
        let detail = format!("{change:?}");
        let changed = self.operator.set_limits(queue, change);
        let limits = if change == LimitChange::default() {
            changed.await?
        } else {
            audited(caller, rpc, queue, &detail, &request.reason, changed).await?
        };
        Ok(proto::SetQueueLimitsResponse {
            limits: Some(limits_to_proto(limits)),
        })
    }

    /// Lists groups.
    pub async fn list_groups(
        &self,
        caller: &Caller,
        request: proto::ListGroupsRequest,
    ) -> Answer<proto::ListGroupsResponse> {
        let queue = &request.queue;
        caller.check(Rpc::ListGroups, queue)?;
        let state = value_from_proto::<proto::GroupState>("state", request.state)?;
        let (size, token) = (request.page_size, &request.page_token);
        let page = self.operator.list_groups(queue, state, size, token).await?;
        Ok(group_page_to_proto(queue, page))
    }

    /// Pauses a group.
    pub async fn pause_group(
        &self,
        caller: &Caller,
        request: proto::PauseGroupRequest,
    ) -> Answer<proto::PauseGroupResponse> {
        let (rpc, queue, reason) = (Rpc::PauseGroup, &request.queue, &request.reason);
        caller.check(rpc, queue)?;
        let until = until_from_proto(request.until)?;
        let (actor, group) = (caller.actor(), &request.group);
        let paused = self
            .operator
            .pause_group(&actor, queue, group, reason, until);
        let pause = audited(caller, rpc, queue, group, reason, paused).await?;
        Ok(proto::PauseGroupResponse {
            pause: Some(group_pause_to_proto(queue, pause)),
        })
    }

    /// Ends the pause of a group.
    pub async fn resume_group(
        &self,
        caller: &Caller,
        request: proto::ResumeGroupRequest,
    ) -> Answer<proto::ResumeGroupResponse> {
        let (rpc, queue, group) = (Rpc::ResumeGroup, &request.queue, &request.group);
        caller.check(rpc, queue)?;
        let resumed = self.operator.resume_group(queue, group);
        let ended = audited(caller, rpc, queue, group, &request.reason, resumed).await?;
        Ok(proto::ResumeGroupResponse {
            ended: ended.map(|pause| group_pause_to_proto(queue, pause)),
        })
    }

    /// Starts an operation, or counts what it would change.
    pub async fn start_operation(
        &self,
        caller: &Caller,
        request: proto::StartOperationRequest,
    ) -> Answer<proto::StartOperationResponse> {
        let rpc = Rpc::StartOperation;
        caller.check(rpc, &request.queue)?;
        let action = &request.action;
        if let Some(proto::start_operation_request::Action::Purge(_)) = action {
            caller.check_purge(&request.queue)?;
        }
        let (dry_run, id) = (request.dry_run, request.request_id.clone());
        let start = start_from_proto(request)?;
        if dry_run {
            let counted = self.operator.dry_run(&start).await?;
            return Ok(proto::StartOperationResponse {
                operation: None,
                matched: i64::try_from(counted.matched).unwrap_or(i64::MAX),
                at_least: counted.at_least,
                examined: i64::try_from(counted.examined).unwrap_or(i64::MAX),
            });
        }
        let id = uuid_from_proto(|| "request_id".to_owned(), &id)?;
        let (queue, reason) = (start.queue.clone(), start.reason.clone());
        let selection = &start.selection;
        let items = if !selection.keys.is_empty() {
            let keys: Vec<&str> = selection.keys.iter().map(String::as_str).collect();
            format!("items {}", of_keys(&keys))
        } else if selection.filter == ItemFilter::default() {
            "all items".to_owned()
        } else {
            "the items of its filter".to_owned()
        };
        let kind = start.change.kind().name();
        let detail = format!("{kind}, operation {id}: {items}");
        let actor = caller.actor();
        let started = self.operator.start_operation(&actor, id, start);
        let started = audited(caller, rpc, &queue, &detail, &reason, started).await?;
        Ok(proto::StartOperationResponse {
            operation: Some(operation_to_proto(started)),
            ..proto::StartOperationResponse::default()
        })
    }

    /// Takes leases away from their workers.
    pub async fn cancel_leases(
        &self,
        caller: &Caller,
        request: proto::CancelLeasesRequest,
    ) -> Answer<proto::CancelLeasesResponse> {
        let rpc = Rpc::CancelLeases;
        caller.check(rpc, &request.queue)?;
        let (queue, reason) = (request.queue.clone(), request.reason.clone());
        let detail = cancelled_keys(&request);
        let cancelled = cancel_from_proto(request)?;
        let cancelled = self.operator.cancel_leases(cancelled, self.call);
        let cancelled = audited(caller, rpc, &queue, &detail, &reason, cancelled).await?;
        Ok(proto::CancelLeasesResponse {
            results: cancel_results(cancelled),
        })
    }

    /// Returns an operation. One on a queue of which the caller has no role does not exist for it.
    pub async fn get_operation(
        &self,
        caller: &Caller,
        request: proto::GetOperationRequest,
    ) -> Answer<proto::GetOperationResponse> {
        caller.check_somewhere(Rpc::GetOperation)?;
        let id = operation_id(&request.operation_id)?;
        let found = self.operator.get_operation(id).await?;
        if !caller.may(Rpc::GetOperation, &found.operation.queue) {
            return Err(Error::OperationNotFound(id).into());
        }
        Ok(proto::GetOperationResponse {
            operation: Some(operation_to_proto(found)),
        })
    }

    /// Lists operations.
    pub async fn list_operations(
        &self,
        caller: &Caller,
        request: proto::ListOperationsRequest,
    ) -> Answer<proto::ListOperationsResponse> {
        let rpc = Rpc::ListOperations;
        let queues = if request.queue.is_empty() {
            caller.check_somewhere(rpc)?;
            let queues = self.operator.queue_names();
            let visible = queues.filter(|queue| caller.may(rpc, queue));
            visible.map(str::to_owned).collect()
        } else {
            caller.check(rpc, &request.queue)?;
            vec![request.queue]
        };
        let list = self.operator.list_operations(
            queues,
            request.running_only,
            request.page_size,
            &request.page_token,
        );
        let list = list.await?;
        Ok(proto::ListOperationsResponse {
            operations: list
                .operations
                .into_iter()
                .map(operation_to_proto)
                .collect(),
            next_page_token: list.next_page_token,
        })
    }

    /// Stops an operation.
    pub async fn cancel_operation(
        &self,
        caller: &Caller,
        request: proto::CancelOperationRequest,
    ) -> Answer<proto::CancelOperationResponse> {
        let rpc = Rpc::CancelOperation;
        caller.check_somewhere(rpc)?;
        let id = operation_id(&request.operation_id)?;
        let found = self.operator.get_operation(id).await?;
        let queue = found.operation.queue;
        if !caller.may(rpc, &queue) {
            return Err(Error::OperationNotFound(id).into());
        }
        let (actor, detail) = (caller.actor(), id.to_string());
        let cancelled = self.operator.cancel_operation(&actor, id);
        let cancelled = audited(caller, rpc, &queue, &detail, &request.reason, cancelled).await?;
        Ok(proto::CancelOperationResponse {
            operation: Some(operation_to_proto(cancelled)),
        })
    }

    /// Lists brokers.
    pub async fn list_brokers(
        &self,
        caller: &Caller,
        _: proto::ListBrokersRequest,
    ) -> Answer<proto::ListBrokersResponse> {
        caller.check_somewhere(Rpc::ListBrokers)?;
        let listed = self.operator.list_brokers().await?;
        Ok(self.brokers(caller, &listed))
    }

    /// Tells a broker to stop.
    pub async fn drain_broker(
        &self,
        caller: &Caller,
        request: proto::DrainBrokerRequest,
    ) -> Answer<proto::DrainBrokerResponse> {
        let rpc = Rpc::DrainBroker;
        caller.check_somewhere(rpc)?;
        let id = uuid_from_proto(|| "broker_id".to_owned(), &request.broker_id)?;
        let (detail, told) = (id.to_string(), self.operator.drain_broker(id));
        let told = audited(caller, rpc, "", &detail, &request.reason, told).await?;
        Ok(proto::DrainBrokerResponse {
            broker: self.brokers(caller, &told).brokers.pop(),
        })
    }

    /// Converts brokers for a caller. Queues on which the caller has no role are left out.
    fn brokers(&self, caller: &Caller, listed: &ListedBrokers) -> proto::ListBrokersResponse {
        let is_shown = |queue: &str| caller.may(Rpc::ListBrokers, queue);
        brokers_to_proto(&self.operator, listed, is_shown)
    }
}

fn operation_id(text: &str) -> Result<Uuid, Error> {
    uuid_from_proto(|| "operation_id".to_owned(), text)
}
