//! Complete with `next`: one call completes items and claims the next ones.

use lease_broker_proto::{
    ClaimBatchResponse, CompleteRequest, CompleteResponse, Completion, FailRequest, ItemState,
    Lease, NextClaim, Outcome,
};
use tokio::net::TcpStream;
use tonic::{Code, Status};

use crate::support::api_error::assert_field_error;
use crate::support::client::{Client, completion, failure, lease_ids, payload};
use crate::support::database::{self, WriteLock};
use crate::support::server::Server;
use crate::support::timeout::{wait_until, with_timeout};

const REQUEST_ID: &str = "0d3adb33-f000-4000-8000-000000000003";

/// Builds the claim part of a completion.
fn next(max_items: i32) -> NextClaim {
    NextClaim {
        worker_id: "worker".to_owned(),
        max_items,
        ..NextClaim::default()
    }
}

/// Completes and claims in one call, within the time limit of a test.
async fn complete(
    client: &Client,
    completions: Vec<Completion>,
    next: NextClaim,
) -> Result<CompleteResponse, Status> {
    let request = CompleteRequest {
        queue: client.queue.clone(),
        completions,
        next: Some(next),
    };
    let response = with_timeout(client.rpc.clone().complete(request)).await?;
    Ok(response.into_inner())
}

/// Builds the completion of one lease.
fn completion_of(lease: &Lease) -> Vec<Completion> {
    vec![completion(&lease.lease_id, &[])]
}

fn payloads(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(payload).collect()
}

/// Starts a server with these items.
async fn start_with(payloads: &[&str]) -> (Server, Client) {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(payloads).await;
    (server, client)
}

/// Returns the leases of the claim that was part of a call.
fn next_leases(next: Option<&ClaimBatchResponse>) -> &[Lease] {
    &next.expect("a claim").leases
}

#[tokio::test]
async fn call_completes_and_claims_next() {
    let (server, client) = start_with(&["a", "b", "c", "d"]).await;
    let mut leases = vec![client.claim_one().await];
    let mut seen = Vec::new();
    while let [lease] = &*leases {
        seen.push(payload(lease).to_owned());
        let response = complete(&client, completion_of(lease), next(1)).await;
        let response = response.expect("no error");
        assert_eq!(response.results[0].outcome(), Outcome::Applied);
        leases = response.next.expect("a claim").leases;
    }
    assert_eq!(seen, ["a", "b", "c", "d"]);
    let completed: i64 = database::query_value(
        &server.database(),
        "SELECT count(*) FROM work WHERE lease_state = 3",
    );
    assert_eq!(completed, 4);
}

#[tokio::test]
async fn next_lease_can_be_renewed() {
    let (_server, client) = start_with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let for_90_seconds = NextClaim {
        lease_duration: Some(prost_types::Duration {
            seconds: 90,
            nanos: 0,
        }),
        ..next(5)
    };
    let response = complete(&client, completion_of(&first), for_90_seconds).await;
    let leases = response.expect("no error").next.expect("a claim").leases;
    assert_eq!(payloads(&leases), ["b"]);
    let time_left = leases[0].time_left.expect("the lease has a duration");
    assert!((80..=90).contains(&time_left.seconds), "{time_left:?}");
    let heartbeats = client.try_heartbeat(&lease_ids(&leases), None).await;
    assert_eq!(
        heartbeats.expect("a heartbeat")[0].outcome(),
        Outcome::Applied
    );
}

#[tokio::test]
async fn lost_lease_does_not_prevent_a_claim() {
    let (_server, client) = start_with(&["a", "b"]).await;
    let lost = client.claim_one().await;
    client
        .try_release(&[&lost.lease_id], None)
        .await
        .expect("released");
    let response = complete(&client, completion_of(&lost), next(2)).await;
    let response = response.expect("no error");
    assert_eq!(response.results[0].outcome(), Outcome::LeaseLost);
    assert_eq!(payloads(next_leases(response.next.as_ref())), ["a", "b"]);
}

#[tokio::test]
async fn retried_call_returns_the_same_leases() {
    let (_server, client) = start_with(&["a", "b", "c"]).await;
    let first = client.claim_one().await;
    let with_id = NextClaim {
        request_id: REQUEST_ID.to_owned(),
        ..next(1)
    };
    let original = complete(&client, completion_of(&first), with_id.clone()).await;
    let retried = complete(&client, completion_of(&first), with_id).await;
    let original = original.expect("no error");
    let retried = retried.expect("no error");
    assert_eq!(payloads(next_leases(original.next.as_ref())), ["b"]);
    assert_eq!(
        lease_ids(next_leases(retried.next.as_ref())),
        lease_ids(next_leases(original.next.as_ref()))
    );
    let result = &retried.results[0];
    assert_eq!(
        (result.outcome(), result.already_applied),
        (Outcome::Applied, true)
    );
    assert!(!original.results[0].already_applied);
}

#[tokio::test]
async fn failure_claims_the_next_item() {
    let (_server, client) = start_with(&["a", "b", "c"]).await;
    let first = client.claim_one().await;
    let with_id = NextClaim {
        request_id: REQUEST_ID.to_owned(),
        ..next(1)
    };
    let request = FailRequest {
        queue: client.queue.clone(),
        failures: vec![failure(&first.lease_id, "no")],
        next: Some(with_id),
    };
    let fail = async || {
        let response = client.rpc.clone().fail(request.clone()).await;
        response.expect("no error").into_inner()
    };
    let (original, retried) = (fail().await, fail().await);
    assert_eq!(original.results[0].outcome(), Outcome::Applied);
    assert_eq!(original.results[0].state(), ItemState::Delayed);
    assert_eq!(payloads(next_leases(original.next.as_ref())), ["b"]);
    assert_eq!(
        lease_ids(next_leases(retried.next.as_ref())),
        lease_ids(next_leases(original.next.as_ref()))
    );
    let invalid = FailRequest {
        next: Some(next(0)),
        ..request
    };
    let rejected = client.rpc.clone().fail(invalid).await;
    let field = "next.max_items";
    assert_field_error(rejected, Code::InvalidArgument, "INVALID_FIELD", field);
}

#[tokio::test]
async fn refused_completion_keeps_the_next_lease() {
    let (_server, client) = start_with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let unknown_queue = vec![completion(&first.lease_id, &[("nowhere", "x")])];
    let response = complete(&client, unknown_queue, next(1)).await;
    let response = response.expect("no error");
    assert_eq!(response.results[0].outcome(), Outcome::Refused);
    assert_eq!(payloads(next_leases(response.next.as_ref())), ["b"]);
}

#[tokio::test]
async fn rejected_call_claims_nothing() {
    let (_server, client) = start_with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let too_many = vec![completion(&first.lease_id, &[]); 1_001];
    let rejected = complete(&client, too_many, next(1)).await;
    rejected.expect_err("too many completions");
    let mut leases = Vec::new();
    wait_until("b is ready again", async || {
        leases = client.claim(1).await;
        !leases.is_empty()
    })
    .await;
    assert_eq!(payloads(&leases), ["b"]);
    assert_eq!(
        leases[0].attempt, 1,
        "the released claim counted as an attempt"
    );
    let response = complete(&client, completion_of(&first), next(1)).await;
    let response = response.expect("no error");
    assert_eq!(response.results[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn invalid_next_field_is_named() {
    let (_server, client) = start_with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let (invalid, limit) = (
        (Code::InvalidArgument, "INVALID_FIELD"),
        (Code::InvalidArgument, "LIMIT_EXCEEDED"),
    );
    let lease_of = |seconds| {
        let duration = prost_types::Duration { seconds, nanos: 0 };
        NextClaim {
            lease_duration: Some(duration),
            ..next(1)
        }
    };
    let without_worker = NextClaim {
        worker_id: String::new(),
        ..next(1)
    };
    let malformed_id = NextClaim {
        request_id: "again".to_owned(),
        ..next(1)
    };
    let negative_run = NextClaim {
        max_run: -1,
        ..next(1)
    };
    for (invalid_next, (code, reason), field) in [
        (negative_run, invalid, "next.max_run"),
        (without_worker, invalid, "next.worker_id"),
        (next(0), invalid, "next.max_items"),
        (next(-1), invalid, "next.max_items"),
        (next(1_001), limit, "next.max_items"),
        (lease_of(-1), invalid, "next.lease_duration"),
        (lease_of(1_000_000), limit, "next.lease_duration"),
        (malformed_id, invalid, "next.request_id"),
    ] {
        let rejected = complete(&client, completion_of(&first), invalid_next).await;
        assert_field_error(rejected, code, reason, field);
    }
    let heartbeats = client.try_heartbeat(&[&first.lease_id], None).await;
    assert_eq!(
        heartbeats.expect("a heartbeat")[0].outcome(),
        Outcome::Applied
    );
    assert_eq!(
        client.claim(5).await.len(),
        1,
        "a rejected call claimed an item"
    );
}

#[tokio::test]
async fn draining_service_only_completes() {
    let (mut server, client) = start_with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let lock = WriteLock::acquire(&server.file());
    let call = tokio::spawn({
        let (client, completions) = (client.clone(), completion_of(&first));
        async move { complete(&client, completions, next(1)).await }
    });
    client.wait_until_received().await;
    let drained = tokio::spawn(server.drain());
    wait_until("the server takes no connection", async || {
        TcpStream::connect(server.address).await.is_err()
    })
    .await;
    drop(lock);
    let response = with_timeout(call).await.expect("a task");
    let response = response.expect("no error");
    assert_eq!(response.results[0].outcome(), Outcome::Applied);
    assert!(with_timeout(drained).await.expect("a task"));
    let leased = "SELECT count(*) FROM work WHERE lease_state = 1";
    let leased = database::query_value::<i64>(&server.database(), leased);
    assert_eq!(
        leased,
        i64::try_from(response.next.expect("a claim").leases.len()).expect("a number")
    );
}

#[tokio::test]
async fn cancelled_call_releases_the_claim() {
    let (server, client) = start_with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let lock = WriteLock::acquire(&server.file());
    let call = tokio::spawn({
        let (client, completions) = (client.clone(), completion_of(&first));
        async move { complete(&client, completions, next(1)).await }
    });
    client.wait_until_received().await;
    call.abort();
    client.wait_until_received().await;
    drop(lock);
    wait_until("b is ready again", async || {
        client.claim(1).await.len() == 1
    })
    .await;
}
