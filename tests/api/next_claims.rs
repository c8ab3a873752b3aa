//! A completion that claims the next items in the same call.

use lease_broker::grpc::proto::{
    CompleteRequest, CompleteResponse, Completion, Lease, NextClaim, Outcome,
};
use tonic::{Code, Status};

use crate::support::api_error::assert_field_error;
use crate::support::client::{Client, completion, lease_ids, payload};
use crate::support::database::{self, WriteLock};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::{TEST_TIMEOUT, wait_until, with_timeout};

const REQUEST: &str = "0d3adb33-f000-4000-8000-000000000003";

fn next(max_items: i32) -> NextClaim {
    NextClaim {
        worker_id: "worker".to_owned(),
        max_items,
        ..NextClaim::default()
    }
}

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

fn done(lease: &Lease) -> Vec<Completion> {
    vec![completion(&lease.lease_id, &[])]
}

fn payloads(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(payload).collect()
}

async fn with(payloads: &[&str]) -> (Server, Client) {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(payloads).await;
    (server, client)
}

#[tokio::test]
async fn call_completes_and_claims_next() {
    let (server, client) = with(&["a", "b", "c", "d"]).await;
    let mut leases = vec![client.claim_one().await];
    let mut seen = Vec::new();
    while let [lease] = &*leases {
        seen.push(payload(lease).to_owned());
        let answer = complete(&client, done(lease), next(1)).await;
        let answer = answer.expect("a completion");
        assert_eq!(answer.results[0].outcome(), Outcome::Applied);
        leases = answer.next_leases;
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
    let (_server, client) = with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let asked = NextClaim {
        lease_duration: Some(prost_types::Duration {
            seconds: 90,
            nanos: 0,
        }),
        ..next(5)
    };
    let answer = complete(&client, done(&first), asked).await;
    let leases = answer.expect("a completion").next_leases;
    assert_eq!(payloads(&leases), ["b"]);
    let time_left = leases[0].time_left.expect("a time");
    assert!((80..=90).contains(&time_left.seconds), "{time_left:?}");
    let beats = client.try_heartbeat(&lease_ids(&leases), None).await;
    assert_eq!(beats.expect("held")[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn lost_lease_does_not_prevent_it() {
    let (_server, client) = with(&["a", "b"]).await;
    let lost = client.claim_one().await;
    client
        .try_release(&[&lost.lease_id], None)
        .await
        .expect("a release");
    let answer = complete(&client, done(&lost), next(2)).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.results[0].outcome(), Outcome::LeaseLost);
    assert_eq!(payloads(&answer.next_leases), ["a", "b"]);
}

#[tokio::test]
async fn retried_call_returns_the_same_leases() {
    let (_server, client) = with(&["a", "b", "c"]).await;
    let first = client.claim_one().await;
    let named = NextClaim {
        request_id: REQUEST.to_owned(),
        ..next(1)
    };
    let once = complete(&client, done(&first), named.clone()).await;
    let again = complete(&client, done(&first), named).await;
    let (once, again) = (once.expect("a completion"), again.expect("the same"));
    assert_eq!(payloads(&once.next_leases), ["b"]);
    assert_eq!(lease_ids(&again.next_leases), lease_ids(&once.next_leases));
    assert_eq!(again.results, once.results);
}

#[tokio::test]
async fn rejected_completion_releases_the_lease() {
    let (_server, client) = with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let nowhere = vec![completion(&first.lease_id, &[("nowhere", "x")])];
    let refused = complete(&client, nowhere, next(1)).await;
    let field = "completions[0].follow_ups[0].queue";
    assert_field_error(refused, Code::InvalidArgument, "INVALID_FIELD", field);
    let mut leases = Vec::new();
    wait_until("b is ready again", async || {
        leases = client.claim(1).await;
        !leases.is_empty()
    })
    .await;
    assert_eq!(payloads(&leases), ["b"]);
    assert_eq!(leases[0].attempt, 1, "the attempt did not count");
    let answer = complete(&client, done(&first), next(1)).await;
    let answer = answer.expect("a completion");
    assert_eq!(answer.results[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn invalid_field_changes_nothing() {
    let (_server, client) = with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let (invalid, limit) = (
        (Code::InvalidArgument, "INVALID_FIELD"),
        (Code::ResourceExhausted, "LIMIT_EXCEEDED"),
    );
    let seconds = |seconds| {
        let duration = prost_types::Duration { seconds, nanos: 0 };
        NextClaim {
            lease_duration: Some(duration),
            ..next(1)
        }
    };
    let nobody = NextClaim {
        worker_id: String::new(),
        ..next(1)
    };
    let no_uuid = NextClaim {
        request_id: "again".to_owned(),
        ..next(1)
    };
    for (wrong, (code, reason), field) in [
        (nobody, invalid, "next.worker_id"),
        (next(0), invalid, "next.max_items"),
        (next(-1), invalid, "next.max_items"),
        (next(1_001), limit, "next.max_items"),
        (seconds(-1), invalid, "next.lease_duration"),
        (seconds(1_000_000), limit, "next.lease_duration"),
        (no_uuid, invalid, "next.request_id"),
    ] {
        let refused = complete(&client, done(&first), wrong).await;
        assert_field_error(refused, code, reason, field);
    }
    let beats = client.try_heartbeat(&[&first.lease_id], None).await;
    assert_eq!(beats.expect("held")[0].outcome(), Outcome::Applied);
    assert_eq!(client.claim(5).await.len(), 1, "nothing was claimed");
}

#[tokio::test]
async fn draining_service_only_completes() {
    let noticed = format!("[server]\ndrain_delay = '2s'\ndrain_grace = '10s'\n{QUEUE}");
    let mut server = Server::with_config(&noticed).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let first = client.claim_one().await;
    let parked = tokio::spawn({
        let (client, request) = (
            client.clone(),
            client.waiting_claim_request(1, TEST_TIMEOUT),
        );
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    let drained = tokio::spawn(server.drain());
    let parked = with_timeout(parked).await.expect("a task");
    assert_eq!(parked.expect("an empty answer"), [], "it drains");
    client.enqueue(&["b"]).await;
    let answer = complete(&client, done(&first), next(1)).await;
    let answer = answer.expect("a completion");
    assert_eq!(answer.results[0].outcome(), Outcome::Applied);
    assert_eq!(answer.next_leases, []);
    assert!(with_timeout(drained).await.expect("a task"));
}

#[tokio::test]
async fn cancelled_call_releases_the_lease() {
    let (server, client) = with(&["a", "b"]).await;
    let first = client.claim_one().await;
    let lock = WriteLock::acquire(&server.file());
    let call = tokio::spawn({
        let (client, completions) = (client.clone(), done(&first));
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
