//! The trace queries in `docs/observability.md`, run on the spans that a collector has received.
//!
//! This is no `TraceQL` engine. It knows the two forms that the page has: conditions on one span, and a count for each value of
//! an attribute.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::client::{self, failure};
use crate::telemetry::collector::{Collector, Protocol, attributes_of};
use crate::telemetry::fixture::Fixture;

const PAGE: &str = include_str!("../../docs/observability.md");
const SETTINGS: &str = "
sample_ratio = 1
export = ['traces']
[queues.rainfall]
managed_columns = { payload = 'text' }
";

/// Returns the query below this question.
fn query(question: &str) -> &'static str {
    let block = PAGE.split("```traceql\n").nth(1).expect("a block");
    let mut lines = block.lines().take_while(|line| *line != "```");
    let comment = lines.find(|line| line.contains(question));
    comment.unwrap_or_else(|| panic!("{question:?} is not on the page"));
    lines.next().expect("a query")
}

/// Returns the value of a field: the span's name, or one of its attributes.
fn value(span: &Span, field: &str) -> Option<String> {
    match field.strip_prefix("span.") {
        Some(attribute) => attributes_of(&span.attributes).remove(attribute),
        None => (field == "name").then(|| span.name.clone()),
    }
}

/// Returns the spans for which all conditions between the braces hold.
fn select<'a>(spans: &'a [Span], query: &str) -> Vec<&'a Span> {
    let (conditions, _) = query.split_once('}').expect("a brace");
    let conditions = conditions.trim_start_matches('{').split("&&");
    let conditions: Vec<_> = conditions
        .map(|condition| condition.split_once('=').expect("an equation"))
        .map(|(field, text)| (field.trim(), text.trim().trim_matches('"')))
        .collect();
    let matches = |span: &&Span| {
        let mut conditions = conditions.iter();
        conditions.all(|(field, text)| value(span, field).as_deref() == Some(*text))
    };
    spans.iter().filter(matches).collect()
}

/// Returns the values of the attribute in `by(…)` that more than `count() > N` of the spans have.
fn frequent(spans: &[&Span], query: &str) -> Vec<String> {
    let (_, rest) = query.split_once("by(").expect("a group");
    let (field, rest) = rest.split_once(')').expect("a bracket");
    let (_, least) = rest.split_once("count() >").expect("a count");
    let least: usize = least.trim().parse().expect("a number");
    let mut counts = BTreeMap::new();
    for span in spans {
        *counts.entry(value(span, field)).or_insert(0) += 1;
    }
    counts.retain(|_, count| *count > least);
    counts.into_keys().flatten().collect()
}

async fn wait_for_outcome(collector: &Collector, outcome: &str, count: usize) -> Vec<Span> {
    let query = format!("{{ span.lease_broker.lease.outcome = \"{outcome}\" }}");
    let has_all = |received: &crate::telemetry::collector::Received| {
        select(&received.spans, &query).len() == count
    };
    collector.wait_for(has_all).await.spans
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_queries_on_the_page_find_their_leases() {
    let collector = Collector::start(Protocol::Grpc).await;
    let broker = Fixture::exporting(&collector, Protocol::Grpc, SETTINGS);
    let rainfall = broker.client.for_queue("rainfall");

    // One item is leased twice and dies. A worker loses five leases, another one loses one.
    let [key] = &rainfall.enqueue(&["x"]).await[..] else {
        panic!("one key")
    };
    for dead_letter in [false, true] {
        let request = rainfall.waiting_claim_request(1, Duration::from_secs(20));
        let lease = rainfall
            .try_claim(request)
            .await
            .expect("claimed")
            .remove(0);
        let failure = lease_broker_proto::Failure {
            dead_letter,
            retry_delay: Some(client::duration(Duration::from_millis(1))),
            ..failure(&lease.lease_id, "no luck")
        };
        rainfall.try_fail(vec![failure]).await.expect("failed");
    }
    // A worker fails four leases.
    rainfall.enqueue(&["z"; 4]).await;
    let breaks = rainfall.as_worker("breaks");
    for lease in breaks.claim(4).await {
        let failure = lease_broker_proto::Failure {
            retry_delay: Some(client::duration(Duration::from_secs(3_600))),
            ..failure(&lease.lease_id, "no luck")
        };
        breaks.try_fail(vec![failure]).await.expect("failed");
    }
    rainfall.enqueue(&["y"; 6]).await;
    for (worker, count) in [("loses", 5), ("works", 1)] {
        let worker = rainfall.as_worker(worker);
        let mut request = worker.claim_request(count);
        request.lease_duration = Some(client::duration(Duration::from_secs(1)));
        let leases = worker.try_claim(request).await.expect("claimed");
        assert_eq!(leases.len(), usize::try_from(count).expect("a number"));
    }
    wait_for_outcome(&collector, "failed", 6).await;
    let spans = wait_for_outcome(&collector, "expired", 6).await;

    let attempts = query("What happened to this row before?").replace("4711", key);
    let attempts = select(&spans, &attempts);
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0].trace_id, attempts[1].trace_id);

    let losers = query("Which worker loses its leases?");
    assert_eq!(frequent(&select(&spans, losers), losers), ["loses"]);

    let failing = query("Which worker fails?");
    assert_eq!(frequent(&select(&spans, failing), failing), ["breaks"]);

    let dead = select(&spans, query("Why do items die?"));
    assert_eq!(dead.len(), 1);
    let text = value(dead[0], "span.messaging.message.id");
    assert_eq!(text.as_ref(), Some(key));
}
