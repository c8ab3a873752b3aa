//! Clients in Go, Java and Node: each compiles against the .proto file and makes every call once.

use std::process::{Command, Stdio};

use crate::support::database::query_value;
use crate::support::server::Server;
use crate::support::skipped::skipped;

const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text', note = 'text' }
writable = ['note']
";

/// Builds and runs a client. It adds three items with a NULL column, ends their leases in three ways, and
/// writes a result into the completed one.
async fn client_makes_every_call(language: &str) {
    if std::env::var_os("LEASE_BROKER_TEST_CLIENTS").is_none() {
        skipped(&format!(
            "the client in {language}: LEASE_BROKER_TEST_CLIENTS is not set"
        ));
        return;
    }
    let server = Server::with_config(QUEUES).await;
    let mut client = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/client"));
    client.args([language, "calls", &server.address.to_string()]);
    let output = client.stdin(Stdio::null()).output();
    let output = output.expect("the script starts");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if output.status.code() == Some(77) {
        skipped(text.trim());
        return;
    }
    assert!(output.status.success(), "{text}");
    let rows = "SELECT group_concat(payload || lease_state || coalesce(note, ''), ' ') FROM (SELECT * FROM work ORDER BY id)";
    let rows: String = query_value(&server.database(), rows);
    assert_eq!(rows, "complete3written fail4 release0", "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn go_client_makes_every_call() {
    client_makes_every_call("go").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_client_makes_every_call() {
    client_makes_every_call("java").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_client_makes_every_call() {
    client_makes_every_call("node").await;
}
