//! Queues with groups and limits over gRPC: why a claim gets nothing, and the events that end its wait.

use std::time::Duration;

use lease_broker_proto::{
    ClaimBatchRequest, ClaimBatchResponse, CompleteRequest, Completion, Failure, GroupState,
    HeldBack, ItemState, Lease, ListGroupsRequest, ListGroupsResponse, NextClaim, Outcome,
    PauseGroupRequest, PauseGroupResponse, QueueLimits, QueueRate, RefusalReason,
    ResumeGroupRequest, SetQueueLimitsRequest, SettleResult,
};
use tokio::time::Instant;
use tonic::Code;

use crate::api::waiting_claims::{NO_POLLS, WAIT};
use crate::support::api_error::assert_field_error;
use crate::support::client::{Client, completion, failure, key, lease_ids, payload};
use crate::support::server::Server;
use crate::support::timeout::with_timeout;

/// A queue whose items have their payload as group.
const GROUPED: &str =
    "[queues.work]\nmanaged_columns = { payload = 'text NOT NULL' }\ngroup = 'payload'\n";

async fn server(settings: &str) -> (Server, Client) {
    let server = Server::with_config(&format!("{NO_POLLS}{GROUPED}{settings}")).await;
    let client = server.client().await;
    (server, client)
}

async fn claim(client: &Client, max_items: i32) -> ClaimBatchResponse {
    let request = client.claim_request(max_items);
    let claimed = client.rpc.clone().claim_batch(request).await;
    claimed.expect("a claim").into_inner()
}

#[tokio::test]
async fn completion_ends_the_wait_for_a_busy_group() {
    let (_server, client) = server("").await;
    client.enqueue(&["a", "a", "b"]).await;
    let first = claim(&client, 9).await;
    assert_eq!(first.leases.len(), 2);
    let busy = claim(&client, 9).await;
    assert_eq!(busy.held_back(), HeldBack::GroupsBusy);
    assert_eq!(busy.retry_after, None);
    let waiting = tokio::spawn({
        let (client, request) = (client.clone(), client.waiting_claim_request(9, WAIT));
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    client.complete(&lease_ids(&first.leases)[..1]).await;
    let leases = with_timeout(waiting).await.expect("a task");
    let leases = leases.expect("a claim");
    assert_eq!(leases.iter().map(payload).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn completion_ends_the_wait_for_the_place_of_a_lease() {
    let (_server, client) = server("max_leases = 1\n").await;
    client.enqueue(&["a", "b"]).await;
    let first = claim(&client, 9).await;
    assert_eq!(first.leases.len(), 1);
    assert_eq!(claim(&client, 9).await.held_back(), HeldBack::MaxLeases);
    let waiting = tokio::spawn({
        let (client, request) = (client.clone(), client.waiting_claim_request(9, WAIT));
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    client.complete(&lease_ids(&first.leases)).await;
    let leases = with_timeout(waiting).await.expect("a task");
    assert_eq!(leases.expect("a claim").len(), 1);
}

#[tokio::test]
async fn next_claim_gets_the_place_of_a_lease_that_its_call_ends() {
    for settings in ["", "max_leases = 1\n"] {
        let (_server, client) = server(settings).await;
        client.enqueue(&["a", "a", "a"]).await;
        let mut leases = claim(&client, 9).await.leases;
        for _ in 0..2 {
            let mut rpc = client.rpc.clone();
            let completed = rpc.complete(CompleteRequest {
                queue: client.queue.clone(),
                completions: vec![completion(&leases[0].lease_id, &[])],
                next: Some(NextClaim {
                    worker_id: client.worker.clone(),
                    max_items: 9,
                    ..NextClaim::default()
                }),
            });
            let completed = completed.await.expect("a completion").into_inner();
            assert_eq!(completed.results[0].outcome(), Outcome::Applied);
            leases = completed.next.expect("a claim").leases;
            assert_eq!(leases.len(), 1, "{settings}");
        }
    }
}

#[tokio::test]
async fn waiting_claim_gets_the_next_token_of_a_rate() {
    const PER: Duration = Duration::from_millis(700);
    let (_server, client) = server("rate = { items = 1, per = '700ms' }\n").await;
    client.enqueue(&["a", "b"]).await;
    let start = Instant::now();
    assert_eq!(claim(&client, 9).await.leases.len(), 1);
    let empty = claim(&client, 9).await;
    assert_eq!(empty.held_back(), HeldBack::Rate);
    let wait = empty.retry_after.expect("the time of the next token");
    assert!(wait.seconds == 0 && wait.nanos > 0, "{wait:?}");
    // The queue is polled once per minute, so the token ends the wait.
    let waiting = client.try_claim(client.waiting_claim_request(9, WAIT));
    let leases = with_timeout(waiting).await.expect("a claim");
    assert_eq!(leases.len(), 1);
    assert!(start.elapsed() + Duration::from_millis(2) >= PER);
}

#[tokio::test]
async fn waiting_claim_gets_the_next_token_of_a_group() {
    let settings = "group = { column = 'payload', rate = { items = 1, per = '700ms' } }\n";
    let config = format!(
        "{NO_POLLS}{}{settings}",
        GROUPED.replace("group = 'payload'\n", "")
    );
    let server = Server::with_config(&config).await;
    let client = server.client().await;
    client.enqueue(&["a", "a"]).await;
    let start = Instant::now();
    let first = claim(&client, 9).await;
    client.complete(&lease_ids(&first.leases)).await;
    let empty = claim(&client, 9).await;
    assert_eq!(
        (empty.held_back(), empty.retry_after),
        (HeldBack::GroupsBusy, None)
    );
    // The queue is polled once per minute, so the token ends the wait.
    let waiting = client.try_claim(client.waiting_claim_request(9, WAIT));
    assert_eq!(with_timeout(waiting).await.expect("a claim").len(), 1);
    assert!(start.elapsed() + Duration::from_millis(2) >= Duration::from_millis(700));
}

fn of_groups(request: ClaimBatchRequest, groups: &[&str]) -> ClaimBatchRequest {
    ClaimBatchRequest {
        groups: groups.iter().map(|&name| name.to_owned()).collect(),
        ..request
    }
}

#[tokio::test]
async fn claims_that_wait_for_groups_and_others_do_not_hold_each_other_back() {
    let (_server, client) = server("").await;
    let wait_for = |groups: &'static [&'static str]| {
        let request = of_groups(client.waiting_claim_request(9, WAIT), groups);
        let client = client.clone();
        tokio::spawn(async move { client.try_claim(request).await })
    };
    let of_b = wait_for(&["b"]);
    client.wait_until_received().await;
    client.enqueue(&["a"]).await;
    // The claim that waits for group b does not keep this one from the store.
    assert_eq!(claim(&client, 9).await.leases.len(), 1);
    let of_all = wait_for(&[]);
    client.wait_until_received().await;
    client.enqueue(&["c"]).await;
    let leases = with_timeout(of_all)
        .await
        .expect("a task")
        .expect("a claim");
    assert_eq!(leases.iter().map(payload).collect::<Vec<_>>(), ["c"]);
    client.enqueue(&["b"]).await;
    let leases = with_timeout(of_b).await.expect("a task").expect("a claim");
    assert_eq!(leases.iter().map(payload).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn completion_can_claim_the_next_item_of_a_group() {
    let (_server, client) = server("").await;
    client.enqueue(&["a", "b", "a"]).await;
    let request = of_groups(client.claim_request(9), &["a"]);
    let first = client.try_claim(request).await.expect("a claim");
    assert_eq!(first.len(), 1);
    let completion = Completion {
        lease_id: first[0].lease_id.clone(),
        ..Completion::default()
    };
    let request = CompleteRequest {
        queue: "work".to_owned(),
        completions: vec![completion],
        next: Some(NextClaim {
            worker_id: "worker".to_owned(),
            max_items: 1,
            groups: vec!["b".to_owned()],
            ..NextClaim::default()
        }),
    };
    let answer = client.rpc.clone().complete(request).await;
    let leases = answer
        .expect("completed")
        .into_inner()
        .next
        .expect("a claim")
        .leases;
    assert_eq!(leases.iter().map(payload).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn groups_that_cannot_be_claimed_are_refused() {
    let (_server, client) = server("").await;
    let many: Vec<String> = (0..101).map(|group| group.to_string()).collect();
    let request = ClaimBatchRequest {
        groups: many,
        ..client.claim_request(1)
    };
    let refused = client.rpc.clone().claim_batch(request).await;
    assert_field_error(refused, Code::InvalidArgument, "LIMIT_EXCEEDED", "groups");
    let plain = Server::start().await;
    let client = plain.client().await;
    let request = of_groups(client.claim_request(1), &["a"]);
    let refused = client.rpc.clone().claim_batch(request).await;
    assert_field_error(refused, Code::InvalidArgument, "INVALID_FIELD", "groups[0]");
}

/// Starts a broker whose groups have runs of up to three items.
async fn server_with_runs() -> (Server, Client) {
    let runs = "group = { column = 'payload', run = 3 }";
    let grouped = GROUPED.replace("group = 'payload'", runs);
    let server = Server::with_config(&format!("{NO_POLLS}{grouped}")).await;
    let client = server.client().await;
    (server, client)
}

fn with_run(request: ClaimBatchRequest, max_run: i32) -> ClaimBatchRequest {
    ClaimBatchRequest { max_run, ..request }
}

fn outcomes(results: &[SettleResult]) -> Vec<Outcome> {
    results.iter().map(SettleResult::outcome).collect()
}

fn assert_out_of_order(results: &[SettleResult]) {
    assert_eq!(outcomes(results), [Outcome::Refused]);
    let refusal = results[0].refusal.as_ref().expect("a refusal");
    assert_eq!(refusal.reason(), RefusalReason::OutOfOrder);
}

#[tokio::test]
async fn items_of_a_run_are_settled_in_their_order() {
    let (_server, client) = server_with_runs().await;
    client.enqueue(&["a", "a", "b", "a", "a"]).await;
    // The queue's own maximum is 3.
    let claimed = client
        .try_claim(with_run(client.claim_request(9), 99))
        .await;
    let (run, other): (Vec<Lease>, Vec<Lease>) = claimed
        .expect("a claim")
        .into_iter()
        .partition(|lease| payload(lease) == "a");
    let keys: Vec<&str> = run.iter().map(key).collect();
    assert_eq!(keys, ["1", "2", "4"]);
    assert_eq!(other.len(), 1);
    assert!(run[0].run != 0 && run.iter().all(|lease| lease.run == run[0].run));
    assert_ne!(other[0].run, run[0].run);
    let ids = lease_ids(&run);
    assert_out_of_order(&client.complete(&ids[1..2]).await);
    assert_out_of_order(&[client.fail(ids[1], "early").await]);
    // The completions of a call count in its order.
    let in_order = client.complete(&ids[..2]).await;
    assert_eq!(outcomes(&in_order), [Outcome::Applied; 2]);
    assert_eq!(claim(&client, 9).await.held_back(), HeldBack::GroupsBusy);
    let last = client.complete(&ids[2..]).await;
    assert_eq!(outcomes(&last), [Outcome::Applied]);
    let single = client.claim_one().await;
    assert_eq!((key(&single), single.run), ("5", 0));
}

#[tokio::test]
async fn failure_in_a_run_releases_the_later_items() {
    let (_server, client) = server_with_runs().await;
    client.enqueue(&["a", "a", "a"]).await;
    let first = client.try_claim(with_run(client.claim_request(9), 3)).await;
    let first = first.expect("a claim");
    let ids = lease_ids(&first);
    assert_eq!(ids.len(), 3);
    let waiting = tokio::spawn({
        let request = with_run(client.waiting_claim_request(9, WAIT), 2);
        let client = client.clone();
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    let dead = Failure {
        dead_letter: true,
        ..failure(ids[0], "wrong")
    };
    let failed = client.try_fail(vec![dead]).await.expect("a failure");
    assert_eq!(outcomes(&failed), [Outcome::Applied]);
    let next = with_timeout(waiting).await.expect("a task");
    let next = next.expect("a claim");
    let found: Vec<_> = next
        .iter()
        .map(|lease| (key(lease), lease.attempt))
        .collect();
    assert_eq!(found, [("2", 1), ("3", 1)]);
    let late = client.complete(&ids[1..]).await;
    assert_eq!(outcomes(&late), [Outcome::LeaseLost; 2]);
    let in_order = client.complete(&lease_ids(&next)).await;
    assert_eq!(outcomes(&in_order), [Outcome::Applied; 2]);
}

#[tokio::test]
async fn queue_without_runs_gives_single_items() {
    let (_server, client) = server("").await;
    client.enqueue(&["a", "a"]).await;
    let claimed = client.try_claim(with_run(client.claim_request(9), 2)).await;
    assert_eq!(claimed.expect("a claim").len(), 1);
}

#[tokio::test]
async fn operator_changes_limits_and_wakes_a_waiting_claim() {
    let (_server, client) = server("max_leases = 1\n").await;
    client.enqueue(&["a", "b"]).await;
    assert_eq!(claim(&client, 9).await.leases.len(), 1);
    let waiting = tokio::spawn({
        let (client, request) = (client.clone(), client.waiting_claim_request(9, WAIT));
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    let change = |limits| SetQueueLimitsRequest {
        queue: "work".to_owned(),
        limits,
        reason: "a second server".to_owned(),
    };
    let limits = QueueLimits {
        max_leases: Some(2),
        ..QueueLimits::default()
    };
    let mut admin = client.admin.clone();
    let set = admin.set_queue_limits(change(Some(limits))).await;
    let set = set.expect("changed").into_inner().limits.expect("limits");
    assert_eq!((set.max_leases, set.rate), (Some(2), None));
    let leases = with_timeout(waiting).await.expect("a task");
    assert_eq!(leases.expect("a claim").len(), 1);
    let read = admin.set_queue_limits(change(None)).await;
    assert_eq!(read.expect("read").into_inner().limits, Some(set));
}

#[tokio::test]
async fn limits_that_a_queue_cannot_have_are_refused() {
    let (_server, client) = server("").await;
    let send = async |limits: QueueLimits| {
        let request = SetQueueLimitsRequest {
            queue: "work".to_owned(),
            limits: Some(limits),
            ..SetQueueLimitsRequest::default()
        };
        client.admin.clone().set_queue_limits(request).await
    };
    let invalid = |outcome, field| {
        assert_field_error(outcome, Code::InvalidArgument, "INVALID_FIELD", field);
    };
    let rate = |items, per: Option<Duration>| QueueLimits {
        rate: Some(QueueRate {
            items,
            per: per.map(|per| per.try_into().expect("a duration")),
            burst: 0,
        }),
        ..QueueLimits::default()
    };
    let max_leases = |max| QueueLimits {
        max_leases: Some(max),
        ..QueueLimits::default()
    };
    invalid(send(max_leases(-1)).await, "limits.max_leases");
    let error = send(max_leases(10_001)).await.expect_err("refused");
    assert!(error.message().contains("10000"), "{error}");
    invalid(send(rate(1, None)).await, "limits.rate.per");
    let days = Duration::from_secs(2 * 86_400);
    invalid(send(rate(1, Some(days))).await, "limits.rate.per");
    let of_group = QueueLimits {
        group_max_leases: Some(2),
        ..QueueLimits::default()
    };
    invalid(send(of_group).await, "limits.group_max_leases");
    let of_group = |per: Duration| QueueLimits {
        group_rate: rate(1, Some(per)).rate,
        ..QueueLimits::default()
    };
    invalid(send(of_group(days)).await, "limits.group_rate.per");
    let plain = Server::start().await;
    let client = plain.client().await;
    let request = SetQueueLimitsRequest {
        queue: "work".to_owned(),
        limits: Some(max_leases(1)),
        ..SetQueueLimitsRequest::default()
    };
    invalid(
        client.admin.clone().set_queue_limits(request).await,
        "limits",
    );
}

async fn pause_group(
    client: &Client,
    request: PauseGroupRequest,
) -> Result<PauseGroupResponse, tonic::Status> {
    let paused = client.admin.clone().pause_group(request).await;
    paused.map(tonic::Response::into_inner)
}

fn pause_request(group: &str) -> PauseGroupRequest {
    PauseGroupRequest {
        queue: "work".to_owned(),
        group: group.to_owned(),
        reason: "prices".to_owned(),
        until: None,
    }
}

#[tokio::test]
async fn resumed_group_wakes_a_waiting_claim() {
    let (_server, client) = server("").await;
    client.enqueue(&["a", "b"]).await;
    let paused = pause_group(&client, pause_request("a")).await;
    let pause = paused.expect("paused").pause.expect("a pause");
    assert_eq!(
        (&*pause.queue, &*pause.group, &*pause.reason),
        ("work", "a", "prices")
    );
    assert!(pause.pause_time.is_some() && pause.until.is_none());
    let first = claim(&client, 9).await;
    assert_eq!(first.leases.iter().map(payload).collect::<Vec<_>>(), ["b"]);
    assert_eq!(claim(&client, 9).await.held_back(), HeldBack::GroupsBusy);
    let waiting = tokio::spawn({
        let (client, request) = (client.clone(), client.waiting_claim_request(9, WAIT));
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    let resume = || ResumeGroupRequest {
        queue: "work".to_owned(),
        group: "a".to_owned(),
        reason: String::new(),
    };
    let mut admin = client.admin.clone();
    let resumed = admin.resume_group(resume()).await.expect("resumed");
    assert_eq!(resumed.into_inner().ended, Some(pause));
    let leases = with_timeout(waiting).await.expect("a task");
    let leases = leases.expect("a claim");
    assert_eq!(leases.iter().map(payload).collect::<Vec<_>>(), ["a"]);
    let again = admin.resume_group(resume()).await.expect("no pause");
    assert_eq!(again.into_inner().ended, None);
}

#[tokio::test]
async fn pause_of_a_group_is_checked() {
    let (_server, client) = server("").await;
    let invalid = |outcome, field| {
        assert_field_error(outcome, Code::InvalidArgument, "INVALID_FIELD", field);
    };
    let past = PauseGroupRequest {
        until: Some((std::time::SystemTime::now() - Duration::from_secs(1)).into()),
        ..pause_request("a")
    };
    invalid(pause_group(&client, past).await, "until");
    invalid(pause_group(&client, pause_request("a\0b")).await, "group");
    let claim = ClaimBatchRequest {
        groups: vec!["a".to_owned(), "a\0b".to_owned()],
        ..client.claim_request(1)
    };
    assert_field_error(
        client.try_claim(claim).await,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "groups[1]",
    );
    let plain = Server::start().await;
    let client = plain.client().await;
    invalid(pause_group(&client, pause_request("a")).await, "group");
    let nowhere = PauseGroupRequest {
        queue: "nowhere".to_owned(),
        ..pause_request("a")
    };
    let unknown = pause_group(&client, nowhere).await.expect_err("no queue");
    assert_eq!(unknown.code(), Code::NotFound);
}

async fn list_groups(
    client: &Client,
    request: ListGroupsRequest,
) -> Result<ListGroupsResponse, tonic::Status> {
    let listed = client.admin.clone().list_groups(request).await;
    listed.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn groups_are_listed_page_by_page() {
    let (_server, client) = server("").await;
    client.enqueue(&["a", "b", "b", "c"]).await;
    claim(&client, 2).await;
    pause_group(&client, pause_request("c"))
        .await
        .expect("paused");
    let request = |page_token: String| ListGroupsRequest {
        queue: "work".to_owned(),
        page_size: 2,
        page_token,
        ..ListGroupsRequest::default()
    };
    let first = list_groups(&client, request(String::new())).await;
    let first = first.expect("a page");
    let second = list_groups(&client, request(first.next_page_token.clone())).await;
    let second = second.expect("a page");
    assert!(second.next_page_token.is_empty() && !first.is_partial);
    let all: Vec<_> = first.groups.iter().chain(&second.groups).collect();
    let states: Vec<_> = all
        .iter()
        .map(|group| (&*group.group, group.state(), group.leases))
        .collect();
    let expected = [
        ("a", GroupState::Leased, 1),
        ("b", GroupState::Leased, 1),
        ("c", GroupState::Paused, 0),
    ];
    assert_eq!(states, expected);
    let head = all[0].head.as_ref().expect("a head");
    assert_eq!((&*head.key, head.state()), ("1", ItemState::Leased));
    assert!(head.age.is_some() && head.due_time.is_some() && head.due_in.is_some());
    let pause = all[2].pause.as_ref().expect("a pause");
    assert_eq!((&*pause.reason, &*pause.queue), ("prices", "work"));
    let paused = ListGroupsRequest {
        state: GroupState::Paused.into(),
        ..request(String::new())
    };
    let paused = list_groups(&client, paused).await.expect("a page");
    let names: Vec<_> = paused.groups.iter().map(|group| &*group.group).collect();
    assert_eq!(names, ["c"]);
    // A token belongs to its list.
    let other = ListGroupsRequest {
        state: GroupState::Ready.into(),
        ..request(first.next_page_token)
    };
    let invalid = |outcome, field| {
        assert_field_error(outcome, Code::InvalidArgument, "INVALID_FIELD", field);
    };
    invalid(list_groups(&client, other).await, "page_token");
    let unknown = ListGroupsRequest {
        state: 99,
        ..request(String::new())
    };
    invalid(list_groups(&client, unknown).await, "state");
    let plain = Server::start().await;
    let client = plain.client().await;
    invalid(list_groups(&client, request(String::new())).await, "queue");
}
