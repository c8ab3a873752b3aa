//! Enqueue with a request id: a call that is sent again adds nothing.

use lease_broker_proto::{EnqueueRequest, NewItem};
use tonic::{Code, Status};

use crate::support::api_error::assert_field_error;
use crate::support::client::{Client, added_keys, item, item_with, text};
use crate::support::database::query_value;
use crate::support::server::Server;

const ID: &str = "0d3adb33-f000-4000-8000-000000000001";

async fn enqueue(client: &Client, id: &str, items: Vec<NewItem>) -> Result<Vec<String>, Status> {
    let request = EnqueueRequest {
        queue: client.queue.clone(),
        items,
        request_id: id.to_owned(),
    };
    let response = client.rpc.clone().enqueue(request).await?.into_inner();
    Ok(added_keys(response))
}

fn rows(server: &Server) -> i64 {
    query_value(&server.database(), "SELECT count(*) FROM work")
}

#[tokio::test]
async fn repeated_call_returns_the_same_keys() {
    let server = Server::start().await;
    let client = server.client().await;
    let items = || vec![item("a"), item("b")];
    let keys = enqueue(&client, ID, items()).await.expect("added");
    for id in [ID, &ID.to_uppercase()] {
        let again = enqueue(&client, id, items()).await;
        assert_eq!(again.expect("repeated"), keys);
    }
    assert_eq!(rows(&server), 2);
    enqueue(&client, "", items()).await.expect("added");
    enqueue(&client, "", items()).await.expect("added");
    assert_eq!(rows(&server), 6);
}

#[tokio::test]
async fn other_items_under_one_id_are_an_invalid_field() {
    let server = Server::start().await;
    let client = server.client().await;
    enqueue(&client, ID, vec![item("a")]).await.expect("added");
    let other = enqueue(&client, ID, vec![item("b")]).await;
    assert_field_error(other, Code::InvalidArgument, "INVALID_FIELD", "request_id");
    let malformed = enqueue(&client, "7", vec![item("b")]).await;
    assert_field_error(
        malformed,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "request_id",
    );
    assert_eq!(rows(&server), 1);
}

#[tokio::test]
async fn repeats_and_refusals_leave_concurrent_calls_intact() {
    let server = Server::start().await;
    let client = server.client().await;
    let first = enqueue(&client, ID, vec![item("a")]).await.expect("added");
    let calls = (0..40_u128).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let new = uuid::Uuid::from_u128(n).to_string();
            let outcome = match n % 4 {
                0 => enqueue(&client, ID, vec![item("a")]).await,
                1 => enqueue(&client, ID, vec![item("b")]).await,
                2 => enqueue(&client, &new, vec![item_with("nothing", text("x"))]).await,
                _ => enqueue(&client, &new, vec![item("new")]).await,
            };
            (n % 4, outcome)
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (kind, outcome) = call.await.expect("a task");
        match kind {
            0 => assert_eq!(outcome.expect("repeated"), first),
            3 => assert_eq!(outcome.expect("added").len(), 1),
            _ => assert_eq!(outcome.expect_err("refused").code(), Code::InvalidArgument),
        }
    }
    assert_eq!(rows(&server), 11);
}

#[tokio::test]
async fn added_items_wake_a_waiting_claim() {
    let server = Server::start().await;
    let client = server.client().await;
    let waiting = client.waiting_claim_request(1, std::time::Duration::from_secs(20));
    let claim = tokio::spawn({
        let client = client.clone();
        async move { client.try_claim(waiting).await }
    });
    enqueue(&client, ID, vec![item("a")]).await.expect("added");
    let leases = claim.await.expect("a task").expect("a claim");
    assert_eq!(leases.len(), 1);
}
