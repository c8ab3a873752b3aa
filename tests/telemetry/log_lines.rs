//! Log lines of a call name its trace.

use crate::support::client::item;
use crate::support::database::open;
use crate::telemetry::fixture::{Fixture, RECORDED, traced};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_call_is_logged_with_its_trace() {
    let broker = Fixture::start("", &[]);
    let dropped = open(&broker.database()).execute_batch("DROP TABLE work");
    dropped.expect("the table is dropped");
    let message = lease_broker_proto::EnqueueRequest {
        queue: "work".to_owned(),
        items: vec![item("x")],
        request_id: String::new(),
    };
    let mut rpc = broker.client.rpc.clone();
    let failed = rpc.enqueue(traced(message, RECORDED)).await;
    failed.expect_err("the table is missing");
    let names_a_trace = |line: &serde_json::Value| line["trace_id"].is_string();
    let line = broker.wait_for_log_line("a line names a trace", names_a_trace);
    assert_eq!(line["trace_id"], RECORDED[3..35]);
    assert_eq!(line["span_id"], RECORDED[36..52]);
}
