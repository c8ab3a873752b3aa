//! Groups in requests and responses.

use lease_broker_model::millis::duration_between;
use lease_broker_proto as proto;
use lease_broker_store::{GroupHead, GroupPause, ListedGroup};

use crate::broker::GroupPage;
use crate::grpc::messages::item_state;
use crate::grpc::protobuf_time::{duration_to_proto, timestamp};
use crate::grpc::words::Words as _;

/// Converts the pause of a group.
pub(super) fn group_pause_to_proto(queue: &str, pause: GroupPause) -> proto::GroupPause {
    proto::GroupPause {
        queue: queue.to_owned(),
        group: pause.group.to_string(),
        reason: pause.reason,
        actor: pause.actor,
        pause_time: Some(timestamp(pause.pause_time)),
        until: pause.until.map(timestamp),
    }
}

/// Converts a page of groups.
pub(super) fn group_page_to_proto(queue: &str, page: GroupPage) -> proto::ListGroupsResponse {
    let now = page.found.now;
    let groups = page.found.groups.into_iter();
    let groups = groups.map(|group| group_to_proto(queue, group, now));
    proto::ListGroupsResponse {
        groups: groups.collect(),
        next_page_token: page.next_page_token,
        is_partial: page.is_partial,
    }
}

fn group_to_proto(queue: &str, group: ListedGroup, now: i64) -> proto::GroupSummary {
    let pause = group.pause;
    proto::GroupSummary {
        group: group.group.to_string(),
        state: proto::GroupState::of(group.state).into(),
        leases: i32::try_from(group.leases).unwrap_or(i32::MAX),
        head: group.head.map(|head| head_to_proto(&head, now)),
        pause: pause.map(|pause| group_pause_to_proto(queue, pause)),
    }
}

fn head_to_proto(head: &GroupHead, now: i64) -> proto::GroupHead {
    let age = head.state_time.map(|since| duration_between(since, now));
    let due_in = head.due_time.map(|due| duration_between(now, due));
    proto::GroupHead {
        key: head.key.to_string(),
        state: item_state(Some(head.state)).into(),
        age: age.map(duration_to_proto),
        due_time: head.due_time.map(timestamp),
        due_in: due_in.map(duration_to_proto),
    }
}
