//! The spans of leases: one for each lease, with the ids that its worker got, whatever ends the lease.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_model::trace_context::TraceContext;
use lease_broker_proto::start_operation_request::Action;
use lease_broker_proto::{
    CancelHeld, CancelLeasesRequest, Cancellation, Failure, GetItemRequest, ItemState, Lease,
    Outcome, SettleResult, StartOperationRequest,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::support::client::{completion, failure, item, key};
use crate::telemetry::collector::{Collector, Protocol, Received, attributes_of};
use crate::telemetry::fixture::{Fixture, RECORDED};

/// Every trace is recorded, and workers show their errors.
const ALL: &str = "sample_ratio = 1\nerror_messages = true\nexport = ['traces']\n";
/// Further queues: one that removes completed rows, and one whose items come again at once.
const QUEUES: &str = "
[queues.removing]
managed_columns = { payload = 'text' }
on_complete = 'delete'
[queues.again]
managed_columns = { payload = 'text' }
on_complete = { recur = '1s' }
";

/// A broker and its collector.
struct Test {
    collector: Collector,
    broker: Fixture,
}

impl Test {
    async fn start(settings: &str) -> Self {
        let collector = Collector::start(Protocol::Grpc).await;
        let settings = format!("{settings}{QUEUES}");
        let broker = Fixture::exporting(&collector, Protocol::Grpc, &settings);
        Self { collector, broker }
    }

    /// Stops the broker, and returns all spans.
    fn stop(mut self) -> Spans {
        let numbers = self.broker.stop();
        assert_eq!(numbers["dropped"] + numbers["failed"], 0, "{numbers:?}");
        Spans(self.collector.received())
    }

    /// Adds an item to a queue and claims it.
    async fn lease(&self, queue: &str) -> Lease {
        let client = self.broker.client.for_queue(queue);
        client.enqueue(&["x"]).await;
        self.claim(queue).await
    }

    /// Claims an item as soon as one is ready.
    async fn claim(&self, queue: &str) -> Lease {
        self.claim_for(queue, 60).await
    }

    /// Claims an item for this number of seconds, as soon as one is ready.
    async fn claim_for(&self, queue: &str, seconds: i64) -> Lease {
        let client = self.broker.client.for_queue(queue);
        let mut request = client.waiting_claim_request(1, Duration::from_secs(20));
        request.lease_duration = Some(prost_types::Duration { seconds, nanos: 0 });
        let mut leases = client.try_claim(request).await.expect("claimed");
        leases.pop().expect("an item is ready")
    }

    async fn complete(&self, queue: &str, lease: &Lease) -> SettleResult {
        let client = self.broker.client.for_queue(queue);
        client.complete(&[&lease.lease_id]).await.remove(0)
    }

    /// Returns the trace context that `GetItem` shows for the item of a lease.
    async fn shown_trace(&self, queue: &str, lease: &Lease) -> String {
        let request = GetItemRequest {
            queue: queue.to_owned(),
            key: key(lease).to_owned(),
        };
        let mut rpc = self.broker.client.admin.clone();
        let found = rpc.get_item(request).await.expect("found");
        found.into_inner().trace_parent
    }

    async fn fail(&self, lease: &Lease, retry_delay: Duration) -> SettleResult {
        let failure = Failure {
            retry_delay: Some(crate::support::client::duration(retry_delay)),
            ..failure(&lease.lease_id, "no luck")
        };
        let results = self.broker.client.try_fail(vec![failure]).await;
        results.expect("failed").remove(0)
    }
}

/// The spans that a collector has received.
struct Spans(Received);

impl Spans {
    fn named(&self, name: &str) -> Vec<&Span> {
        let spans = self.0.spans.iter();
        spans.filter(|span| span.name == name).collect()
    }

    /// Returns the only span with this name.
    fn one(&self, name: &str) -> &Span {
        let [span] = self.named(name)[..] else {
            let names: Vec<&String> = self.0.spans.iter().map(|span| &span.name).collect();
            panic!("not one span {name:?} among {names:?}");
        };
        span
    }

    /// Returns the span of a lease, which its worker knows.
    fn of_lease(&self, lease: &Lease) -> &Span {
        let id = ids(lease);
        let mut found = self.0.spans.iter().filter(|span| ids_of(span) == id);
        let span = found.next().expect("the lease has a span");
        assert!(found.next().is_none(), "the lease has one span");
        assert!(span.name.starts_with("lease "), "{}", span.name);
        assert_eq!(span.kind(), SpanKind::Consumer);
        span
    }
}

/// Returns trace id and span id of the lease, as its worker got them.
fn ids(lease: &Lease) -> (Vec<u8>, Vec<u8>) {
    let context = TraceContext::parse(&lease.trace_parent).expect("a trace context");
    assert!(context.sampled, "{}", lease.trace_parent);
    (
        context.span.trace_id.to_be_bytes().to_vec(),
        context.span.span_id.to_be_bytes().to_vec(),
    )
}

fn ids_of(span: &Span) -> (Vec<u8>, Vec<u8>) {
    (span.trace_id.clone(), span.span_id.clone())
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    attributes_of(&span.attributes)
}

/// Returns the span ids to which the span links as `kind`.
fn links(span: &Span, kind: &str) -> Vec<Vec<u8>> {
    let links = span.links.iter();
    let links =
        links.filter(|link| attributes_of(&link.attributes)["lease_broker.link.kind"] == kind);
    links.map(|link| link.span_id.clone()).collect()
}

/// Checks outcome, error and state after the lease.
fn assert_ended(span: &Span, outcome: &str, error: Option<&str>, state: &str) {
    let found = attributes(span);
    assert_eq!(found["lease_broker.lease.outcome"], outcome);
    assert_eq!(found["lease_broker.item.state"], state);
    assert_eq!(found.get("error.type").map(String::as_str), error);
    let status = span.status.as_ref().map_or(0, |status| status.code);
    assert_eq!(status, if error.is_some() { 2 } else { 0 });
    assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completed_lease_is_a_span_with_the_workers_ids() {
    let test = Test::start(ALL).await;
    let lease = test.lease("work").await;
    test.complete("work", &lease).await;
    // A settlement that is sent again makes no second span.
    let again = test.complete("work", &lease).await;
    assert_eq!(again.outcome(), Outcome::Applied);
    let spans = test.stop();
    let span = spans.of_lease(&lease);
    assert_eq!(span.name, "lease work");
    assert_eq!(span.parent_span_id, Vec::<u8>::new());
    assert_ended(span, "completed", None, "completed");
    let found = attributes(span);
    for (name, value) in [
        ("messaging.system", "lease_broker"),
        ("messaging.destination.name", "work"),
        ("messaging.message.id", key(&lease)),
        ("lease_broker.lease.attempt", "1"),
        ("lease_broker.lease.fencing_token", "1"),
        ("lease_broker.lease.duration", "60"),
        ("lease_broker.sampling", "sampled"),
    ] {
        assert_eq!(found[name], value, "{name}");
    }
    let calls = spans.named("leasebroker.v1.LeaseService/Complete");
    let settled_by = links(span, "settled_by");
    assert_eq!(settled_by.len(), 1);
    assert!(calls.iter().any(|call| call.span_id == settled_by[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_of_an_item_stand_in_one_trace() {
    let test = Test::start(ALL).await;
    let first = test.lease("work").await;
    let delayed = test.fail(&first, Duration::ZERO).await;
    assert_eq!(delayed.state(), ItemState::Delayed);
    let second = test.claim("work").await;
    test.broker.client.release(&[&second.lease_id]).await;
    let third = test.claim_for("work", 1).await;
    // It expires.
    let fourth = test.claim("work").await;
    test.complete("work", &fourth).await;
    let late = test.complete("work", &third).await;
    assert_eq!(late.outcome(), Outcome::LeaseLost);
    let shown = test.shown_trace("work", &fourth).await;
    let spans = test.stop();
    let leases = [&first, &second, &third, &fourth];
    let found = leases.map(|lease| spans.of_lease(lease));
    assert_ended(found[0], "failed", Some("failed"), "delayed");
    assert_eq!(attributes(found[0])["lease_broker.item.error"], "no luck");
    assert_ended(found[1], "released", None, "ready");
    assert_ended(found[2], "expired", Some("lease_expired"), "ready");
    assert_ended(found[3], "completed", None, "completed");
    // The calls do not name the worker. The row does, until its lease is settled.
    for span in found {
        assert_eq!(attributes(span)["messaging.client.id"], "worker");
    }
    assert_eq!(shown, fourth.trace_parent);
    assert_eq!(found[0].parent_span_id, Vec::<u8>::new());
    for pair in found.windows(2) {
        assert_eq!(pair[1].trace_id, found[0].trace_id);
        assert_eq!(pair[1].parent_span_id, Vec::<u8>::new());
        assert_eq!(links(pair[1], "previous_lease"), [&pair[0].span_id[..]]);
    }
    // The reaper ends the lease later than it expired, and its span ends when it expired.
    let expired = found[2];
    let held = expired.end_time_unix_nano - expired.start_time_unix_nano;
    assert_eq!(held, 1_000_000_000);
    assert!(attributes(expired).contains_key("lease_broker.reap.delay"));
    assert_eq!(attributes(expired)["messaging.client.id"], "worker");
    let reaper = spans.one("reap work");
    assert_eq!(links(expired, "reaper"), [&reaper.span_id[..]]);
    // The late completion is a child of the lost lease.
    let lost = spans.one("lost work");
    assert_eq!(lost.parent_span_id, expired.span_id);
    assert_eq!(lost.trace_id, expired.trace_id);
    let found = attributes(lost);
    assert_eq!(found["lease_broker.settlement.operation"], "complete");
    assert_eq!(found["error.type"], "lease_lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_span_is_the_parent_of_all_attempts() {
    let test = Test::start("sample_ratio = 0\nexport = ['traces']\n").await;
    test.broker.enqueue_traced(RECORDED).await;
    let first = test.claim("work").await;
    test.fail(&first, Duration::ZERO).await;
    let second = test.claim("work").await;
    test.complete("work", &second).await;
    let spans = test.stop();
    let (first, second) = (spans.of_lease(&first), spans.of_lease(&second));
    let producer = TraceContext::parse(RECORDED).expect("a context").span;
    for span in [first, second] {
        assert_eq!(span.trace_id, producer.trace_id.to_be_bytes());
        assert_eq!(span.parent_span_id, producer.span_id.to_be_bytes());
    }
    assert_eq!(links(second, "previous_lease"), [&first.span_id[..]]);
    assert!(links(first, "previous_lease").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_row_and_its_follow_up_are_one_trace() {
    let test = Test::start(ALL).await;
    let lease = test.lease("removing").await;
    let client = test.broker.client.for_queue("removing");
    let completion = completion(&lease.lease_id, &[("work", "next")]);
    let results = client.try_complete(vec![completion]).await;
    assert_eq!(results.expect("completed")[0].outcome(), Outcome::Applied);
    let gone = test.complete("removing", &lease).await;
    assert_eq!(gone.outcome(), Outcome::Gone);
    let next = test.claim("work").await;
    test.complete("work", &next).await;
    let spans = test.stop();
    let (first, next) = (spans.of_lease(&lease), spans.of_lease(&next));
    assert_ended(first, "completed", None, "completed");
    assert_eq!(next.trace_id, first.trace_id);
    assert_eq!(next.parent_span_id, first.span_id);
    assert!(spans.named("lost removing").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lease_of_a_recurring_item_is_a_trace() {
    let test = Test::start(ALL).await;
    let first = test.lease("again").await;
    let completed = test.complete("again", &first).await;
    assert_eq!(completed.state(), ItemState::Delayed);
    let second = test.claim("again").await;
    test.complete("again", &second).await;
    let spans = test.stop();
    let (first, second) = (spans.of_lease(&first), spans.of_lease(&second));
    assert_ended(first, "completed", None, "delayed");
    assert_ne!(first.trace_id, second.trace_id);
    assert_eq!(second.parent_span_id, Vec::<u8>::new());
    assert_eq!(links(second, "previous_lease"), [&first.span_id[..]]);
    assert!(links(first, "previous_lease").is_empty());
    assert_eq!(second.links.len(), 2, "{:?}", second.links);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_lease_and_the_next_one_are_one_trace() {
    let test = Test::start(ALL).await;
    let lease = test.lease("work").await;
    let request = CancelLeasesRequest {
        queue: "work".to_owned(),
        cancellations: vec![Cancellation {
            key: key(&lease).to_owned(),
            fencing_token: lease.fencing_token,
        }],
        ..CancelLeasesRequest::default()
    };
    let mut rpc = test.broker.client.admin.clone();
    rpc.cancel_leases(request).await.expect("cancelled");
    let lost = test
        .broker
        .client
        .try_heartbeat(&[&lease.lease_id], None)
        .await;
    assert_eq!(lost.expect("an answer")[0].outcome(), Outcome::LeaseLost);
    let next = test.claim("work").await;
    test.complete("work", &next).await;
    let spans = test.stop();
    let span = spans.of_lease(&lease);
    assert_ended(span, "cancelled", Some("cancelled"), "ready");
    assert_eq!(attributes(span)["messaging.client.id"], "worker");
    let call = spans.one("leasebroker.v1.AdminService/CancelLeases");
    assert_eq!(links(span, "settled_by"), [&call.span_id[..]]);
    let next = spans.of_lease(&next);
    assert_eq!(next.trace_id, span.trace_id);
    assert_eq!(links(next, "previous_lease"), [&span.span_id[..]]);
    let lost = spans.one("lost work");
    let operation = &attributes(lost)["lease_broker.settlement.operation"];
    assert_eq!(operation, "heartbeat");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_that_an_operation_cancels_and_the_next_one_are_one_trace() {
    let test = Test::start(ALL).await;
    let lease = test.lease("work").await;
    let request = StartOperationRequest {
        queue: "work".to_owned(),
        action: Some(Action::CancelLeases(CancelHeld::default())),
        request_id: "0c1f2d6e-0b7c-4a57-9a3d-5f1e2b3c4d5e".to_owned(),
        reason: "by a test".to_owned(),
        ..StartOperationRequest::default()
    };
    let mut rpc = test.broker.client.admin.clone();
    rpc.start_operation(request).await.expect("started");
    let next = test.claim("work").await;
    test.complete("work", &next).await;
    let spans = test.stop();
    let span = spans.of_lease(&lease);
    assert_ended(span, "cancelled", Some("cancelled"), "ready");
    let next = spans.of_lease(&next);
    assert_eq!(next.trace_id, span.trace_id);
    assert_eq!(links(next, "previous_lease"), [&span.span_id[..]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeat_is_a_span_below_its_lease() {
    let test = Test::start(ALL).await;
    let lease = test.lease("work").await;
    let id = [lease.lease_id.as_str()];
    let extended = test.broker.client.try_heartbeat(&id, None).await;
    extended.expect("extended");
    test.complete("work", &lease).await;
    let spans = test.stop();
    // The statement has the same name, and another kind.
    let mut named = spans.named("heartbeat work");
    named.retain(|span| span.kind() == SpanKind::Internal);
    let [heartbeat] = named[..] else {
        panic!("{named:?}");
    };
    assert_eq!(heartbeat.parent_span_id, spans.of_lease(&lease).span_id);
    assert_eq!(attributes(heartbeat)["lease_broker.lease.time_left"], "60");
    assert_eq!(heartbeat.start_time_unix_nano, heartbeat.end_time_unix_nano);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_withdrawn_claim_are_released() {
    let test = Test::start(ALL).await;
    let client = &test.broker.client;
    client.enqueue(&["x"]).await;
    let mut request = client.claim_request(1);
    request.request_id = uuid::Uuid::new_v4().to_string();
    let ids = [request.request_id.clone()];
    let lease = client.try_claim(request).await.expect("claimed").remove(0);
    let released = client.try_release_requests(&ids).await;
    assert_eq!(released.expect("released"), 1);
    let spans = test.stop();
    assert_ended(spans.of_lease(&lease), "released", None, "ready");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_ends_of_unsampled_leases_are_kept_up_to_a_rate() {
    let settings = "sample_ratio = 0\nexport = ['traces']\nkeep_per_second = 1\n";
    let test = Test::start(settings).await;
    for _ in 0..30 {
        let client = &test.broker.client;
        client.try_enqueue(vec![item("x")]).await.expect("added");
        let lease = client.claim_one().await;
        assert!(lease.trace_parent.ends_with("-00"));
        test.fail(&lease, Duration::from_secs(3_600)).await;
    }
    let completed = test.lease("work").await;
    test.complete("work", &completed).await;
    let not_kept = test.broker.spans("not_kept");
    let spans = test.stop();
    let kept = spans.named("lease work");
    // Ten at once, and one for each second since then.
    assert!((10..30).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.len() as u64 + not_kept, 30);
    for span in &kept {
        assert_ended(span, "failed", Some("failed"), "delayed");
        let found = attributes(span);
        assert_eq!(found["lease_broker.sampling"], "kept");
        assert!(!found.contains_key("lease_broker.item.error"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_can_be_left_out() {
    let test = Test::start(&format!("{ALL}item_keys = false\n")).await;
    let lease = test.lease("work").await;
    test.complete("work", &lease).await;
    let spans = test.stop();
    let found = attributes(spans.of_lease(&lease));
    assert!(!found.contains_key("messaging.message.id"));
}
