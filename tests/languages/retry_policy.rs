//! The retry policy of a gRPC client obeys the trailer `grpc-retry-pushback-ms`.

use std::process::Command;

use crate::support::server::Server;
use crate::support::skipped::skipped;
use crate::support::tools::{generate_python_client, python_with_grpc, run};

/// Makes two calls under a policy of three tries, 10 minutes apart. Prints the status of each and the seconds that it took.
const CALLS: &str = r#"
import json, sys, time
import grpc
from leasebroker.v1 import lease_broker_pb2 as pb, lease_broker_pb2_grpc as rpc

retry_policy = {"maxAttempts": 3, "initialBackoff": "600s", "maxBackoff": "600s", "backoffMultiplier": 1,
                "retryableStatusCodes": ["UNAVAILABLE", "NOT_FOUND"]}
method = {"name": [{"service": "leasebroker.v1.LeaseService"}], "retryPolicy": retry_policy}
options = [("grpc.service_config", json.dumps({"methodConfig": [method]}))]
with grpc.insecure_channel(sys.argv[1], options) as channel:
    stub = rpc.LeaseServiceStub(channel)
    newer_lease_id = "B" + 43 * "A"
    for queue in ["work", "nowhere"]:
        start = time.monotonic()
        try:
            stub.Heartbeat(pb.HeartbeatRequest(queue=queue, renewals=[pb.Renewal(lease_id=newer_lease_id)]))
        except grpc.RpcError as error:
            print(error.code().name, time.monotonic() - start)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn retry_policy_obeys_the_pushback() {
    let Some(python) = python_with_grpc() else {
        skipped("no Python with grpcio and grpcio-tools; name one in LEASE_BROKER_TEST_PYTHON");
        return;
    };
    let first = Server::start().await;
    let server = first.another_beside_newer_version().await;
    let folder = tempfile::tempdir().expect("a temporary folder is created");
    generate_python_client(&python, folder.path());
    let mut calls = Command::new(python);
    calls.args(["-c", CALLS, &server.address.to_string()]);
    let output = run(calls.current_dir(folder.path()));
    let calls: Vec<(&str, f64)> = output
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(code, seconds)| (code, seconds.parse().expect("a number")))
        .collect();
    let [("UNAVAILABLE", retried), ("NOT_FOUND", not_retried)] = calls[..] else {
        panic!("{output}");
    };
    // Two waits of 500 ms instead of two waits of about 10 minutes.
    assert!((0.99..300.0).contains(&retried), "{output}");
    // No wait of about 10 minutes.
    assert!(not_retried < 300.0, "{output}");
}
