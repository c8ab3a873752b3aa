//! `CancelLeases`, `Wake`, and the state that a heartbeat returns.

use std::time::Duration;

use lease_broker_proto::{
    CancelLeasesRequest, CancelResult, Cancellation, GetItemRequest, HeartbeatResult, ItemState,
    Outcome, RefusalReason, WakeRequest,
};
use tonic::{Code, Status};

use crate::api::waiting_claims::{NO_POLLS, WAIT};
use crate::support::api_error::assert_field_error;
use crate::support::client::{Client, assert_refused, completion, duration, failure, key};
use crate::support::database::all_rows;
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::with_timeout;

fn request(keys: &[&str], reason: &str) -> CancelLeasesRequest {
    CancelLeasesRequest {
        queue: "work".to_owned(),
        cancellations: keys.iter().map(|key| of_key(key)).collect(),
        reason: reason.to_owned(),
        ..CancelLeasesRequest::default()
    }
}

/// Builds the cancellation of the lease that an item has.
fn of_key(key: &str) -> Cancellation {
    Cancellation {
        key: key.to_owned(),
        fencing_token: 0,
    }
}

async fn cancel(
    client: &Client,
    request: CancelLeasesRequest,
) -> Result<Vec<CancelResult>, Status> {
    let response = client.admin.clone().cancel_leases(request).await?;
    Ok(response.into_inner().results)
}

async fn heartbeat(client: &Client, id: &str) -> HeartbeatResult {
    let results = client.try_heartbeat(&[id], None).await;
    results.expect("a heartbeat").remove(0)
}

#[tokio::test]
async fn next_heartbeat_of_cancelled_lease_has_the_reason() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b"]).await;
    let lease = client.claim_one().await;
    let other = client.claim_one().await;
    let results = cancel(&client, request(&[key(&lease), "99"], "do it by hand")).await;
    let results = results.expect("cancelled");
    let seen: Vec<_> = results
        .iter()
        .map(|result| (result.outcome(), result.fencing_token, result.state()))
        .collect();
    let expected = [
        (Outcome::Applied, 1, ItemState::Ready),
        (Outcome::Gone, 0, ItemState::Unspecified),
    ];
    assert_eq!(seen, expected);
    let lost = heartbeat(&client, &lease.lease_id).await;
    assert_eq!(lost.outcome(), Outcome::LeaseLost);
    assert_eq!(lost.cancel_reason, "do it by hand");
    assert_eq!(lost.state(), ItemState::Ready);
    assert_eq!((lost.expire_time, lost.time_left), (None, None));
    let held = heartbeat(&client, &other.lease_id).await;
    assert_eq!(
        (held.outcome(), held.state()),
        (Outcome::Applied, ItemState::Leased)
    );
    assert_eq!(held.cancel_reason, "");
    // The next worker gets the item, and the reason is gone.
    assert_eq!(client.claim_one().await.attempt, 2);
    let lost = heartbeat(&client, &lease.lease_id).await;
    assert_eq!(
        (&*lost.cancel_reason, lost.state()),
        ("", ItemState::Leased)
    );
}

#[tokio::test]
async fn key_with_nul_of_another_program_is_found_and_cancelled() {
    let queue = "[queues.work]\nmanaged_columns = { k = 'text not null' }\nkey = 'k'";
    let server = Server::with_config(queue).await;
    let client = server.client().await;
    let insert = "INSERT INTO work (k) VALUES ('a' || char(0) || 'b')";
    server.database().execute_batch(insert).expect("inserted");
    assert_eq!(key(&client.claim_one().await), "a\0b");
    let get = GetItemRequest {
        queue: "work".to_owned(),
        key: "a\0b".to_owned(),
    };
    let found = client.admin.clone().get_item(get).await;
    let found = found.expect("found").into_inner().item;
    assert_eq!(found.map(|item| item.key).as_deref(), Some("a\0b"));
    let results = cancel(&client, request(&["a\0b", "a"], "by hand")).await;
    let results = results.expect("cancelled").into_iter();
    let outcomes: Vec<_> = results.map(|result| result.outcome()).collect();
    assert_eq!(outcomes, [Outcome::Applied, Outcome::Gone]);
}

#[tokio::test]
async fn cancelled_item_wakes_a_waiting_claim() {
    let slow = format!("{NO_POLLS}{QUEUE}");
    let server = Server::with_config(&slow).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let waiting = client.waiting_claim_request(1, WAIT);
    let next = tokio::spawn({
        let client = client.clone();
        async move { client.try_claim(waiting).await }
    });
    client.wait_until_received().await;
    let mut soon = request(&[key(&lease)], "");
    soon.delay = Some(duration(Duration::from_millis(100)));
    cancel(&client, soon).await.expect("cancelled");
    let lost = heartbeat(&client, &lease.lease_id).await;
    assert_eq!(lost.cancel_reason, "the lease was cancelled");
    let leases = with_timeout(next).await.expect("a task").expect("a claim");
    assert_eq!(leases.len(), 1);
}

#[tokio::test]
async fn wake_lets_waiting_claims_find_inserted_rows() {
    let slow = format!("{NO_POLLS}{QUEUE}");
    let server = Server::with_config(&slow).await;
    let client = server.client().await;
    let wake = async || {
        let queue = "work".to_owned();
        client.rpc.clone().wake(WakeRequest { queue }).await
    };
    let waiting = client.waiting_claim_request(1, WAIT);
    let next = tokio::spawn({
        let client = client.clone();
        async move { client.try_claim(waiting).await }
    });
    client.wait_until_received().await;
    let insert = "INSERT INTO work (payload) VALUES ('by SQL')";
    server.database().execute(insert, []).expect("a row");
    for _ in 0..100 {
        wake().await.expect("a wake-up");
    }
    let leases = with_timeout(next).await.expect("a task").expect("a claim");
    assert_eq!(leases.len(), 1);
}

#[tokio::test]
async fn heartbeat_tells_own_settlement_from_loss() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b", "c", "d", "e"]).await;
    let leases = client.claim(5).await;
    let id = |at: usize| &*leases[at].lease_id;
    let done = client.try_complete(vec![completion(id(0), &[])]).await;
    done.expect("completed");
    let mut dead = failure(id(1), "no");
    dead.dead_letter = true;
    let mut later = failure(id(2), "no");
    later.retry_delay = Some(duration(Duration::from_secs(3_600)));
    client.try_fail(vec![dead, later]).await.expect("failed");
    client.release(&[id(3)]).await;
    let expected = [
        (Outcome::LeaseLost, ItemState::Completed),
        (Outcome::LeaseLost, ItemState::Dead),
        (Outcome::LeaseLost, ItemState::Delayed),
        (Outcome::LeaseLost, ItemState::Ready),
        (Outcome::Applied, ItemState::Leased),
    ];
    for (at, expected) in expected.into_iter().enumerate() {
        let result = heartbeat(&client, id(at)).await;
        assert_eq!((result.outcome(), result.state()), expected, "{at}");
        assert_eq!(result.cancel_reason, "");
    }
    let unknown = heartbeat(&client, "nonsense").await;
    assert_eq!(unknown.state(), ItemState::Unspecified);
}

#[tokio::test]
async fn malformed_and_repeated_keys_are_refused_alone() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    client.claim_one().await;
    let results = cancel(&client, request(&["one", "1", "1"], "")).await;
    let results = results.expect("cancelled");
    for at in [0, 2] {
        let (refusal, reason) = (results[at].refusal.as_ref(), RefusalReason::InvalidField);
        assert_refused(results[at].outcome(), refusal, reason, "key");
    }
    assert_eq!(results[1].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn cancellation_with_fencing_token_can_be_sent_again() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let mut fenced = request(&[key(&lease)], "");
    fenced.cancellations[0].fencing_token = lease.fencing_token;
    for already_applied in [false, true] {
        let results = cancel(&client, fenced.clone()).await.expect("cancelled");
        let seen = (results[0].outcome(), results[0].already_applied);
        assert_eq!(seen, (Outcome::Applied, already_applied));
    }
    let next = client.claim_one().await;
    let results = cancel(&client, fenced).await.expect("no error");
    assert_eq!(results[0].outcome(), Outcome::LeaseLost);
    let held = heartbeat(&client, &next.lease_id).await;
    assert_eq!(held.outcome(), Outcome::Applied);
}

#[tokio::test]
async fn invalid_cancellation_changes_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    client.claim_one().await;
    let before = all_rows(&server.database(), "work");
    let mut negative = request(&["1"], "");
    negative.delay = Some(prost_types::Duration {
        seconds: -1,
        nanos: 0,
    });
    let mut both = request(&["1"], "");
    both.dead_letter = true;
    both.delay = Some(duration(Duration::from_secs(1)));
    for (wrong, field) in [(negative, "delay"), (both, "delay")] {
        let refused = cancel(&client, wrong).await;
        assert_field_error(refused, Code::InvalidArgument, "INVALID_FIELD", field);
    }
    let unknown = WakeRequest {
        queue: "nowhere".to_owned(),
    };
    let refused = client.rpc.clone().wake(unknown).await;
    assert_eq!(refused.expect_err("refused").code(), Code::NotFound);
    assert_eq!(all_rows(&server.database(), "work"), before);
}
