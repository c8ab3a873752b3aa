//! Spans of calls and metrics arrive at a collector.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::support::client::lease_ids;
use crate::support::http::get;
use crate::support::timeout::wait_until_blocking;
use crate::telemetry::collector::{Collector, Protocol, Received, attributes_of};
use crate::telemetry::fixture::{Fixture, NOT_RECORDED, RECORDED};

const ENQUEUE: &str = "leasebroker.v1.LeaseService/Enqueue";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_of_a_recorded_trace_becomes_a_span() {
    for protocol in Protocol::ALL {
        let collector = Collector::start(protocol).await;
        let mut broker = Fixture::exporting(&collector, protocol, "sample_ratio = 0");
        broker.enqueue_traced(RECORDED).await;
        let received = collector
            .wait_for(|received| received.spans.len() == 2)
            .await;
        let of_call = |span: &&Span| span.name == ENQUEUE;
        let span = received.spans.iter().find(of_call).expect("a span");
        assert_eq!(span.kind(), SpanKind::Server);
        assert_eq!(
            span.trace_id,
            0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes()
        );
        assert_eq!(span.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
        assert_ne!(span.span_id, span.parent_span_id);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        let attributes = attributes_of(&span.attributes);
        assert_eq!(attributes["rpc.response.status_code"], "OK");
        assert_eq!(attributes["rpc.method"], ENQUEUE);
        assert_eq!(received.resource["service.name"], "lease-broker");
        assert_eq!(
            received.resource["service.version"],
            env!("CARGO_PKG_VERSION")
        );
        let statement = received.spans.iter().find(|span| !of_call(span));
        let statement = statement.expect("the span of the statement");
        assert_eq!(statement.name, "enqueue work");
        assert_eq!(statement.kind(), SpanKind::Client);
        assert_eq!(statement.parent_span_id, span.span_id);
        assert_eq!(statement.trace_id, span.trace_id);
        let attributes = attributes_of(&statement.attributes);
        for (name, value) in [
            ("db.system.name", "sqlite"),
            ("db.operation.name", "enqueue"),
            ("db.operation.batch.size", "1"),
            ("lease_broker.statement.calls", "1"),
            ("db.collection.name", "work"),
            ("db.namespace", "q.db"),
        ] {
            assert_eq!(attributes[name], value, "{name}");
        }
        assert_eq!(broker.stop()["exported"], 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collector_on_this_host_is_reached_without_a_proxy() {
    for protocol in Protocol::ALL {
        let collector = Collector::start(protocol).await;
        let proxy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        proxy.set_nonblocking(true).expect("an option");
        let url = format!("http://{}", proxy.local_addr().expect("an address"));
        let mut broker = Fixture::exporting_beside_a_proxy(&collector, protocol, &url);
        broker.enqueue_traced(RECORDED).await;
        collector
            .wait_for(|received| received.spans.len() == 2)
            .await;
        assert_eq!(broker.stop()["exported"], 2);
        assert!(proxy.accept().is_err(), "{protocol:?} uses the proxy");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_that_does_not_record_gets_no_spans() {
    let collector = Collector::start(Protocol::Grpc).await;
    let mut broker = Fixture::exporting(&collector, Protocol::Grpc, "sample_ratio = 1");
    broker.enqueue_traced(NOT_RECORDED).await;
    assert_eq!(broker.stop()["emitted"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn untrusted_callers_do_not_decide() {
    let collector = Collector::start(Protocol::Grpc).await;
    let settings = "sample_ratio = 1\ntrust_parents = false";
    let mut broker = Fixture::exporting(&collector, Protocol::Grpc, settings);
    broker.enqueue_traced(NOT_RECORDED).await;
    // The call and its statement.
    assert_eq!(broker.stop()["exported"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_without_leases_is_not_recorded() {
    let collector = Collector::start(Protocol::Grpc).await;
    let mut broker = Fixture::exporting(&collector, Protocol::Grpc, "");
    assert_eq!(broker.claim_traced(RECORDED).await, 0);
    broker.enqueue_traced(RECORDED).await;
    assert_eq!(broker.claim_traced(RECORDED).await, 1);
    broker.stop();
    let spans = collector.received().spans;
    let names = spans.iter().map(|span| span.name.as_str());
    let of_calls: Vec<&str> = names.filter(|name| name.contains('/')).collect();
    let claim = "leasebroker.v1.LeaseService/ClaimBatch";
    assert_eq!(of_calls, [ENQUEUE, claim]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_call_has_its_status_but_is_no_error_of_the_broker() {
    let collector = Collector::start(Protocol::Grpc).await;
    let mut broker = Fixture::exporting(&collector, Protocol::Grpc, "sample_ratio = 1");
    let unknown = broker.client.for_queue("nowhere");
    let refused = unknown.try_claim(unknown.claim_request(1)).await;
    refused.expect_err("the queue is unknown");
    broker.stop();
    let span = &collector.received().spans[0];
    let attributes = attributes_of(&span.attributes);
    assert_eq!(attributes["rpc.response.status_code"], "NOT_FOUND");
    assert_eq!(span.status.as_ref().map_or(0, |status| status.code), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_learns_whether_its_lease_is_recorded() {
    let collector = Collector::start(Protocol::Grpc).await;
    for (ratio, flags) in [("0", "-00"), ("1", "-01")] {
        let settings = format!("sample_ratio = {ratio}");
        let broker = Fixture::exporting(&collector, Protocol::Grpc, &settings);
        broker.client.enqueue(&["x"]).await;
        let lease = broker.client.claim_one().await;
        assert!(
            lease.trace_parent.ends_with(flags),
            "{}",
            lease.trace_parent
        );
        broker.client.complete(&lease_ids(&[lease])).await;
        for trace in [RECORDED, NOT_RECORDED] {
            broker.enqueue_traced(trace).await;
            let lease = broker.client.claim_one().await;
            assert_eq!(lease.trace_parent[..35], trace[..35]);
            assert_eq!(lease.trace_parent[52..], trace[52..]);
            broker.client.complete(&lease_ids(&[lease])).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_sent_at_their_interval_and_at_the_end() {
    for protocol in Protocol::ALL {
        let collector = Collector::start(protocol).await;
        let settings = "metrics_interval = '100ms'";
        let mut broker = Fixture::exporting(&collector, protocol, settings);
        let uptime = |name: &str| name == "process.uptime";
        collector
            .wait_for(|received| received.metrics.iter().any(|name| uptime(name)))
            .await;
        broker.stop();

        let collector = Collector::start(protocol).await;
        let mut broker = Fixture::exporting(&collector, protocol, "metrics_interval = '1h'");
        broker.client.enqueue(&["x"]).await;
        broker.stop();
        let metrics = collector.received().metrics;
        assert!(
            metrics.contains("lease_broker.item.enqueued"),
            "{metrics:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_of_opentelemetry_take_effect_and_are_logged() {
    let collector = Collector::start(Protocol::Http).await;
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=from-the-environment"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
        ("OTEL_SERVICE_NAME", "rain"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=snow,deployment.environment.name=a%20test",
        ),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_on"),
        ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
    ];
    let mut broker = Fixture::start("", &environment);
    broker.enqueue_traced(NOT_RECORDED).await;
    broker.stop();
    let received = collector.received();
    assert_eq!(received.spans.len(), 2, "the call and its statement");
    assert_eq!(received.headers["x-key"], "from-the-environment");
    assert_eq!(received.resource["service.name"], "rain");
    assert_eq!(received.resource["deployment.environment.name"], "a test");
    assert!(received.metrics.is_empty(), "{:?}", received.metrics);
    let lines = broker.log_lines();
    let used = lines.iter().find_map(|line| line["names"].as_str());
    let used = used.expect("the names of the variables");
    for (name, _) in &environment[..8] {
        assert!(used.split(' ').any(|used| used == *name), "{name}: {used}");
    }
    let ignored = lines.iter().find(|line| line["variable"].is_string());
    let ignored = ignored.expect("a warning");
    assert_eq!(ignored["variable"], "OTEL_BSP_SCHEDULE_DELAY");
    assert!(!broker.process.log().contains("from-the-environment"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_come_from_their_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("headers");
    std::fs::write(&file, "x-key=from-the-file\n").expect("a file");
    for protocol in Protocol::ALL {
        let collector = Collector::start(protocol).await;
        let settings = format!("sample_ratio = 1\nheaders_file = '{}'", file.display());
        let mut broker = Fixture::exporting(&collector, protocol, &settings);
        broker.client.enqueue(&["x"]).await;
        broker.stop();
        assert_eq!(collector.received().headers["x-key"], "from-the-file");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gauge_that_the_collector_saw_is_absent_at_a_later_scrape() {
    let collector = Collector::start(Protocol::Grpc).await;
    let settings = "metrics_interval = '100ms'\nstats_interval = '100ms'";
    let broker = Fixture::exporting(&collector, Protocol::Grpc, settings);
    broker.client.enqueue(&["x"]).await;
    let leases = broker.client.claim(1).await;
    let is_shown = |received: &Received| received.metrics.contains("lease_broker.oldest_lease.age");
    collector.wait_for(is_shown).await;
    broker.client.complete(&[&leases[0].lease_id]).await;
    let count =
        || get(broker.admin, "/debug/queues").json()[0]["statistics"]["items"]["leased"].clone();
    wait_until_blocking("the statistics have no lease", || count() == 0);
    let metrics = get(broker.admin, "/metrics").body;
    assert!(
        metrics.contains("lease_broker_stats_age_seconds{"),
        "{metrics}"
    );
    assert_eq!(
        metrics
            .matches("lease_broker_oldest_lease_age_seconds{")
            .count(),
        0
    );
    assert_eq!(metrics.matches("\ntarget_info{").count(), 1);
}

/// Returns the names of one kind in the copy of the conventions.
fn conventions(kind: &str) -> BTreeSet<&'static str> {
    let lines = include_str!("semantic_conventions.txt").lines();
    let names = lines.filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    names.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_those_of_the_conventions_or_our_own() {
    let collector = Collector::start(Protocol::Grpc).await;
    let settings = "sample_ratio = 1\nmetrics_interval = '1h'\nerror_messages = true";
    let mut broker = Fixture::exporting(&collector, Protocol::Grpc, settings);
    broker.client.enqueue(&["x", "y"]).await;
    let leases = broker.client.claim(2).await;
    broker.client.complete(&[&leases[0].lease_id]).await;
    broker.client.complete(&["nonsense"]).await;
    broker.client.fail(&leases[1].lease_id, "no luck").await;
    broker.client.complete(&[&leases[1].lease_id]).await;
    let unknown = broker.client.for_queue("nowhere");
    let refused = unknown.try_claim(unknown.claim_request(1)).await;
    refused.expect_err("the queue is unknown");
    broker.stop();
    let received = collector.received();
    let (attributes, metrics) = (conventions("attribute"), conventions("metric"));
    let is_known = |name: &str, known: &BTreeSet<&str>| {
        known.contains(name) || name.starts_with("lease_broker.")
    };
    for name in &received.metrics {
        assert!(is_known(name, &metrics), "the metric {name}");
    }
    for name in &received.metric_attributes {
        assert!(is_known(name, &attributes), "{name} of a metric");
    }
    for span in &received.spans {
        let links = span.links.iter().flat_map(|link| &link.attributes);
        for attribute in span.attributes.iter().chain(links) {
            let name = &attribute.key;
            assert!(is_known(name, &attributes), "{name} of {}", span.name);
        }
    }
    for name in received.resource.keys().map(String::as_str) {
        let is_sdk = conventions("resource").contains(name);
        assert!(is_sdk || attributes.contains(name), "{name} of the process");
    }
    let version = include_str!("semantic_conventions.txt").lines().next();
    let urls: Vec<&str> = received.schema_urls.iter().map(String::as_str).collect();
    assert_eq!(urls, [version.expect("a version")]);
    for name in ["lease_broker.queue.name", "lease_broker.lease.outcome"] {
        assert!(received.metric_attributes.contains(name), "{name}");
    }
}
