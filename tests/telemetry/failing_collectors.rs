//! Collectors that fail: no call waits for them, and every span is accounted for.

use axum::Router;
use axum::response::Redirect;
use axum::routing::post;
use tokio::net::TcpListener;

use crate::support::client::item;
use crate::support::process::run;
use crate::support::timeout::wait_until_blocking;
use crate::telemetry::collector::{Behaviour, Collector, Protocol};
use crate::telemetry::fixture::Fixture;

/// Makes calls that have one span each. They are refused, so they have no statement.
async fn make_spans(broker: &Fixture, spans: usize) {
    let unknown = broker.client.for_queue("nowhere");
    for _ in 0..spans {
        let refused = unknown.try_enqueue(vec![item("x")]).await;
        refused.expect_err("the queue is unknown");
    }
}

const SETTINGS: &str = "
sample_ratio = 1
queue_size = 16
batch_size = 4
schedule_delay = '1ms'
export = ['traces']
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_span_is_counted_once_whatever_the_collector_does() {
    for protocol in Protocol::ALL {
        for behaviour in [Behaviour::Refuse, Behaviour::Silent] {
            let collector = Collector::start(protocol).await;
            let mut broker = Fixture::exporting_impatiently(&collector, protocol, SETTINGS);
            make_spans(&broker, 20).await;
            collector.behave(behaviour);
            make_spans(&broker, 100).await;
            let spans = broker.stop();
            let case = format!("{protocol:?} {behaviour:?} {spans:?}");
            assert_eq!(spans["emitted"], 120, "{case}");
            let counted = spans["exported"] + spans["failed"] + spans["dropped"];
            assert_eq!(counted, 120, "{case}");
            assert!(spans["failed"] > 0, "{case}");
            let received = collector.received().spans.len() as u64;
            assert!(spans["exported"] <= received, "{case}: {received}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_take_nothing_to_another_host() {
    let other = Collector::start(Protocol::Http).await;
    let elsewhere = format!("{}/v1/traces", other.url);
    let redirect = post(async move || Redirect::temporary(&elsewhere));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/v1/traces", redirect);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let endpoint = format!("endpoint = 'http://{address}'\nprotocol = 'http/protobuf'\n");
    let mut broker = Fixture::start(&format!("{endpoint}{SETTINGS}"), &[]);
    make_spans(&broker, 10).await;
    let spans = broker.stop();
    assert_eq!(spans["exported"], 0, "{spans:?}");
    assert!(spans["failed"] > 0, "{spans:?}");
    assert_eq!(other.received().span_messages, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_port_fails_no_call() {
    let mut broker = Fixture::start(&format!("endpoint = 'http://127.0.0.1:1'\n{SETTINGS}"), &[]);
    make_spans(&broker, 100).await;
    let spans = broker.stop();
    assert_eq!(spans["emitted"], 100);
    assert_eq!(spans["failed"] + spans["dropped"], 100, "{spans:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cause_of_a_failed_connection_is_logged_over_http() {
    let endpoint = "endpoint = 'http://127.0.0.1:1'\nprotocol = 'http/protobuf'\n";
    let broker = Fixture::start(&format!("{endpoint}{SETTINGS}"), &[]);
    make_spans(&broker, 1).await;
    let is_cause = |line: &serde_json::Value| line["message"] == "collector cannot be reached";
    let line = broker.wait_for_log_line("the cause is logged", is_cause);
    let problem = line["problem"].as_str().expect("a text");
    assert!(problem.contains("Connection refused"), "{problem}");
}

#[test]
fn start_that_fails_says_only_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let config = "admin.listen = ''\n[telemetry]\nendpoint = 'http://127.0.0.1:1'\n";
    std::fs::write(folder.path().join("queues.toml"), config).expect("a file");
    let serve = ["serve", "--config", "queues.toml", "--listen", &address];
    let refused = run(folder.path(), &serve);
    assert_eq!(refused.code, 74, "{refused:?}");
    assert!(!refused.err.contains("metrics not"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collector_that_comes_back_gets_later_spans() {
    let collector = Collector::start(Protocol::Grpc).await;
    collector.behave(Behaviour::Refuse);
    let mut broker = Fixture::exporting(&collector, Protocol::Grpc, SETTINGS);
    make_spans(&broker, 4).await;
    wait_until_blocking("spans have failed", || broker.spans("failed") > 0);
    collector.behave(Behaviour::Accept);
    make_spans(&broker, 4).await;
    collector
        .wait_for(|received| received.spans.len() >= 4)
        .await;
    broker.stop();
    let messages = broker.log_lines();
    let again = |line: &serde_json::Value| line["message"] == "spans are exported again";
    assert!(messages.iter().any(again), "{messages:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_spans_are_counted_as_a_part_of_the_exported() {
    for protocol in Protocol::ALL {
        let collector = Collector::start(protocol).await;
        collector.behave(Behaviour::Reject(3));
        let broker = Fixture::exporting(&collector, protocol, SETTINGS);
        make_spans(&broker, 1).await;
        wait_until_blocking("a span is exported", || broker.spans("exported") == 1);
        assert_eq!(broker.spans("rejected"), 3);
        let line =
            broker.wait_for_log_line("the answer is logged", |line| line["answer"].is_string());
        assert_eq!(
            (&line["answer"], &line["number"]),
            (&"no room".into(), &3.into())
        );
        assert_eq!(broker.process.log().matches("PartialSuccess").count(), 0);
    }
}
