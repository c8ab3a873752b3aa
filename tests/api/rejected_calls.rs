//! Calls that are rejected before the broker looks at their items: unknown queue, too many calls, unreadable message.

use std::time::Duration;

use bytes_codec::Bytes;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::api_error::{ApiError, assert_api_error};
use crate::support::client::{Client, completion, failure, item};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::{wait_until, with_timeout};

/// A codec that sends bytes unchanged, so that a test can send an invalid message.
mod bytes_codec {
    use tonic::Status;
    use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

    #[derive(Clone, Default)]
    pub(super) struct Bytes;

    impl Codec for Bytes {
        type Encode = Vec<u8>;
        type Decode = Vec<u8>;
        type Encoder = Self;
        type Decoder = Self;

        fn encoder(&mut self) -> Self {
            Self
        }

        fn decoder(&mut self) -> Self {
            Self
        }
    }

    impl Encoder for Bytes {
        type Item = Vec<u8>;
        type Error = Status;

        fn encode(&mut self, bytes: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
            prost::bytes::BufMut::put_slice(out, &bytes);
            Ok(())
        }
    }

    impl Decoder for Bytes {
        type Item = Vec<u8>;
        type Error = Status;

        fn decode(&mut self, input: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
            let length = prost::bytes::Buf::remaining(input);
            Ok(Some(
                prost::bytes::Buf::copy_to_bytes(input, length).to_vec(),
            ))
        }
    }
}

/// Makes each of the six calls once. Returns the number of results or the error of each.
async fn call_all_rpcs(client: &Client) -> [Result<usize, Status>; 6] {
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
    for queue in ["nowhere", "", "Work", "work ", "lease_broker_meta"] {
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
        assert_api_error(outcome, Code::NotFound, "QUEUE_NOT_FOUND", false);
    }
    let column = crate::support::client::item_with(&huge, crate::support::client::text("x"));
    let status = client
        .try_enqueue(vec![column])
        .await
        .expect_err("the column name is unknown");
    let error = ApiError::from_status(&status);
    assert_eq!(error.reason, "INVALID_FIELD");
    let field = error.field.expect("the error names a field");
    assert!(field.starts_with("items[0].columns[\"üüü"), "{field}");
    assert!(status.message().len() < 2_000, "{}", status.message().len());
}

#[tokio::test]
async fn overload_does_not_stop_health_checks() {
    let server = Server::with_config(&format!("[server]\nmax_concurrent_calls = 1\n{QUEUE}")).await;
    let client = server.client().await;
    let waiting = client.waiting_claim_request(1, Duration::from_secs(60));
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.try_claim(waiting).await }
    });
    // The server reads the calls of one connection in order, so the waiting claim comes first.
    tokio::task::yield_now().await;
    for outcome in call_all_rpcs(&client).await {
        assert_api_error(outcome, Code::ResourceExhausted, "OVERLOADED", true);
    }
    // The limit counts the calls of all connections.
    for outcome in call_all_rpcs(&server.client().await).await {
        assert_api_error(outcome, Code::ResourceExhausted, "OVERLOADED", true);
    }
    let mut health = HealthClient::new(server.channel().await);
    let check = health.check(HealthCheckRequest::default());
    assert_eq!(
        with_timeout(check)
            .await
            .expect("an answer")
            .into_inner()
            .status,
        1
    );
    server
        .database()
        .execute("INSERT INTO work (payload) VALUES ('x')", [])
        .expect("inserted");
    let leases = with_timeout(waiting)
        .await
        .expect("a task")
        .expect("a claim");
    assert_eq!(leases.len(), 1);
    for outcome in call_all_rpcs(&client).await {
        outcome.expect("calls succeed again");
    }
}

#[tokio::test]
async fn malformed_message_is_rejected() {
    let server = Server::start().await;
    let mut grpc = tonic::client::Grpc::new(server.channel().await);
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
            let path = format!("/leasebroker.v1.LeaseBrokerService/{rpc}");
            grpc.ready().await.expect("the channel is ready");
            let path = path.parse().expect("the path is valid");
            let outcome = grpc.unary(Request::new(bytes.to_vec()), path, Bytes).await;
            assert_api_error(outcome, Code::InvalidArgument, "INVALID_FIELD", false);
        }
    }
}

#[tokio::test]
async fn cancelled_call_frees_its_slot() {
    let server = Server::with_config(&format!("[server]\nmax_concurrent_calls = 1\n{QUEUE}")).await;
    let client = server.client().await;
    for _ in 0..5 {
        let waiting = client.waiting_claim_request(1, Duration::from_secs(60));
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.try_claim(waiting).await }
        });
        tokio::task::yield_now().await;
        client
            .try_claim(client.claim_request(1))
            .await
            .expect_err("the server is at its limit");
        waiting.abort();
        let _ = waiting.await;
        wait_until("the server accepts another call", async || {
            client.try_claim(client.claim_request(1)).await.is_ok()
        })
        .await;
    }
}
