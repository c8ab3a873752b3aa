//! Checkpoints over gRPC: heartbeats, failures and releases store them, and the next lease has them.

use std::time::Duration;

use lease_broker_proto::{
    Failure, HeartbeatRequest, HeartbeatResult, Lease, Outcome, RefusalReason, Release,
    ReleaseRequest, Renewal, SettleResult,
};

use crate::support::client::{Client, assert_refused, failure};
use crate::support::database::all_rows;
use crate::support::server::{QUEUE, Server};

async fn server(setting: &str) -> Server {
    let config = QUEUE.replace("[queues.work]", &format!("[queues.work]\n{setting}"));
    Server::with_config(&config).await
}

async fn heartbeat(client: &Client, id: &str, checkpoint: Vec<u8>) -> HeartbeatResult {
    let renewal = Renewal {
        lease_id: id.to_owned(),
        checkpoint: Some(checkpoint),
    };
    let request = HeartbeatRequest {
        queue: "work".to_owned(),
        renewals: vec![renewal],
        lease_duration: None,
    };
    let response = client.rpc.clone().heartbeat(request).await;
    response.expect("no error").into_inner().results.remove(0)
}

fn failure_with(id: &str, checkpoint: Vec<u8>) -> Failure {
    Failure {
        checkpoint: Some(checkpoint),
        ..failure(id, "no luck")
    }
}

async fn fail(client: &Client, id: &str, checkpoint: Vec<u8>) -> SettleResult {
    let failed = client.try_fail(vec![failure_with(id, checkpoint)]).await;
    failed.expect("no error").remove(0)
}

async fn release(client: &Client, id: &str, checkpoint: Vec<u8>) -> SettleResult {
    let release = Release {
        lease_id: id.to_owned(),
        delay: None,
        checkpoint: Some(checkpoint),
    };
    let request = ReleaseRequest {
        queue: "work".to_owned(),
        releases: vec![release],
    };
    let response = client.rpc.clone().release(request).await;
    response.expect("no error").into_inner().results.remove(0)
}

/// Asserts that each of these calls refuses a checkpoint, and that no row changes.
async fn assert_checkpoint_refused(server: &Server, client: &Client, id: &str, checkpoint: &[u8]) {
    let before = all_rows(&server.database(), "work");
    let reason = RefusalReason::InvalidField;
    let renewed = heartbeat(client, id, checkpoint.to_vec()).await;
    assert_refused(
        renewed.outcome(),
        renewed.refusal.as_ref(),
        reason,
        "checkpoint",
    );
    for settled in [
        fail(client, id, checkpoint.to_vec()).await,
        release(client, id, checkpoint.to_vec()).await,
    ] {
        assert_refused(
            settled.outcome(),
            settled.refusal.as_ref(),
            reason,
            "checkpoint",
        );
    }
    assert_eq!(all_rows(&server.database(), "work"), before);
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
    assert_eq!(beat.outcome(), Outcome::Applied);
    client.fail(&lease.lease_id, "no luck").await;
    let lease = claim_failed(&client).await;
    assert_eq!(lease.checkpoint.as_deref(), Some(&b"one"[..]));
    let failed = fail(&client, &lease.lease_id, b"two".to_vec()).await;
    assert_eq!(failed.outcome(), Outcome::Applied);
    let lease = claim_failed(&client).await;
    assert_eq!(lease.checkpoint.as_deref(), Some(&b"two"[..]));
    let released = release(&client, &lease.lease_id, b"three".to_vec()).await;
    assert_eq!(released.outcome(), Outcome::Applied);
    let lease = client.claim_one().await;
    assert_eq!(lease.checkpoint.as_deref(), Some(&b"three"[..]));
    let released = release(&client, &lease.lease_id, Vec::new()).await;
    assert_eq!(released.outcome(), Outcome::Applied);
    assert_eq!(client.claim_one().await.checkpoint, None);
}

#[tokio::test]
async fn checkpoint_over_the_limit_is_refused() {
    let server = server("checkpoint = { max_bytes = 8 }").await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let id = client.claim_one().await.lease_id;
    let fits = heartbeat(&client, &id, vec![1; 8]).await;
    assert_eq!(fits.outcome(), Outcome::Applied);
    assert_checkpoint_refused(&server, &client, &id, &[1; 9]).await;
    // The lease is still held, and a renewal beside a refused one is applied.
    let applied = client.try_heartbeat(&[&id], None).await.expect("no error");
    assert_eq!(applied[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn queue_without_checkpoints_refuses_them() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let id = client.claim_one().await.lease_id;
    assert_checkpoint_refused(&server, &client, &id, &[1]).await;
}
