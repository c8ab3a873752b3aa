//! Trace contexts: a lease continues the W3C trace of the call that added its item.

use lease_broker_proto::RefusalReason;
use tonic::{Code, Request};

use crate::support::api_error::assert_field_error;
use crate::support::client::{assert_refused, completion, item};
use crate::support::database;
use crate::support::server::Server;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn lease_continues_its_producers_trace() {
    let server = Server::start().await;
    let client = server.client().await;
    let traced = |trace: &'static str| {
        let message = lease_broker_proto::EnqueueRequest {
            queue: "work".to_owned(),
            items: vec![item("x")],
            request_id: String::new(),
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
}

/// Reads the trace context that is stored with the newest item.
fn stored_context(server: &Server) -> String {
    let newest = "SELECT trace_parent FROM work ORDER BY id DESC LIMIT 1";
    database::query_value(&server.database(), newest)
}

#[tokio::test]
async fn follow_up_continues_the_trace_of_its_lease() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut traced = item("x");
    traced.trace_parent = TRACE.to_owned();
    client.try_enqueue(vec![traced]).await.expect("added");
    let mut lease = client.claim_one().await;
    for _ in 0..3 {
        let mut done = Request::new(lease_broker_proto::CompleteRequest {
            queue: "work".to_owned(),
            completions: vec![completion(&lease.lease_id, &[("work", "next")])],
            next: None,
        });
        let header = TRACE.parse().expect("a header");
        done.metadata_mut().insert("traceparent", header);
        client.rpc.clone().complete(done).await.expect("done");
        assert_eq!(stored_context(&server), lease.trace_parent);
        let next = client.claim_one().await;
        assert_eq!(next.trace_parent[..35], lease.trace_parent[..35]);
        lease = next;
    }
}

/// A context that says "not recorded" would keep a worker with a tracer of its own from recording anything.
#[tokio::test]
async fn lease_has_no_trace_if_nobody_records_one() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["x"]).await;
    let lease = client.claim_one().await;
    assert_eq!(lease.trace_parent, "");
    let done = completion(&lease.lease_id, &[("work", "next")]);
    client.try_complete(vec![done]).await.expect("done");
    let newest = "SELECT COALESCE(trace_parent, '') FROM work ORDER BY id DESC LIMIT 1";
    assert_eq!(
        database::query_value::<String>(&server.database(), newest),
        ""
    );
}

#[tokio::test]
async fn own_trace_context_of_an_item_comes_first() {
    let server = Server::start().await;
    let client = server.client().await;
    let own = "00-11111111111111111111111111111111-2222222222222222-00";
    let mut traced = item("x");
    traced.trace_parent = own.to_owned();
    let mut request = Request::new(lease_broker_proto::EnqueueRequest {
        queue: "work".to_owned(),
        items: vec![traced.clone()],
        request_id: String::new(),
    });
    let header = TRACE.parse().expect("a header");
    request.metadata_mut().insert("traceparent", header);
    client.rpc.clone().enqueue(request).await.expect("added");
    assert_eq!(stored_context(&server), own);
    let lease = client.claim_one().await;
    assert_eq!(lease.trace_parent[..35], own[..35]);
    let mut done = completion(&lease.lease_id, &[("work", "next")]);
    traced.trace_parent = TRACE.to_owned();
    done.follow_ups[0].item = Some(traced);
    client.try_complete(vec![done]).await.expect("done");
    assert_eq!(stored_context(&server), TRACE);
}

#[tokio::test]
async fn malformed_trace_context_of_an_item_is_rejected() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["x"]).await;
    let lease = client.claim_one().await;
    let zero_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
    for malformed in ["nonsense", zero_trace, &format!("{TRACE}-1")] {
        let mut traced = item("x");
        traced.trace_parent = malformed.to_owned();
        let rejected = client.try_enqueue(vec![item("fine"), traced.clone()]).await;
        let field = "items[1].trace_parent";
        assert_field_error(rejected, Code::InvalidArgument, "INVALID_FIELD", field);
        let mut done = completion(&lease.lease_id, &[("work", "next")]);
        done.follow_ups[0].item = Some(traced);
        let results = client.try_complete(vec![done]).await.expect("no error");
        let (refusal, reason) = (results[0].refusal.as_ref(), RefusalReason::InvalidField);
        let field = "follow_ups[0].item.trace_parent";
        assert_refused(results[0].outcome(), refusal, reason, field);
    }
}

#[tokio::test]
async fn invalid_traceparent_is_ignored() {
    let server = Server::start().await;
    let client = server.client().await;
    let upper_case = "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01";
    let zero_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
    for invalid in ["", "nonsense", upper_case, zero_trace] {
        let mut request = Request::new(lease_broker_proto::EnqueueRequest {
            queue: "work".to_owned(),
            items: vec![item("x")],
            request_id: String::new(),
        });
        let header = invalid.parse().expect("a header");
        request.metadata_mut().insert("traceparent", header);
        client.rpc.clone().enqueue(request).await.expect("added");
        let lease = client.claim_one().await;
        assert_eq!(lease.trace_parent, "");
    }
}
