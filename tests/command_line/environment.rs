//! Environment variables that no command reads: each command warns of them.

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::process::{BrokerProcess, program};

#[test]
fn unknown_variable_is_reported_with_the_nearest_name() {
    let printed = program()
        .args(["completions", "bash"])
        .env("LEASE_BROKER_LISTEN", "0.0.0.0:50051")
        .env("LEASE_BROKER_CONFIG", "elsewhere.toml")
        .env("LEASE_BROKER_ITEM_KEY", "1")
        .output()
        .expect("it runs");
    assert!(printed.status.success(), "{printed:?}");
    let text = String::from_utf8_lossy(&printed.stderr);
    let warning = "lease-broker: the environment variable LEASE_BROKER_LISTEN has no effect; did you mean \
                   LEASE_BROKER_SERVER__LISTEN?\n";
    assert_eq!(text, warning);
}

#[test]
fn serve_logs_unknown_variables() {
    let workspace = Workspace::with(QUEUES);
    let process = BrokerProcess::with_environment(
        &workspace.path("q.db"),
        &workspace.path("queues.toml"),
        &[("LEASE_BROKER_LOG_LEVEL", "debug")],
    );
    let log = process.log();
    for part in ["WARN", "LEASE_BROKER_LOG_LEVEL", "LEASE_BROKER_LOG__LEVEL"] {
        assert!(log.contains(part), "{part} is not in {log}");
    }
}
