//! Calls that are rejected before the broker looks at their items: unknown queue, too many calls, unreadable message.

use lease_broker_proto::{Release, ReleaseRequest};
use prost::Message as _;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};

use crate::support::api_error::{ApiError, assert_api_error, assert_field_error};
use crate::support::client::{Client, completion, failure, item, item_with, text};
use crate::support::database::all_rows;
use crate::support::raw_call::send;
use crate::support::server::Server;

/// Makes each of the six calls once. Returns the number of results or the error of each.
pub(crate) async fn call_all_rpcs(client: &Client) -> [Result<usize, Status>; 6] {
    let items = vec![item("x")];
    [
        client
            .try_claim(client.claim_request(1))
            .await
            .map(|l| l.len()),
        client.try_enqueue(items).await.map(|keys| keys.len()),
        client.try_heartbeat(&["x"], None).await.map(|r| r.len()),
        client
            .try_complete(vec![completion("x", &[])])
            .await
            .map(|r| r.len()),
        client
            .try_fail(vec![failure("x", "")])
            .await
            .map(|r| r.len()),
        client.try_release(&["x"], None).await.map(|r| r.len()),
    ]
}

#[tokio::test]
async fn unknown_queue_is_not_found() {
    let server = Server::start().await;
    let client = server.client().await;
    for queue in ["nowhere", "", "Work", "work ", "lease_broker_secret"] {
        for outcome in call_all_rpcs(&client.for_queue(queue)).await {
            assert_api_error(outcome, Code::NotFound, "QUEUE_NOT_FOUND", false);
        }
    }
}

#[tokio::test]
async fn error_about_a_huge_name_is_short() {
    let server = Server::start().await;
    let client = server.client().await;
    let huge = "ü".repeat(500_000);
    for outcome in call_all_rpcs(&client.for_queue(&huge)).await {
        assert_field_error(outcome, Code::InvalidArgument, "LIMIT_EXCEEDED", "queue");
    }
    let column = |name| item_with(name, text("x"));
    let with_huge_column = client.try_enqueue(vec![column(&huge)]).await;
    let field = "items.columns";
    assert_field_error(
        with_huge_column,
        Code::InvalidArgument,
        "LIMIT_EXCEEDED",
        field,
    );
    let mut completed = completion("id", &[("work", "x")]);
    completed.follow_ups[0].item = Some(column(&huge));
    let field = "completions.follow_ups.item.columns";
    let completed = client.try_complete(vec![completed]).await;
    assert_field_error(completed, Code::InvalidArgument, "LIMIT_EXCEEDED", field);
    let long = "ü".repeat(256);
    for outcome in call_all_rpcs(&client.for_queue(&long)).await {
        assert_api_error(outcome, Code::NotFound, "QUEUE_NOT_FOUND", false);
    }
    let status = client
        .try_enqueue(vec![column(&long)])
        .await
        .expect_err("the column name is unknown");
    let error = ApiError::from_status(&status);
    assert_eq!(error.reason, "INVALID_FIELD");
    let field = error.field.expect("the error names a field");
    assert!(field.starts_with("items[0].columns[\"üüü"), "{field}");
    assert!(status.message().len() < 2_000, "{}", status.message().len());
}

/// The rpcs of version 0.2.0 were those of another service. No field of theirs can be misread.
#[tokio::test]
async fn client_of_the_earlier_proto_is_told_so_and_changes_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let before = all_rows(&server.database(), "work");
    let mut grpc = Grpc::new(server.channel().await);
    let release = ReleaseRequest {
        queue: "work".to_owned(),
        releases: vec![Release {
            lease_id: lease.lease_id,
            delay: None,
            checkpoint: None,
        }],
    };
    for rpc in [
        "ClaimBatch",
        "Heartbeat",
        "Complete",
        "Fail",
        "Release",
        "CancelLeases",
        "Wake",
        "Enqueue",
    ] {
        let path = format!("/leasebroker.v1.LeaseBrokerService/{rpc}");
        let outcome = send(&mut grpc, &path, release.encode_to_vec()).await;
        assert_api_error(outcome, Code::Unimplemented, "RPC_UNKNOWN", false);
    }
    assert_eq!(all_rows(&server.database(), "work"), before);
}

#[tokio::test]
async fn malformed_message_is_rejected() {
    let server = Server::start().await;
    let mut grpc = Grpc::new(server.channel().await);
    // A queue name that is not UTF-8, a truncated field, an invalid field number, and a truncated field number.
    for bytes in [
        &b"\x0a\x02\xff\xfe"[..],
        b"\x0a\x7fx",
        b"\x00\x01",
        b"\xff\xff\xff",
    ] {
        for rpc in [
            "ClaimBatch",
            "Heartbeat",
            "Complete",
            "Fail",
            "Release",
            "Enqueue",
        ] {
            let path = format!("/leasebroker.v1.LeaseService/{rpc}");
            let outcome = send(&mut grpc, &path, bytes.to_vec()).await;
            assert_api_error(outcome, Code::InvalidArgument, "INVALID_FIELD", false);
        }
    }
}

#[tokio::test]
async fn compressed_request_is_refused_with_the_remedy() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let mut request = Request::new(client.claim_request(1));
    let gzip = "gzip".parse().expect("a value");
    request.metadata_mut().insert("grpc-encoding", gzip);
    let status = client.rpc.claim_batch(request).await.expect_err("refused");
    let error = ApiError::from_status(&status);
    let reason = (error.code, &*error.reason);
    assert_eq!(reason, (Code::Unimplemented, "COMPRESSION_UNSUPPORTED"));
    assert!(status.message().contains("grpc-encoding"), "{status:?}");
    let supported = status.metadata().get("grpc-accept-encoding");
    assert_eq!(supported.expect("the encodings"), "identity");
    let mut plain = Request::new(client.claim_request(1));
    let identity = "identity".parse().expect("a value");
    plain.metadata_mut().insert("grpc-encoding", identity);
    client.rpc.claim_batch(plain).await.expect("a claim");
}
