//! Spans of leases that pass through two brokers on one database.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lease_broker_proto::{Lease, Outcome};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::support::client::{Client, completion, lease_ids};
use crate::telemetry::collector::{Collector, Protocol, attributes_of};
use crate::telemetry::fixture::{Fixture, RECORDED};

const SETTINGS: &str =
    "sample_ratio = 1\nexport = ['traces']\nqueue_size = 200000\nmax_spans_per_second = 1000000\n";
const QUEUE: &str = "
[queues.next]
managed_columns = { payload = 'text' }
";

/// Claims items as soon as one is ready.
async fn claim(client: &Client, max_items: i32) -> Vec<Lease> {
    let request = client.waiting_claim_request(max_items, Duration::from_secs(60));
    client.try_claim(request).await.expect("claimed")
}

/// Draws the spans of a trace below a parent, each with its outcome. Spans of calls and statements are left out.
fn draw(spans: &[&Span], parent: &[u8], depth: usize, lines: &mut Vec<String>) {
    let children = spans.iter().filter(|span| span.parent_span_id == parent);
    let mut children: Vec<&&Span> = children.collect();
    children.sort_by_key(|span| span.start_time_unix_nano);
    for span in children {
        let attributes = attributes_of(&span.attributes);
        let outcome = attributes.get("lease_broker.lease.outcome");
        let indent = "  ".repeat(depth);
        let outcome = outcome.map(|outcome| format!(", {outcome}"));
        lines.push(format!(
            "{indent}{}{}",
            span.name,
            outcome.unwrap_or_default()
        ));
        draw(spans, &span.span_id, depth + 1, lines);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_brokers_leases_are_in_the_items_trace() {
    let collector = Collector::start(Protocol::Grpc).await;
    let settings = format!("{SETTINGS}{QUEUE}");
    let mut first = Fixture::exporting(&collector, Protocol::Grpc, &settings);
    let mut second = first.second();
    first.enqueue_traced(RECORDED).await;
    let lease = claim(&first.client, 1).await.remove(0);
    let other = &second.client;
    first.process.kill();
    let short = Some(Duration::from_secs(1));
    let extended = other.try_heartbeat(&[&lease.lease_id], short).await;
    assert_eq!(extended.expect("extended")[0].outcome(), Outcome::Applied);
    // The lease expires, and the second broker ends it.
    let again = claim(other, 1).await.remove(0);
    assert_eq!(again.fencing_token, 2);
    let done = completion(&again.lease_id, &[("next", "follow-up")]);
    other.try_complete(vec![done]).await.expect("completed");
    let next = other.for_queue("next");
    let follow_up = claim(&next, 1).await;
    next.complete(&lease_ids(&follow_up)).await;
    second.stop();
    let received = collector.received();
    let producer =
        lease_broker_model::trace_context::TraceContext::parse(RECORDED).expect("a context");
    let trace_id = producer.span.trace_id.to_be_bytes();
    let of_leases = received.spans.iter().filter(|span| {
        let kinds = [SpanKind::Consumer, SpanKind::Internal];
        span.trace_id == trace_id && kinds.contains(&span.kind())
    });
    let of_leases: Vec<&Span> = of_leases.collect();
    let mut lines = Vec::new();
    draw(
        &of_leases,
        &producer.span.span_id.to_be_bytes(),
        0,
        &mut lines,
    );
    let expected = [
        "lease work, expired",
        "  heartbeat work",
        "lease work, completed",
        "  lease next, completed",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_broker_loses_only_spans_of_leases_that_it_ended() {
    let collector = Collector::start(Protocol::Grpc).await;
    let settings = format!("{SETTINGS}{QUEUE}");
    let mut first = Fixture::exporting(&collector, Protocol::Grpc, &settings);
    let mut second = first.second();
    first.client.enqueue(&["x"; 20]).await;
    let leases = first.client.claim(20).await;
    let ids = lease_ids(&leases);
    let (by_first, by_second) = ids.split_at(10);
    first.client.complete(by_first).await;
    first.process.kill();
    second.client.complete(by_second).await;
    // The leases have ended. What is sent again makes no span.
    let again = second.client.complete(by_first).await;
    assert!(
        again
            .iter()
            .all(|result| result.outcome() == Outcome::Applied)
    );
    second.stop();
    let received = collector.received();
    let spans = received
        .spans
        .iter()
        .filter(|span| span.name == "lease work");
    let found: Vec<String> = spans
        .map(|span| lease_broker_model::key::hex(&span.span_id))
        .collect();
    let has_span = |lease: &&Lease| found.iter().any(|id| *id == lease.trace_parent[36..52]);
    assert!(leases[10..].iter().all(|lease| has_span(&lease)));
    let of_first = leases[..10].iter().filter(has_span).count();
    assert_eq!(found.len(), 10 + of_first, "no lease has two spans");
}

/// The number of leases, and of items of one call.
const LEASES: usize = 10_000;
const GROUP: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_10_000_leases_has_one_span() {
    let collector = Collector::start(Protocol::Http).await;
    let mut first = Fixture::exporting(&collector, Protocol::Http, SETTINGS);
    let mut second = first.second();
    let mut ended = BTreeMap::from([
        ("completed", 0),
        ("failed", 0),
        ("released", 0),
        ("expired", 0),
    ]);
    let mut leases = BTreeSet::new();
    for round in 0..LEASES / GROUP {
        // Each broker gives half of the leases, and the other one ends them.
        let (one, other) = match round % 2 {
            0 => (&first.client, &second.client),
            _ => (&second.client, &first.client),
        };
        one.enqueue(&vec!["x"; GROUP]).await;
        let mut request = one.claim_request(GROUP.try_into().expect("a small number"));
        // In every tenth round the leases expire.
        let expires = round % 10 == 9;
        let seconds = if expires { 1 } else { 600 };
        request.lease_duration = Some(prost_types::Duration { seconds, nanos: 0 });
        let claimed = one.try_claim(request).await.expect("claimed");
        leases.extend(claimed.iter().map(|lease| lease.trace_parent.clone()));
        let ids = lease_ids(&claimed);
        if expires {
            *ended.get_mut("expired").expect("counted") += ids.len();
            // Its items are suspects now: a worker gets the next one when it holds no lease.
            for _ in &ids {
                let again = claim(other, 1).await;
                leases.extend(again.iter().map(|lease| lease.trace_parent.clone()));
                other.complete(&lease_ids(&again)).await;
            }
            *ended.get_mut("completed").expect("counted") += ids.len();
            continue;
        }
        let (done, rest) = ids.split_at(ids.len() / 2);
        let (failed, released) = rest.split_at(rest.len() / 2);
        // Every settlement is sent twice, to both brokers.
        for client in [other, one] {
            client.complete(done).await;
            let failures = failed.iter().map(|id| lease_broker_proto::Failure {
                dead_letter: true,
                ..crate::support::client::failure(id, "no luck")
            });
            client.try_fail(failures.collect()).await.expect("failed");
            let hour = Some(Duration::from_secs(3_600));
            client.try_release(released, hour).await.expect("released");
        }
        for (outcome, ids) in [
            ("completed", done),
            ("failed", failed),
            ("released", released),
        ] {
            *ended.get_mut(outcome).expect("counted") += ids.len();
        }
    }
    for broker in [&mut first, &mut second] {
        let numbers = broker.stop();
        assert_eq!(numbers["dropped"] + numbers["failed"], 0, "{numbers:?}");
    }
    let received = collector.received();
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    let is_lease = |span: &&Span| span.name == "lease work";
    for span in received.spans.iter().filter(is_lease) {
        let attributes = attributes_of(&span.attributes);
        let outcome = &attributes["lease_broker.lease.outcome"];
        let known = ended.keys().find(|known| **known == outcome);
        *found.entry(known.expect("an outcome")).or_default() += 1;
        let hex = |bytes: &[u8]| lease_broker_model::key::hex(bytes);
        let id = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
        assert!(ids.insert(id), "a lease has two spans");
    }
    assert_eq!(found, ended);
    assert_eq!(ids, leases);
}
