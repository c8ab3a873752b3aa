//! Deadlines of the caller (`grpc-timeout`): the server answers each call before its deadline.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Code, Request, Status};

use crate::support::api_error::assert_api_error;
use crate::support::client::{completion, item};
use crate::support::database::{self, WriteLock};
use crate::support::server::Server;
use crate::support::timeout::{TEST_TIMEOUT, wait_until, with_timeout};

/// Adds the `grpc-timeout` header to a request. The client reads the header too and starts its timer earlier than the
/// server, so it turns a late answer into CANCELLED.
fn with_deadline<T>(message: T, timeout: &'static str) -> Request<T> {
    let mut request = Request::new(message);
    let timeout = timeout.parse().expect("a header");
    request.metadata_mut().insert("grpc-timeout", timeout);
    request
}

/// Returns the broker's answer. `None`: the client's timer ended the call.
///
/// The broker leaves a tenth of the time, at most 100 ms, for its answer to arrive. On a busy machine that can be too little,
/// so the tests send the call again.
fn in_time<T>(outcome: Result<T, Status>) -> Option<Result<T, Status>> {
    match outcome {
        Err(status) if status.code() == Code::Cancelled => None,
        answered => Some(answered),
    }
}

#[tokio::test]
async fn wait_ends_empty_before_the_deadline() {
    let server = Server::start().await;
    let client = server.client().await;
    for (header, deadline) in [("800m", 800), ("1S", 1_000), ("300000u", 300)] {
        let request = client.waiting_claim_request(1, Duration::from_secs(60));
        wait_until("the answer comes before the deadline", async || {
            let start = Instant::now();
            let request = with_deadline(request.clone(), header);
            let Some(leases) = in_time(with_timeout(client.try_claim(request)).await) else {
                return false;
            };
            // On a busy machine the store's answer can come too late for the broker, too.
            if let Err(status) = &leases
                && status.code() == Code::DeadlineExceeded
            {
                return false;
            }
            assert_eq!(leases.expect("no error"), [], "{header}");
            let took = start.elapsed();
            assert!(
                took > Duration::from_millis(deadline / 2),
                "{took:?} of {header}"
            );
            true
        })
        .await;
    }
}

#[tokio::test]
async fn client_timeout_gets_an_empty_response() {
    let server = Server::start().await;
    let client = server.client().await;
    wait_until("the answer comes before the timeout", async || {
        let mut request = Request::new(client.waiting_claim_request(1, Duration::from_secs(60)));
        request.set_timeout(Duration::from_secs(1));
        let answer = in_time(client.try_claim(request).await);
        answer.is_some_and(|leases| leases.expect("no error").is_empty())
    })
    .await;
}

#[tokio::test]
async fn later_deadline_has_no_effect() {
    let server = Server::start().await;
    let client = server.client().await;
    let request = client.waiting_claim_request(1, Duration::from_millis(200));
    let start = Instant::now();
    let leases = client
        .try_claim(with_deadline(request.clone(), "60S"))
        .await;
    assert_eq!(leases.expect("a claim"), []);
    assert!(start.elapsed() >= Duration::from_millis(200));
    let leases = client.try_claim(with_deadline(request, "99999999H")).await;
    assert_eq!(leases.expect("a claim"), []);
}

#[tokio::test]
async fn locked_store_exceeds_the_deadline() {
    wait_until("all answers come before the deadline", async || {
        let server = Server::start().await;
        let outcomes = call_locked_store(&server).await.map(in_time);
        let in_time = outcomes.iter().all(Option::is_some);
        for outcome in outcomes.into_iter().flatten() {
            let code = Code::DeadlineExceeded;
            assert_api_error(outcome, code, "DEADLINE_EXCEEDED", false);
        }
        in_time
    })
    .await;
}

/// Makes four calls with a deadline while another program holds the lock of the file.
async fn call_locked_store(server: &Server) -> [Result<(), Status>; 4] {
    let client = server.client().await;
    client.enqueue(&["a", "b"]).await;
    let id = client.claim_one().await.lease_id;
    let _lock = WriteLock::acquire(&server.file());
    let rpc = || client.rpc.clone();
    let enqueue = lease_broker_proto::EnqueueRequest {
        queue: "work".to_owned(),
        items: vec![item("x")],
        request_id: String::new(),
    };
    let complete = lease_broker_proto::CompleteRequest {
        queue: "work".to_owned(),
        completions: vec![completion(&id, &[])],
        next: None,
    };
    let (mut one, mut two) = (rpc(), rpc());
    let (claimed, waited, enqueued, completed) = with_timeout(Box::pin(async {
        tokio::join!(
            client.try_claim(with_deadline(client.claim_request(1), "500m")),
            client.try_claim(with_deadline(
                client.waiting_claim_request(1, TEST_TIMEOUT),
                "500m"
            )),
            one.enqueue(with_deadline(enqueue, "500m")),
            two.complete(with_deadline(complete, "500m")),
        )
    }))
    .await;
    [
        claimed.map(drop),
        waited.map(drop),
        enqueued.map(drop),
        completed.map(drop),
    ]
}

#[tokio::test]
async fn late_claim_is_released() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lock = WriteLock::acquire(&server.file());
    let claimed = client
        .try_claim(with_deadline(client.claim_request(1), "1S"))
        .await;
    let failed = claimed.expect_err("the deadline has passed");
    // The client's channel also reads the header and can cancel the call first.
    if failed.code() != Code::Cancelled {
        assert_api_error(
            Err::<(), _>(failed),
            Code::DeadlineExceeded,
            "DEADLINE_EXCEEDED",
            false,
        );
    }
    drop(lock);
    let database = server.database();
    wait_until("the item was claimed and released", async || {
        database::query_value::<String>(
            &database,
            "SELECT lease_state || ' ' || lease_fence FROM work",
        ) == "0 1"
    })
    .await;
    assert_eq!(client.claim_one().await.attempt, 1);
}

#[tokio::test]
async fn malformed_header_is_ignored() {
    let server = Server::start().await;
    let client = server.client().await;
    for header in ["soon", "", "1", "999999999S", "-1S"] {
        let leases = client
            .try_claim(with_deadline(client.claim_request(1), header))
            .await;
        assert_eq!(leases.expect("a claim"), [], "{header}");
    }
}

#[tokio::test]
async fn shortest_deadline_is_met_or_exceeded() {
    let server = Server::start().await;
    let client = server.client().await;
    for header in ["0S", "1n", "1u", "0m"] {
        match client
            .try_claim(with_deadline(client.claim_request(1), header))
            .await
        {
            Ok(leases) => assert_eq!(leases, []),
            // The client's channel also reads the header and can cancel the call first.
            Err(status) if status.code() == Code::Cancelled => {}
            failed => {
                assert_api_error(failed, Code::DeadlineExceeded, "DEADLINE_EXCEEDED", false);
            }
        }
    }
    assert_eq!(client.claim(1).await, []);
}
