//! Limits of the API: the largest value is accepted, and one more fails with `LIMIT_EXCEEDED` and names the field.

use std::time::Duration;

use lease_broker_proto::{HeartbeatRequest, NewItem, RefusalReason};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::support::api_error::{ApiError, assert_field_error};
use crate::support::client::{
    Client, assert_refused, completion, duration, failure, item, renewal,
};
use crate::support::database::all_rows;
use crate::support::server::{QUEUE, Server};

const DAY: u64 = 86_400;

/// Starts a server with one leased and one ready item. Returns the id of the lease.
async fn start_with_lease() -> (Server, Client, String) {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b"]).await;
    let id = client.claim_one().await.lease_id;
    (server, client, id)
}

/// Asserts that a call fails with `LIMIT_EXCEEDED` for this field.
fn assert_over_limit<T: std::fmt::Debug>(outcome: Result<T, tonic::Status>, field: &str) {
    assert_field_error(outcome, Code::InvalidArgument, "LIMIT_EXCEEDED", field);
}

#[tokio::test]
async fn lists_over_1000_items_are_rejected() {
    let (server, client, id) = start_with_lease().await;
    let before = all_rows(&server.database(), "work");
    let id = &*id;
    let too_many = 1_001;
    assert_over_limit(
        client.try_claim(client.claim_request(1_001)).await,
        "max_items",
    );
    assert_over_limit(
        client.try_claim(client.claim_request(i32::MAX)).await,
        "max_items",
    );
    assert_over_limit(client.try_enqueue(vec![item("x"); too_many]).await, "items");
    assert_over_limit(
        client.try_heartbeat(&vec![id; too_many], None).await,
        "renewals",
    );
    assert_over_limit(
        client.try_release(&vec![id; too_many], None).await,
        "releases",
    );
    let request_ids = vec![String::from("0d3adb33-f000-4000-8000-000000000001"); too_many];
    assert_over_limit(
        client.try_release_requests(&request_ids).await,
        "request_ids",
    );
    assert_over_limit(
        client.try_fail(vec![failure(id, ""); too_many]).await,
        "failures",
    );
    let completions = vec![completion(id, &[]); too_many];
    assert_over_limit(client.try_complete(completions).await, "completions");
    let follow_ups = vec![("work", "x"); 501];
    let completions = vec![
        completion(id, &follow_ups),
        completion("", &follow_ups[1..]),
    ];
    assert_over_limit(
        client.try_complete(completions).await,
        "completions.follow_ups",
    );
    assert_eq!(all_rows(&server.database(), "work"), before);
}

#[tokio::test]
async fn lists_of_1000_items_are_accepted() {
    let (_server, client, id) = start_with_lease().await;
    let added = client.try_enqueue(vec![item("x"); 1_000]).await;
    assert_eq!(added.expect("added").len(), 1_000);
    assert_eq!(client.claim(1_000).await.len(), 1_000);
    let heartbeats = client.try_heartbeat(&[&*id; 1_000], None).await;
    assert_eq!(heartbeats.expect("heartbeats").len(), 1_000);
    let follow_ups = vec![("work", "x"); 1_000];
    let completed = client
        .try_complete(vec![completion(&id, &follow_ups)])
        .await;
    assert_eq!(completed.expect("completed").len(), 1);
    assert_eq!(client.claim(1_000).await.len(), 1_000);
}

#[tokio::test]
async fn worker_id_over_128_characters_is_rejected() {
    let (_server, client, _) = start_with_lease().await;
    let longest = client.as_worker(&"ü".repeat(128));
    assert_eq!(longest.claim(1).await.len(), 1);
    let longer = client.as_worker(&"a".repeat(129));
    assert_over_limit(longer.try_claim(longer.claim_request(1)).await, "worker_id");
}

#[tokio::test]
async fn surrogate_pair_in_a_worker_id_counts_as_two_characters() {
    let (_server, client, _) = start_with_lease().await;
    let longest = client.as_worker(&"🦀".repeat(64));
    assert_eq!(longest.claim(1).await.len(), 1);
    let longer = client.as_worker(&"🦀".repeat(65));
    assert_over_limit(longer.try_claim(longer.claim_request(1)).await, "worker_id");
}

#[tokio::test]
async fn lease_over_12_hours_is_rejected() {
    let (_server, client, id) = start_with_lease().await;
    for (length, fits) in [
        (12 * 3_600, true),
        (12 * 3_600 + 1, false),
        (13 * 3_600, false),
    ] {
        let length = Duration::from_secs(length);
        let mut request = client.claim_request(1);
        request.lease_duration = Some(duration(length));
        let claimed = client.try_claim(request).await;
        let extended = client.try_heartbeat(&[&id], Some(length)).await;
        if fits {
            assert_eq!(claimed.expect("a claim").len(), 1);
            extended.expect("the heartbeat succeeds");
        } else {
            assert_over_limit(claimed, "lease_duration");
            assert_over_limit(extended, "lease_duration");
        }
    }
    let endless = HeartbeatRequest {
        queue: "work".to_owned(),
        renewals: vec![renewal(&id)],
        lease_duration: Some(prost_types::Duration {
            seconds: i64::MAX,
            nanos: 999_999_999,
        }),
    };
    assert_over_limit(
        client.rpc.clone().heartbeat(endless).await,
        "lease_duration",
    );
}

#[tokio::test]
async fn queue_bounds_limit_the_lease() {
    let bounds = "lease_duration = '10s'\nmin_lease_duration = '5s'\nmax_lease_duration = '20s'";
    let server = Server::with_config(&format!("{QUEUE}{bounds}")).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let claim_for = |seconds| {
        let mut request = client.claim_request(1);
        request.lease_duration = Some(duration(Duration::from_secs(seconds)));
        request
    };
    assert_over_limit(client.try_claim(claim_for(21)).await, "lease_duration");
    let short = client.try_claim(claim_for(4)).await;
    assert_field_error(
        short,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "lease_duration",
    );
    let lease = client.claim_one().await;
    assert_eq!(lease.time_left, Some(duration(Duration::from_secs(10))));
}

#[tokio::test]
async fn wait_over_a_minute_is_rejected() {
    let (_server, client, _) = start_with_lease().await;
    let too_long = client.waiting_claim_request(1, Duration::from_secs(61));
    assert_over_limit(client.try_claim(too_long.clone()).await, "wait_timeout");
    let mut with_deadline = tonic::Request::new(too_long);
    with_deadline.set_timeout(Duration::from_secs(20));
    assert_over_limit(client.try_claim(with_deadline).await, "wait_timeout");
    let longest = client.waiting_claim_request(1, Duration::from_secs(60));
    assert_eq!(client.try_claim(longest).await.expect("a claim").len(), 1);
}

#[tokio::test]
async fn delay_over_a_year_is_rejected() {
    let (_server, client, id) = start_with_lease().await;
    let long = Duration::from_secs(366 * DAY + 1);
    let mut failed = failure(&id, "");
    failed.retry_delay = Some(duration(long));
    for (results, field) in [
        (client.try_release(&[&id], Some(long)).await, "delay"),
        (client.try_fail(vec![failed]).await, "retry_delay"),
    ] {
        let result = results.expect("no error").remove(0);
        let (refusal, reason) = (result.refusal.as_ref(), RefusalReason::InvalidField);
        assert_refused(result.outcome(), refusal, reason, field);
    }
    let late = NewItem {
        delay: Some(duration(long)),
        ..item("late")
    };
    assert_over_limit(
        client.try_enqueue(vec![late.clone()]).await,
        "items[0].delay",
    );
    let mut completed = completion(&id, &[("work", "x")]);
    completed.follow_ups[0].item = Some(late);
    let results = client.try_complete(vec![completed]).await;
    let result = results.expect("no error").remove(0);
    let (refusal, reason) = (result.refusal.as_ref(), RefusalReason::InvalidField);
    assert_refused(
        result.outcome(),
        refusal,
        reason,
        "follow_ups[0].item.delay",
    );
    let longest = Duration::from_secs(366 * DAY);
    let released = client.try_release(&[&id], Some(longest)).await;
    released.expect("released");
}

#[tokio::test]
async fn configuration_can_lower_limits() {
    let limits = "[limits]\nmax_items = 2\nmax_wait = '1s'\nmax_worker_id = 3\n";
    let server = Server::with_config(&format!("{limits}{QUEUE}")).await;
    let client = server.client().await.as_worker("abc");
    assert_over_limit(client.try_enqueue(vec![item("x"); 3]).await, "items");
    assert_over_limit(client.try_claim(client.claim_request(3)).await, "max_items");
    let wait = client.waiting_claim_request(2, Duration::from_millis(1_001));
    assert_over_limit(client.try_claim(wait).await, "wait_timeout");
    let longer = client.as_worker("abcd");
    assert_over_limit(longer.try_claim(longer.claim_request(1)).await, "worker_id");
    client.enqueue(&["a", "b"]).await;
    assert_eq!(client.claim(2).await.len(), 2);
}

#[tokio::test]
async fn oversized_message_is_rejected() {
    let small = "[server]\nmax_message_bytes = 100000\n";
    let server = Server::with_config(&format!("{small}{QUEUE}")).await;
    let client = server.client().await;
    for size in [100_001, 5_000_000] {
        let large = client.try_enqueue(vec![item(&"x".repeat(size))]).await;
        let status = large.expect_err("the message is too large");
        let error = ApiError::from_status(&status);
        assert_eq!(error.code, Code::ResourceExhausted, "{status:?}");
        assert_eq!(error.reason, "LIMIT_EXCEEDED");
        let metadata = status
            .get_details_error_info()
            .expect("the reason")
            .metadata;
        assert_eq!(metadata["max"], "100000");
    }
    assert_eq!(all_rows(&server.database(), "work").len(), 0);
    client.enqueue(&[&"x".repeat(90_000)]).await;
    assert_eq!(client.claim(1).await.len(), 1);
}
