//! Conversions between the messages of `AdminService` and the types of the broker.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_proto as proto;
use lease_broker_proto::{operation, start_operation_request};
use lease_broker_store::{FoundItem, ItemFilter, ListedBroker, QueuePause};

use super::settings::queue_settings;
use crate::broker::{
    Error, ItemList, ItemSelection, ListItems, ListedBrokers, OneItem, OperationChange,
    OperationView, Operator, QueueState, StartOperation,
};
use crate::grpc::messages::{columns_from_proto, duration_from_proto, item_state};
use crate::grpc::protobuf_time::{
    check_timestamp, duration_to_proto, millis_rounded_up, timestamp,
};
use crate::grpc::words::Words;
use crate::why;

type Result<T> = std::result::Result<T, Error>;

/// Converts the state of a queue.
pub(super) fn queue_state_to_proto(queue: QueueState<'_>) -> proto::QueueSummary {
    let activity = queue.activity;
    let problem = queue.stats.err().unwrap_or_default().to_owned();
    let counts = queue.stats.iter().flat_map(|stats| {
        State::ALL.into_iter().map(|state| proto::StateCount {
            state: item_state(Some(state)).into(),
            count: i64::try_from(stats.count_of(state)).unwrap_or(i64::MAX),
            at_least: stats.is_lower_bound(state),
        })
    });
    let counts = counts.collect();
    let stats = queue.stats.unwrap_or_default();
    proto::QueueSummary {
        queue: queue.spec.name.clone(),
        table: queue.spec.table.clone(),
        counts,
        oldest_ready: stats.oldest_ready.map(duration_to_proto),
        oldest_ready_sampled: stats.oldest_ready_is_sampled,
        oldest_lease: stats.oldest_lease.map(duration_to_proto),
        oldest_lease_sampled: stats.oldest_lease_is_sampled,
        pause: queue.pause.map(pause_to_proto),
        rates: Some(proto::QueueRates {
            claimed: activity.claimed,
            completed: activity.completed,
            failed: activity.failed,
            expired: activity.expired,
            enqueued: activity.enqueued,
            released: activity.released,
        }),
        operations: queue
            .operations
            .into_iter()
            .map(operation_to_proto)
            .collect(),
        filterable_columns: queue.spec.filterable.clone(),
        settings_json: queue_settings(queue.spec).to_string(),
        waiting_claims: i64::try_from(activity.waiting).unwrap_or(i64::MAX),
        problem,
    }
}

/// Converts a pause.
pub(super) fn pause_to_proto(pause: QueuePause) -> proto::QueuePause {
    proto::QueuePause {
        queue: pause.queue,
        mode: proto::PauseMode::of(pause.mode).into(),
        reason: pause.reason,
        actor: pause.actor,
        pause_time: Some(timestamp(pause.pause_time)),
        until: pause.until.map(timestamp),
    }
}

/// Converts the end of a pause.
pub(super) fn until_from_proto(until: Option<prost_types::Timestamp>) -> Result<Option<i64>> {
    millis_from_proto("until", until)
}

/// Converts a time to milliseconds since 1970. `None`: the field is absent.
fn millis_from_proto(field: &str, time: Option<prost_types::Timestamp>) -> Result<Option<i64>> {
    let Some(time) = time else {
        return Ok(None);
    };
    check_timestamp(time.seconds, time.nanos).map_err(|problem| Error::invalid(field, problem))?;
    Ok(Some(millis_rounded_up(&time)))
}

/// Converts a state or a mode that a request names. `None`: it is unspecified.
pub(super) fn value_from_proto<E: Words + TryFrom<i32>>(
    field: &str,
    number: i32,
) -> Result<Option<E::Meaning>> {
    let name = field.rsplit('.').next().unwrap_or(field);
    let unknown = |_| Error::invalid(field, format!("{number} is not the number of a {name}"));
    Ok(E::try_from(number).map_err(unknown)?.meaning())
}

/// Converts a filter.
fn selection_from_proto(filter: Option<proto::ItemFilter>) -> Result<ItemSelection> {
    let filter = filter.unwrap_or_default();
    let text = |text: String| (!text.is_empty()).then_some(text);
    let columns = columns_from_proto(filter.columns.into_iter().collect());
    Ok(ItemSelection {
        keys: filter.keys,
        filter: ItemFilter {
            owner: text(filter.owner),
            error_contains: text(filter.error_contains),
            state_since: millis_from_proto("filter.state_since", filter.state_since)?,
            state_before: millis_from_proto("filter.state_before", filter.state_before)?,
            min_attempt: Some(i64::from(filter.min_attempt)).filter(|least| *least != 0),
            columns: columns.map_err(|error| error.in_message("filter"))?,
        },
    })
}

fn selection_to_proto(selection: ItemSelection) -> proto::ItemFilter {
    let ItemSelection { keys, filter } = selection;
    let columns = filter.columns.into_iter();
    proto::ItemFilter {
        keys,
        owner: filter.owner.unwrap_or_default(),
        error_contains: filter.error_contains.unwrap_or_default(),
        state_since: filter.state_since.map(timestamp),
        state_before: filter.state_before.map(timestamp),
        min_attempt: i32::try_from(filter.min_attempt.unwrap_or(0)).unwrap_or(i32::MAX),
        columns: columns.map(|(name, value)| (name, value.into())).collect(),
    }
}

/// Converts a request for a page of items.
pub(super) fn list_items_from_proto(request: proto::ListItemsRequest) -> Result<ListItems> {
    Ok(ListItems {
        state: value_from_proto::<proto::ItemState>("state", request.state)?,
        selection: selection_from_proto(request.filter)?,
        queue: request.queue,
        page_size: request.page_size,
        page_token: request.page_token,
        newest_first: request.newest_first,
    })
}

/// Converts a page of items.
pub(super) fn item_list_to_proto(list: ItemList) -> proto::ListItemsResponse {
    proto::ListItemsResponse {
        items: list.items.into_iter().map(item_to_proto).collect(),
        next_page_token: list.next_page_token,
        examined: i64::try_from(list.examined).unwrap_or(i64::MAX),
        is_partial: list.is_partial,
    }
}

fn item_to_proto(item: FoundItem) -> proto::ItemSummary {
    let listed = item.listed;
    proto::ItemSummary {
        key: listed.key.to_string(),
        state: item_state(item.state).into(),
        owner: listed.owner.unwrap_or_default(),
        state_time: listed.state_time.map(timestamp),
        due_time: listed.due_time.map(timestamp),
        attempt: i64::from(listed.attempt),
        fencing_token: listed.fence,
        error: listed.error.unwrap_or_default(),
        age: listed.age.map(duration_to_proto),
        due_in: listed.due_in.map(duration_to_proto),
    }
}

/// Converts one item.
pub(super) fn one_item_to_proto(item: OneItem, queue: &QueueSpec) -> proto::GetItemResponse {
    let OneItem { record, facts } = item;
    let key = record.item.listed.key.to_string();
    let causes = why::causes(&facts, queue);
    let columns: BTreeMap<String, proto::ColumnValue> = record
        .columns
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    proto::GetItemResponse {
        item: Some(item_to_proto(record.item)),
        columns,
        trace_parent: record.trace_parent.unwrap_or_default(),
        checkpoint_bytes: record
            .checkpoint_bytes
            .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        now: Some(timestamp(record.now)),
        causes: causes
            .iter()
            .map(|cause| cause.sentence(&queue.name, &key))
            .collect(),
    }
}

/// Converts a request to start an operation.
pub(super) fn start_from_proto(request: proto::StartOperationRequest) -> Result<StartOperation> {
    use start_operation_request::Action;

    let delay = |field: &str, delay| -> Result<Duration> {
        Ok(duration_from_proto(field, delay)?.unwrap_or_default())
    };
    let change = match request.action {
        None => {
            let problem = "is required: redrive, cancel_leases or purge";
            return Err(Error::invalid("action", problem));
        }
        Some(Action::Redrive(redrive)) => OperationChange::Redrive {
            delay: delay("redrive.delay", redrive.delay)?,
            keep_attempts: redrive.keep_attempts,
            clear_checkpoint: redrive.clear_checkpoint,
        },
        Some(Action::CancelLeases(cancel)) => OperationChange::CancelLeases {
            delay: delay("cancel_leases.delay", cancel.delay)?,
            dead_letter: cancel.dead_letter,
        },
        Some(Action::Purge(purge)) => {
            match value_from_proto::<proto::ItemState>("purge.state", purge.state)? {
                Some(State::Completed) => OperationChange::PurgeCompleted,
                Some(State::Dead) => OperationChange::PurgeDead,
                _ => {
                    let problem = "must be completed or dead; there is no default";
                    return Err(Error::invalid("purge.state", problem));
                }
            }
        }
    };
    Ok(StartOperation {
        queue: request.queue,
        selection: selection_from_proto(request.filter)?,
        change,
        limit: request.limit,
        max_per_second: request.max_per_second,
        reason: request.reason,
    })
}

/// Converts an operation.
pub(super) fn operation_to_proto(view: OperationView) -> proto::Operation {
    let row = view.operation;
    proto::Operation {
        operation_id: row.id.to_string(),
        queue: row.queue,
        action: view.change.map(action_to_proto),
        filter: Some(selection_to_proto(view.selection)),
        limit: i64::try_from(view.limit.unwrap_or(0)).unwrap_or(i64::MAX),
        max_per_second: i32::try_from(view.max_per_second.unwrap_or(0)).unwrap_or(i32::MAX),
        state: proto::OperationState::of(row.state).into(),
        actor: row.actor,
        reason: row.reason,
        create_time: Some(timestamp(row.create_time)),
        end_time: row.end_time.map(timestamp),
        examined: row.examined,
        changed: row.changed,
        refused: row.refused,
        error: row.error.unwrap_or_default(),
        broker_id: row.holder.map(|id| id.to_string()).unwrap_or_default(),
        cancelled_by: row.cancelled_by.unwrap_or_default(),
    }
}

fn action_to_proto(change: OperationChange) -> operation::Action {
    let delay = |delay: Duration| (!delay.is_zero()).then(|| duration_to_proto(delay));
    match change {
        OperationChange::Redrive {
            delay: after,
            keep_attempts,
            clear_checkpoint,
        } => operation::Action::Redrive(proto::Redrive {
            delay: delay(after),
            keep_attempts,
            clear_checkpoint,
        }),
        OperationChange::CancelLeases {
            delay: after,
            dead_letter,
        } => operation::Action::CancelLeases(proto::CancelHeld {
            delay: delay(after),
            dead_letter,
        }),
        OperationChange::PurgeDead | OperationChange::PurgeCompleted => {
            operation::Action::Purge(proto::Purge {
                state: item_state(Some(change.state())).into(),
            })
        }
    }
}

/// Converts the list of brokers. `is_shown`: returns whether the caller may see a queue.
pub(super) fn brokers_to_proto(
    operator: &Operator,
    listed: &ListedBrokers,
    is_shown: impl Fn(&str) -> bool,
) -> proto::ListBrokersResponse {
    let brokers = listed.list.brokers.iter();
    let convert = |broker: &ListedBroker| {
        let is_self = listed.own == Some(broker.instance.id);
        let mut differing_queues = operator.differing_queues(broker);
        differing_queues.retain(|queue| is_shown(queue));
        proto::BrokerInstance {
            differing_queues,
            ..instance_to_proto(broker, listed.list.now, is_self)
        }
    };
    proto::ListBrokersResponse {
        brokers: brokers.map(convert).collect(),
    }
}

/// Converts a broker, without the queues that differ. `now`: the database's clock, in milliseconds since 1970.
fn instance_to_proto(broker: &ListedBroker, now: i64, is_self: bool) -> proto::BrokerInstance {
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let seen = now - millis(broker.silence) + millis(broker.ahead);
    proto::BrokerInstance {
        broker_id: broker.instance.id.to_string(),
        address: broker.instance.address.clone(),
        version: broker.instance.version.clone(),
        start_time: Some(timestamp(broker.start_time)),
        seen_time: Some(timestamp(seen)),
        is_live: broker.is_live(),
        is_draining: broker.instance.draining,
        is_self,
        differing_queues: Vec::new(),
    }
}
