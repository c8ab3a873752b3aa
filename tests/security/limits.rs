//! Limits of an identity.

use std::time::{Duration, Instant};

use tonic::Code;

use crate::security::fixture::Files;
use crate::support::api_error::ApiError;
use crate::support::client::{Client, count_accepted, duration, item};
use crate::support::database::WriteLock;
use crate::support::server::Server;
use crate::support::timeout::with_timeout;

fn settings(limits: &str) -> String {
    let identity = |name: &str, limits: &str| {
        format!(
            "[[auth.identities]]\nname = '{name}'\nspiffe = 'spiffe://test/{name}'\n\
             roles = {{ admin = ['work'] }}\nlimits = {{ {limits} }}\n"
        )
    };
    identity("greedy", limits) + &identity("modest", "")
}

#[tokio::test]
async fn identity_over_its_rate_is_refused_alone() {
    let files = Files::new();
    let limit = "calls_per_second = 1";
    let server = files.start(&settings(limit)).await;
    let greedy = files.client(&server, "spiffe://test/greedy").await;
    let modest = files.client(&server, "spiffe://test/modest").await;
    let refused = with_timeout(async {
        loop {
            if let Err(status) = greedy.try_claim(greedy.claim_request(1)).await {
                return status;
            }
        }
    });
    let error = ApiError::from_status(&refused.await);
    assert_eq!(
        (error.code, &*error.reason),
        (Code::ResourceExhausted, "IDENTITY_LIMIT")
    );
    assert!(error.retry_after.expect("a delay") <= Duration::from_secs(1));
    for _ in 0..20 {
        modest.claim(1).await;
    }
}

#[tokio::test]
async fn items_over_the_rate_are_refused() {
    let files = Files::new();
    let server = files
        .start(&settings("enqueued_items_per_second = 1"))
        .await;
    let greedy = files.client(&server, "spiffe://test/greedy").await;
    let items = || (0..1_000).map(|_| item("x")).collect();
    greedy
        .try_enqueue(items())
        .await
        .expect("the first call passes");
    let refused = greedy
        .try_enqueue(items())
        .await
        .expect_err("over the rate");
    let error = ApiError::from_status(&refused);
    assert_eq!(
        (error.code, &*error.reason),
        (Code::ResourceExhausted, "IDENTITY_LIMIT")
    );
}

#[tokio::test]
async fn claim_over_the_waiting_limit_does_not_wait() {
    let files = Files::new();
    let server = files.start(&settings("waiting_claims = 1")).await;
    let greedy = files.client(&server, "spiffe://test/greedy").await;
    let long = Duration::from_secs(60);
    let claim = async |client: Client, wait| {
        let request = client.waiting_claim_request(1, wait);
        let claimed = client.rpc.clone().claim_batch(request).await;
        claimed.expect("claimed").into_inner()
    };
    let waiting = tokio::spawn(claim(greedy.clone(), long));
    // One of the two claims is answered at once, whichever the broker receives second.
    let start = Instant::now();
    let second = claim(greedy.clone(), long);
    let claimed = tokio::select! {
        claimed = second => claimed,
        claimed = waiting => claimed.expect("ended"),
    };
    assert!(start.elapsed() < long / 2, "{:?}", start.elapsed());
    assert!(claimed.leases.is_empty());
    assert_eq!(claimed.retry_after, Some(duration(Duration::from_secs(1))));
}

#[tokio::test]
async fn greedy_identity_leaves_places_to_another_whatever_its_connections() {
    let files = Files::new();
    let text = format!(
        "budgets.working_calls = 8\n{}",
        files.settings(&settings(""))
    );
    let server = Server::with_config(&text).await;
    let mut greedy = Vec::new();
    for _ in 0..3 {
        greedy.push(files.client(&server, "spiffe://test/greedy").await);
    }
    let modest = files.client(&server, "spiffe://test/modest").await;
    modest.enqueue(&["a"]).await;
    let lock = WriteLock::acquire(&server.file());
    let mut greedy_calls = Vec::new();
    for client in &greedy {
        greedy_calls.extend((0..3).map(|_| client.start_enqueue()));
        client.wait_until_received().await;
    }
    let modest_calls: Vec<_> = (0..2).map(|_| modest.start_enqueue()).collect();
    modest.wait_until_received().await;
    drop(lock);
    // Less than a quarter of the places is free when the identity has 7. No connection has more than half of them.
    assert_eq!(count_accepted(greedy_calls).await, 6);
    assert_eq!(count_accepted(modest_calls).await, 2);
}
