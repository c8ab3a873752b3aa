//! `AdminService`: lists of queues and items, and operations on many items. Pauses are in `pauses.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker::broker::Identity;
use lease_broker_proto::start_operation_request::Action;
use lease_broker_proto::{
    CancelHeld, CancelOperationRequest, GetItemRequest, GetOperationRequest, ItemFilter, ItemState,
    ListBrokersRequest, ListItemsRequest, ListItemsResponse, ListOperationsRequest,
    ListQueuesRequest, Operation, OperationState, Purge, Redrive, StartOperationRequest,
    StartOperationResponse,
};
use tonic::{Code, Status};
use uuid::Uuid;

use crate::support::api_error::{assert_api_error, assert_field_error};
use crate::support::client::{Client, duration, key, text};
use crate::support::database::query_value;
use crate::support::server::Server;
use crate::support::timeout::wait_until;

/// The queue `work`, whose items become dead at their first failure.
const QUEUE: &str = "
[queues.work]
managed_columns = { payload = \"text\", customer = \"integer\" }
max_attempts = 1
filterable = [\"customer\"]
";

/// Starts a broker that runs operations.
pub(super) async fn start(toml: &str) -> (Server, Client) {
    let server = Server::with_config(toml).await;
    server.broker().announce(Identity {
        id: Uuid::new_v4(),
        address: server.address.to_string(),
    });
    let client = server.client().await;
    (server, client)
}

/// Adds this many items and makes them dead, each with its number as the text of the error.
pub(super) async fn add_dead(client: &Client, count: usize) {
    let payloads: Vec<String> = (0..count).map(|number| format!("item {number}")).collect();
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    client.enqueue(&payloads).await;
    let count = i32::try_from(count).expect("few items");
    for (number, lease) in client.claim(count).await.iter().enumerate() {
        client
            .fail(&lease.lease_id, &format!("error {number} of 100 %"))
            .await;
    }
}

fn list_request(state: ItemState) -> ListItemsRequest {
    ListItemsRequest {
        queue: "work".to_owned(),
        state: state.into(),
        ..ListItemsRequest::default()
    }
}

async fn list(client: &Client, request: ListItemsRequest) -> Result<ListItemsResponse, Status> {
    let listed = client.admin.clone().list_items(request).await?;
    Ok(listed.into_inner())
}

async fn keys(client: &Client, state: ItemState, filter: ItemFilter) -> Vec<String> {
    let request = ListItemsRequest {
        filter: Some(filter),
        ..list_request(state)
    };
    let listed = list(client, request).await.expect("listed");
    listed.items.into_iter().map(|item| item.key).collect()
}

pub(super) fn operation(action: Action) -> StartOperationRequest {
    StartOperationRequest {
        queue: "work".to_owned(),
        action: Some(action),
        request_id: Uuid::new_v4().to_string(),
        reason: "by a test".to_owned(),
        ..StartOperationRequest::default()
    }
}

pub(super) fn redrive() -> StartOperationRequest {
    operation(Action::Redrive(Redrive::default()))
}

pub(super) async fn begin(
    client: &Client,
    request: StartOperationRequest,
) -> Result<StartOperationResponse, Status> {
    let started = client.admin.clone().start_operation(request).await?;
    Ok(started.into_inner())
}

/// Reads an operation.
pub(super) async fn read_operation(client: &Client, id: &str) -> Operation {
    let request = GetOperationRequest {
        operation_id: id.to_owned(),
    };
    let read = client.admin.clone().get_operation(request).await;
    read.expect("read").into_inner().operation.expect("one")
}

/// Waits until an operation has ended.
pub(super) async fn end_of(client: &Client, id: &str) -> Operation {
    wait_until("the operation has ended", async || {
        read_operation(client, id).await.state() != OperationState::Running
    })
    .await;
    read_operation(client, id).await
}

#[tokio::test]
async fn items_are_listed_by_each_part_of_a_filter() {
    let (server, client) = start(QUEUE).await;
    add_dead(&client, 12).await;
    let database = server.database();
    database
        .execute_batch(
            "UPDATE work SET customer = id % 3; UPDATE work SET customer = NULL WHERE id = 12",
        )
        .expect("customers are set");
    let dead = |filter| keys(&client, ItemState::Dead, filter);
    assert_eq!(dead(ItemFilter::default()).await.len(), 12);
    let by_error = ItemFilter {
        error_contains: "or 1 of 100 %".to_owned(),
        ..ItemFilter::default()
    };
    assert_eq!(dead(by_error).await, ["2"]);
    let by_owner = |owner: &str| ItemFilter {
        owner: owner.to_owned(),
        ..ItemFilter::default()
    };
    assert_eq!(dead(by_owner("nobody")).await.len(), 0);
    let owner: String = query_value(&database, "SELECT lease_owner FROM work LIMIT 1");
    assert_eq!(dead(by_owner(&owner)).await.len(), 12);
    let by_attempt = |min_attempt| ItemFilter {
        min_attempt,
        ..ItemFilter::default()
    };
    assert_eq!(dead(by_attempt(1)).await.len(), 12);
    assert_eq!(dead(by_attempt(2)).await.len(), 0);
    let by_customer = |value| ItemFilter {
        columns: BTreeMap::from([("customer".to_owned(), value)])
            .into_iter()
            .collect(),
        ..ItemFilter::default()
    };
    let second = crate::support::client::number(2);
    assert_eq!(dead(by_customer(second)).await, ["2", "5", "8", "11"]);
    let null = lease_broker_value::Value::Null.into();
    assert_eq!(dead(by_customer(null)).await, ["12"]);
    let time: i64 = query_value(&database, "SELECT max(lease_state_time) FROM work");
    let at = |millis: i64| prost_types::Timestamp {
        seconds: millis / 1_000,
        nanos: i32::try_from(millis % 1_000).expect("small") * 1_000_000,
    };
    let since = |millis| ItemFilter {
        state_since: Some(at(millis)),
        ..ItemFilter::default()
    };
    assert!(!dead(since(time)).await.is_empty());
    assert!(dead(since(time + 1)).await.is_empty());
    let before = |millis| ItemFilter {
        state_before: Some(at(millis)),
        ..ItemFilter::default()
    };
    assert_eq!(dead(before(time + 1)).await.len(), 12);
    assert!(dead(before(time)).await.len() < 12);
    let by_keys = ItemFilter {
        keys: ["3", "99", "1"].map(str::to_owned).to_vec(),
        ..ItemFilter::default()
    };
    assert_eq!(
        keys(&client, ItemState::Unspecified, by_keys).await,
        ["3", "1"]
    );
    let other = by_customer(text("not a number"));
    let refused = list(
        &client,
        ListItemsRequest {
            filter: Some(other),
            ..list_request(ItemState::Dead)
        },
    );
    assert_field_error(
        refused.await,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "filter.columns[\"customer\"]",
    );
}

#[tokio::test]
async fn nul_is_refused_in_a_filter_and_replaced_in_a_text() {
    let queue = QUEUE.replace("[\"customer\"]", "[\"payload\"]");
    let (_server, client) = start(&queue).await;
    let nul = || "a\0b".to_owned();
    let payload = BTreeMap::from([("payload".to_owned(), text("a\0b"))]);
    for (filter, field) in [
        (
            ItemFilter {
                owner: nul(),
                ..ItemFilter::default()
            },
            "filter.owner",
        ),
        (
            ItemFilter {
                error_contains: nul(),
                ..ItemFilter::default()
            },
            "filter.error_contains",
        ),
        (
            ItemFilter {
                columns: payload.into_iter().collect(),
                ..ItemFilter::default()
            },
            "filter.columns[\"payload\"]",
        ),
    ] {
        let request = ListItemsRequest {
            filter: Some(filter),
            ..list_request(ItemState::Dead)
        };
        let listed = list(&client, request).await;
        assert_field_error(listed, Code::InvalidArgument, "INVALID_FIELD", field);
    }
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    client.fail(&lease.lease_id, "binary \0 output").await;
    let dead = list(&client, list_request(ItemState::Dead)).await;
    assert_eq!(
        dead.expect("listed").items[0].error,
        "binary \u{fffd} output"
    );
    let request = StartOperationRequest {
        reason: "\0".to_owned(),
        ..redrive()
    };
    let started = begin(&client, request).await.expect("started");
    assert_eq!(started.operation.expect("one").reason, "\u{fffd}");
}

#[tokio::test]
async fn pages_list_every_item_once_in_both_directions() {
    let (server, client) = start(QUEUE).await;
    add_dead(&client, 25).await;
    // Items that died in the same moment have the order of their keys.
    let ties = "UPDATE work SET lease_state_time = 1000 + id / 10";
    server.database().execute_batch(ties).expect("ties");
    for newest_first in [false, true] {
        let mut seen = Vec::new();
        let mut token = String::new();
        loop {
            let request = ListItemsRequest {
                page_size: 4,
                page_token: token,
                newest_first,
                ..list_request(ItemState::Dead)
            };
            let page = list(&client, request).await.expect("a page");
            seen.extend(page.items.into_iter().map(|item| item.key));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        let mut expected: Vec<String> = (1..=25).map(|id: i32| id.to_string()).collect();
        if newest_first {
            expected.reverse();
        }
        assert_eq!(seen, expected, "newest_first: {newest_first}");
    }
}

#[tokio::test]
async fn items_of_keys_are_listed_page_by_page() {
    let (_server, client) = start(QUEUE).await;
    add_dead(&client, 5).await;
    let mut request = ListItemsRequest {
        filter: Some(ItemFilter {
            keys: ["5", "99", "3", "1", "2"].map(str::to_owned).to_vec(),
            ..ItemFilter::default()
        }),
        page_size: 2,
        ..list_request(ItemState::Dead)
    };
    let mut pages = Vec::new();
    loop {
        let page = list(&client, request.clone()).await.expect("a page");
        let keys: Vec<String> = page.items.into_iter().map(|item| item.key).collect();
        pages.push((keys.join(","), page.is_partial));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    // A full page is not partial, even if others follow.
    let expected = [("5", true), ("3,1", false), ("2", false)];
    assert_eq!(
        pages,
        expected.map(|(keys, partial)| (keys.to_owned(), partial))
    );
}

#[tokio::test]
async fn list_shows_ten_keys_of_an_operation() {
    let (_server, client) = start(QUEUE).await;
    add_dead(&client, 1).await;
    let id = begin(
        &client,
        StartOperationRequest {
            filter: Some(ItemFilter {
                keys: (1..=12).map(|key| key.to_string()).collect(),
                ..ItemFilter::default()
            }),
            ..redrive()
        },
    )
    .await
    .expect("started")
    .operation
    .expect("an operation")
    .operation_id;
    let ended = end_of(&client, &id).await;
    assert_eq!(ended.filter.expect("a filter").keys.len(), 12);
    let request = ListOperationsRequest::default();
    let listed = client.admin.clone().list_operations(request).await;
    let mut listed = listed.expect("listed").into_inner().operations;
    let filter = listed.remove(0).filter.expect("a filter");
    assert_eq!(filter.keys.len(), 10);
}

#[tokio::test]
async fn page_token_of_another_list_is_refused() {
    let (_server, client) = start(QUEUE).await;
    add_dead(&client, 3).await;
    let first = ListItemsRequest {
        page_size: 1,
        ..list_request(ItemState::Dead)
    };
    let token = list(&client, first).await.expect("a page").next_page_token;
    for page_token in [token, "forged".to_owned()] {
        let other = ListItemsRequest {
            page_token,
            ..list_request(ItemState::Ready)
        };
        let refused = list(&client, other).await;
        assert_field_error(
            refused,
            Code::InvalidArgument,
            "INVALID_FIELD",
            "page_token",
        );
    }
}

#[tokio::test]
async fn item_is_shown_with_its_columns_and_causes() {
    let (_server, client) = start(QUEUE).await;
    client.enqueue(&["hello"]).await;
    let lease = client.claim_one().await;
    let get = async |key: &str| {
        let request = GetItemRequest {
            queue: "work".to_owned(),
            key: key.to_owned(),
        };
        client.admin.clone().get_item(request).await
    };
    let found = get(key(&lease)).await.expect("found").into_inner();
    assert_eq!(found.columns["payload"], text("hello"));
    let item = found.item.expect("an item");
    assert_eq!((item.state(), item.attempt), (ItemState::Leased, 1));
    assert!(!found.causes.is_empty());
    assert_api_error(get("99").await, Code::NotFound, "ITEM_NOT_FOUND", false);
    assert_field_error(
        get("x").await,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "key",
    );
}

#[tokio::test]
async fn redrive_by_filter_changes_only_these_items() {
    let (server, client) = start(QUEUE).await;
    add_dead(&client, 20).await;
    let request = StartOperationRequest {
        filter: Some(ItemFilter {
            error_contains: "error 1".to_owned(),
            ..ItemFilter::default()
        }),
        ..redrive()
    };
    let dry = StartOperationRequest {
        dry_run: true,
        ..request.clone()
    };
    let counted = begin(&client, dry).await.expect("counted");
    assert_eq!((counted.matched, counted.at_least), (11, false));
    assert!(counted.operation.is_none());
    let started = begin(&client, request.clone()).await.expect("started");
    let id = started.operation.expect("an operation").operation_id;
    assert_eq!(id, request.request_id);
    let ended = end_of(&client, &id).await;
    assert_eq!((ended.state(), ended.changed), (OperationState::Done, 11));
    let left: i64 = query_value(
        &server.database(),
        "SELECT count(*) FROM work WHERE lease_state = 4",
    );
    assert_eq!(left, 9);
    // The same call returns the same operation, and another one with the id is refused.
    let again = begin(&client, request.clone()).await.expect("repeated");
    assert_eq!(again.operation.expect("an operation").changed, 11);
    let other = StartOperationRequest {
        limit: 1,
        ..request
    };
    let refused = begin(&client, other).await;
    assert_field_error(
        refused,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "request_id",
    );
    let operations = ListOperationsRequest::default();
    let listed = client.admin.clone().list_operations(operations).await;
    assert_eq!(listed.expect("listed").into_inner().operations.len(), 1);
}

#[tokio::test]
async fn operation_of_a_kind_runs_alone_and_can_be_cancelled() {
    let (_server, client) = start(QUEUE).await;
    add_dead(&client, 30).await;
    let slow = StartOperationRequest {
        filter: Some(ItemFilter {
            keys: (1..=30).map(|key| key.to_string()).collect(),
            ..ItemFilter::default()
        }),
        max_per_second: 1,
        ..redrive()
    };
    let started = begin(&client, slow).await.expect("started");
    let id = started.operation.expect("an operation").operation_id;
    let refused = begin(&client, redrive()).await;
    assert_api_error(
        refused,
        Code::FailedPrecondition,
        "OPERATION_RUNNING",
        false,
    );
    let queues = client
        .admin
        .clone()
        .list_queues(ListQueuesRequest::default())
        .await;
    let running = queues.expect("listed").into_inner().queues.remove(0);
    let filter = running.operations[0].filter.as_ref().expect("a filter");
    assert_eq!(filter.keys.len(), 10, "a list has the first keys only");
    let cancel = CancelOperationRequest {
        operation_id: id.clone(),
        ..CancelOperationRequest::default()
    };
    let cancelled = client.admin.clone().cancel_operation(cancel).await;
    let cancelled = cancelled.expect("cancelled").into_inner().operation;
    assert_eq!(
        cancelled.expect("an operation").state(),
        OperationState::Cancelled
    );
    let request = StartOperationRequest {
        limit: 5,
        ..redrive()
    };
    let started = begin(&client, request).await.expect("started");
    let ended = end_of(&client, &started.operation.expect("one").operation_id).await;
    assert_eq!((ended.state(), ended.changed), (OperationState::Done, 5));
}

#[tokio::test]
async fn leases_of_one_worker_are_cancelled() {
    let (_server, client) = start(QUEUE).await;
    client.enqueue(&["a", "b", "c"]).await;
    let lost = client.as_worker("dead-host").claim(2).await;
    let held = client.claim_one().await;
    let request = StartOperationRequest {
        filter: Some(ItemFilter {
            owner: "dead-host".to_owned(),
            ..ItemFilter::default()
        }),
        ..operation(Action::CancelLeases(CancelHeld {
            delay: Some(duration(Duration::from_secs(3_600))),
            dead_letter: false,
        }))
    };
    let started = begin(&client, request).await.expect("started");
    let ended = end_of(&client, &started.operation.expect("one").operation_id).await;
    assert_eq!((ended.state(), ended.changed), (OperationState::Done, 2));
    let ids: Vec<&str> = lost.iter().map(|lease| lease.lease_id.as_str()).collect();
    let beats = client.try_heartbeat(&ids, None).await.expect("heartbeats");
    for beat in beats {
        assert_eq!(beat.cancel_reason, "by a test");
    }
    let settled = client.complete(&[&held.lease_id]).await;
    assert_eq!(settled[0].state(), ItemState::Completed);
}

#[tokio::test]
async fn purge_needs_a_table_whose_rows_may_go() {
    let tables = "CREATE TABLE work (id INTEGER PRIMARY KEY, payload TEXT)";
    let adopted = Server::with_tables("[queues.work]\n", tables).await;
    let purge = |state: ItemState| {
        operation(Action::Purge(Purge {
            state: state.into(),
        }))
    };
    let refused = begin(&adopted.client().await, purge(ItemState::Dead)).await;
    assert_api_error(
        refused,
        Code::FailedPrecondition,
        "PURGE_NOT_ALLOWED",
        false,
    );
    let (server, client) = start(QUEUE).await;
    add_dead(&client, 3).await;
    let unnamed = begin(&client, purge(ItemState::Unspecified)).await;
    assert_field_error(
        unnamed,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "purge.state",
    );
    let started = begin(&client, purge(ItemState::Dead))
        .await
        .expect("started");
    let ended = end_of(&client, &started.operation.expect("one").operation_id).await;
    assert_eq!((ended.state(), ended.changed), (OperationState::Done, 3));
    let left: i64 = query_value(&server.database(), "SELECT count(*) FROM work");
    assert_eq!(left, 0);
}

#[tokio::test]
async fn lists_and_operations_reach_keys_of_any_kind() {
    const KEYS: u64 = 1_200;
    let (server, client) = start(
        "[queues.work]
        managed_columns = { k = \"blob not null\", payload = \"text\" }
        key = \"k\"",
    )
    .await;
    let insert = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
        INSERT INTO work (k, lease_state, lease_state_time)
        SELECT i, 4, 1 FROM n UNION ALL SELECT 'k' || i, 4, 1 FROM n UNION ALL SELECT CAST(i AS blob), 4, 1 FROM n";
    server.database().execute_batch(insert).expect("inserted");
    let mut request = ListItemsRequest {
        page_size: 100,
        ..list_request(ItemState::Dead)
    };
    let mut listed = 0;
    loop {
        let page = list(&client, request.clone()).await.expect("a page");
        listed += page.items.len() as u64;
        assert!(listed <= KEYS, "the pages do not end");
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(listed, KEYS);
    let started = begin(&client, redrive()).await.expect("started");
    let ended = end_of(&client, &started.operation.expect("one").operation_id).await;
    assert_eq!(ended.state(), OperationState::Done, "{ended:?}");
    assert_eq!(u64::try_from(ended.changed), Ok(KEYS), "{ended:?}");
}

#[tokio::test]
async fn refused_items_do_not_stop_an_operation() {
    let (server, client) = start(QUEUE).await;
    add_dead(&client, 40).await;
    let trigger = "CREATE TRIGGER refuse BEFORE UPDATE OF lease_state ON work WHEN new.lease_state = 0 AND new.id = 17
        BEGIN SELECT RAISE(ABORT, 'item 17 stays'); END";
    server.database().execute_batch(trigger).expect("a trigger");
    let started = begin(&client, redrive()).await.expect("started");
    let ended = end_of(&client, &started.operation.expect("one").operation_id).await;
    assert_eq!(ended.state(), OperationState::Done, "{ended:?}");
    assert_eq!((ended.changed, ended.refused), (39, 1), "{ended:?}");
    assert!(ended.error.contains("item 17 stays"), "{ended:?}");
}

/// Cancels leases, redrives and deletes items of which a trigger keeps one.
#[tokio::test]
async fn item_whose_change_a_trigger_ignores_is_counted_as_refused() {
    let (server, client) = start(QUEUE).await;
    client.enqueue(&["a"; 40]).await;
    client.claim(40).await;
    let keep = "BEGIN SELECT RAISE(IGNORE); END";
    let triggers = format!(
        "CREATE TRIGGER kept BEFORE UPDATE ON work WHEN old.id = 17 {keep};
         CREATE TRIGGER stays BEFORE DELETE ON work WHEN old.id = 17 {keep};"
    );
    let database = server.database();
    database.execute_batch(&triggers).expect("triggers");
    let cancel = Action::CancelLeases(CancelHeld {
        dead_letter: true,
        ..CancelHeld::default()
    });
    let purge = Action::Purge(Purge {
        state: ItemState::Dead.into(),
    });
    let kill = "DROP TRIGGER kept; UPDATE work SET lease_state = 4, lease_due_time = NULL;
        CREATE TRIGGER kept BEFORE UPDATE ON work WHEN old.id = 17";
    for (before, action) in [
        ("", cancel),
        (kill, Action::Redrive(Redrive::default())),
        (kill, purge),
    ] {
        if !before.is_empty() {
            let sql = format!("{before} {keep}");
            database.execute_batch(&sql).expect("dead items");
        }
        let started = begin(&client, operation(action)).await.expect("started");
        let ended = end_of(&client, &started.operation.expect("one").operation_id).await;
        assert_eq!(ended.state(), OperationState::Done, "{ended:?}");
        assert_eq!((ended.changed, ended.refused), (39, 1), "{ended:?}");
        assert!(ended.error.contains("ignores the change"), "{ended:?}");
    }
}

#[tokio::test]
async fn queues_and_brokers_are_listed() {
    let other = "[queues.yard]\nmanaged_columns = { payload = \"text\" }\n";
    let (_server, client) = start(&format!("{QUEUE}{other}")).await;
    add_dead(&client, 2).await;
    client.enqueue(&["a"]).await;
    let queues = client
        .admin
        .clone()
        .list_queues(ListQueuesRequest::default())
        .await;
    let queue = queues.expect("listed").into_inner().queues.remove(0);
    let counts: Vec<i64> = queue.counts.iter().map(|count| count.count).collect();
    assert_eq!(counts, [1, 0, 0, 0, 2]);
    assert_eq!(queue.filterable_columns, ["customer"]);
    let twice = ListQueuesRequest {
        queues: ["yard", "work", "yard"].map(str::to_owned).to_vec(),
        ..ListQueuesRequest::default()
    };
    let listed = client.admin.clone().list_queues(twice).await;
    let listed = listed.expect("listed").into_inner().queues;
    let names: Vec<&str> = listed.iter().map(|queue| &*queue.queue).collect();
    assert_eq!(names, ["work", "yard"]);
    let unknown = ListQueuesRequest {
        queues: vec!["other".to_owned()],
        ..ListQueuesRequest::default()
    };
    let refused = client.admin.clone().list_queues(unknown).await;
    assert_api_error(refused, Code::NotFound, "QUEUE_NOT_FOUND", false);
    wait_until("the broker is listed", async || {
        let listed = client
            .admin
            .clone()
            .list_brokers(ListBrokersRequest {})
            .await;
        let brokers = listed.expect("listed").into_inner().brokers;
        brokers.len() == 1 && brokers[0].is_self && brokers[0].is_live
    })
    .await;
}

#[tokio::test]
async fn queue_without_its_table_does_not_hide_the_others() {
    let other = "[queues.yard]\nmanaged_columns = { payload = \"text\" }\n";
    let (server, client) = start(&format!("{QUEUE}{other}")).await;
    client.enqueue(&["a"]).await;
    let rename = "ALTER TABLE yard RENAME TO former";
    server.database().execute_batch(rename).expect("renamed");
    for exact in [false, true] {
        let request = ListQueuesRequest {
            exact,
            ..ListQueuesRequest::default()
        };
        let listed = client.admin.clone().list_queues(request).await;
        let queues = listed.expect("listed").into_inner().queues;
        let [work, yard] = &queues[..] else {
            panic!("{queues:?}");
        };
        assert_eq!((work.counts[0].count, &*work.problem), (1, ""));
        assert_eq!((&*yard.queue, yard.counts.len()), ("yard", 0));
        assert!(yard.problem.contains("cannot be read"), "{yard:?}");
    }
}

#[tokio::test]
async fn broker_obeys_the_order_to_drain() {
    let (server, client) = start(QUEUE).await;
    let listed = async || {
        let listed = client
            .admin
            .clone()
            .list_brokers(ListBrokersRequest {})
            .await;
        listed.expect("listed").into_inner().brokers
    };
    wait_until("the broker is listed", async || listed().await.len() == 1).await;
    let id = listed().await[0].broker_id.clone();
    let drain = |broker_id: String| lease_broker_proto::DrainBrokerRequest {
        broker_id,
        reason: "a test".to_owned(),
    };
    let unknown = drain(Uuid::new_v4().to_string());
    let refused = client.admin.clone().drain_broker(unknown).await;
    assert_api_error(refused, Code::NotFound, "BROKER_NOT_FOUND", false);
    let told = client.admin.clone().drain_broker(drain(id)).await;
    let told = told.expect("told").into_inner().broker.expect("a broker");
    assert!(told.is_self && told.is_draining && told.seen_time.is_some());
    crate::support::timeout::with_timeout(server.broker().told_to_drain()).await;
}
