//! Trace contexts: a lease continues the W3C trace of the call that added its item.

use tonic::Request;

use crate::support::client::{completion, item};
use crate::support::server::Server;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn lease_continues_its_producers_trace() {
    let server = Server::start().await;
    let client = server.client().await;
    let traced = |trace: &'static str| {
        let message = lease_broker::grpc::proto::EnqueueRequest {
            queue: "work".to_owned(),
            items: vec![item("x")],
        };
        let mut request = Request::new(message);
        let trace = trace.parse().expect("a header");
        request.metadata_mut().insert("traceparent", trace);
        request
    };
    client
        .rpc
        .clone()
        .enqueue(traced(TRACE))
        .await
        .expect("added");
    let lease = client.claim_one().await;
    let (trace, span) = (&lease.trace_parent[3..35], &lease.trace_parent[36..52]);
    assert_eq!(trace, &TRACE[3..35]);
    assert_ne!(span, &TRACE[36..52]);
    assert!(lease.trace_parent.ends_with("-01"));
    client.release(&[&lease.lease_id]).await;
    let again = client.claim_one().await;
    assert_eq!(&again.trace_parent[..35], &lease.trace_parent[..35]);
    assert_ne!(again.trace_parent, lease.trace_parent);

    // A follow-up continues the trace of the completion that adds it.
    let other = "00-11111111111111111111111111111111-2222222222222222-00";
    let mut done = Request::new(lease_broker::grpc::proto::CompleteRequest {
        queue: "work".to_owned(),
        completions: vec![completion(&again.lease_id, &[("work", "next")])],
        next: None,
    });
    let header = other.parse().expect("a header");
    done.metadata_mut().insert("traceparent", header);
    client.rpc.clone().complete(done).await.expect("done");
    assert_eq!(client.claim_one().await.trace_parent[..35], other[..35]);
}

#[tokio::test]
async fn invalid_traceparent_is_ignored() {
    let server = Server::start().await;
    let client = server.client().await;
    let upper_case = "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01";
    let zero_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
    for invalid in ["", "nonsense", upper_case, zero_trace] {
        let mut request = Request::new(lease_broker::grpc::proto::EnqueueRequest {
            queue: "work".to_owned(),
            items: vec![item("x")],
        });
        let header = invalid.parse().expect("a header");
        request.metadata_mut().insert("traceparent", header);
        client.rpc.clone().enqueue(request).await.expect("added");
        let lease = client.claim_one().await;
        assert_eq!(lease.trace_parent.len(), 55);
        assert_ne!(lease.trace_parent[3..35], "0".repeat(32));
    }
}
