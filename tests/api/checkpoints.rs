//! Checkpoints over gRPC: heartbeats, failures and releases store them, and the next lease has them.

use std::time::Duration;

use lease_broker_proto::{Failure, HeartbeatRequest, Lease, Release, ReleaseRequest, Renewal};
use tonic::{Code, Status};

use crate::support::api_error::{ApiError, assert_field_error};
use crate::support::client::{Client, failure};
use crate::support::database::all_rows;
use crate::support::server::{QUEUE, Server};

async fn server(setting: &str) -> Server {
    let config = QUEUE.replace("[queues.work]", &format!("[queues.work]\n{setting}"));
    Server::with_config(&config).await
}

async fn heartbeat(client: &Client, id: &str, checkpoint: Vec<u8>) -> Result<(), Status> {
    let renewal = Renewal {
        lease_id: id.to_owned(),
        checkpoint: Some(checkpoint),
    };
    let request = HeartbeatRequest {
        queue: "work".to_owned(),
        renewals: vec![renewal],
        lease_duration: None,
    };
    client.rpc.clone().heartbeat(request).await.map(drop)
}

fn failure_with(id: &str, checkpoint: Vec<u8>) -> Failure {
    Failure {
        checkpoint: Some(checkpoint),
        ..failure(id, "no luck")
    }
}

async fn release(client: &Client, id: &str, checkpoint: Vec<u8>) -> Result<(), Status> {
    let release = Release {
        lease_id: id.to_owned(),
        delay: None,
        checkpoint: Some(checkpoint),
    };
    let request = ReleaseRequest {
        queue: "work".to_owned(),
        releases: vec![release],
        ..ReleaseRequest::default()
    };
    client.rpc.clone().release(request).await.map(drop)
}

/// Claims an item that has failed. It is ready when the reaper has seen it.
async fn claim_failed(client: &Client) -> Lease {
    let request = client.waiting_claim_request(1, Duration::from_secs(30));
    let mut leases = client.try_claim(request).await.expect("a claim");
    leases.remove(0)
}

#[tokio::test]
async fn next_attempt_continues_from_the_checkpoint() {
    let server = server("checkpoint = true").await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    assert_eq!(lease.checkpoint, None);
    let beat = heartbeat(&client, &lease.lease_id, b"one".to_vec()).await;
    beat.expect("extended");
    client.fail(&lease.lease_id, "no luck").await;
    let lease = claim_failed(&client).await;
    assert_eq!(lease.checkpoint.as_deref(), Some(&b"one"[..]));
    let failed = vec![failure_with(&lease.lease_id, b"two".to_vec())];
    client.try_fail(failed).await.expect("failed");
    let lease = claim_failed(&client).await;
    assert_eq!(lease.checkpoint.as_deref(), Some(&b"two"[..]));
    let released = release(&client, &lease.lease_id, b"three".to_vec()).await;
    released.expect("released");
    let lease = client.claim_one().await;
    assert_eq!(lease.checkpoint.as_deref(), Some(&b"three"[..]));
    let released = release(&client, &lease.lease_id, Vec::new()).await;
    released.expect("released");
    assert_eq!(client.claim_one().await.checkpoint, None);
}

#[tokio::test]
async fn checkpoint_over_the_limit_is_refused() {
    let server = server("checkpoint = { max_bytes = 8 }").await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let id = client.claim_one().await.lease_id;
    heartbeat(&client, &id, vec![1; 8]).await.expect("it fits");
    let before = all_rows(&server.database(), "work");
    let long = || vec![1; 9];
    for (refused, field) in [
        (
            heartbeat(&client, &id, long()).await,
            "renewals[0].checkpoint",
        ),
        (
            client
                .try_fail(vec![failure_with(&id, long())])
                .await
                .map(drop),
            "failures[0].checkpoint",
        ),
        (
            release(&client, &id, long()).await,
            "releases[0].checkpoint",
        ),
    ] {
        let error = ApiError::from_status(&refused.expect_err(field));
        assert_eq!(error.reason, "LIMIT_EXCEEDED");
        assert_eq!(error.field.as_deref(), Some(field));
    }
    assert_eq!(all_rows(&server.database(), "work"), before);
}

#[tokio::test]
async fn queue_without_checkpoints_refuses_them() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let id = client.claim_one().await.lease_id;
    let before = all_rows(&server.database(), "work");
    for (refused, field) in [
        (
            heartbeat(&client, &id, vec![1]).await,
            "renewals[0].checkpoint",
        ),
        (
            client
                .try_fail(vec![failure_with(&id, vec![1])])
                .await
                .map(drop),
            "failures[0].checkpoint",
        ),
        (
            release(&client, &id, Vec::new()).await,
            "releases[0].checkpoint",
        ),
    ] {
        assert_field_error(refused, Code::InvalidArgument, "INVALID_FIELD", field);
    }
    assert_eq!(all_rows(&server.database(), "work"), before);
}
