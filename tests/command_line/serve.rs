//! Tests of `serve`: its announcement, its log, its settings, and how it stops.

use std::time::Duration;

use crate::support::client::Client;
use crate::support::process::BrokerProcess;
use crate::support::timeout::{wait_until_blocking, with_timeout};
use crate::workspace::{QUEUES, Workspace};

#[test]
fn announced_commands_work() {
    let mut workspace = Workspace::serving();
    let process = workspace.process.as_mut().expect("a service");
    assert!(
        process.announcement.contains(env!("CARGO_PKG_VERSION")),
        "{}",
        process.announcement
    );
    assert!(
        process.announcement.contains("work"),
        "{}",
        process.announcement
    );
    let lines = [process.next_line(), process.next_line()];
    let commands = lines.map(|line| {
        let (_, command) = line.split_once("lease-broker ").expect("a command");
        command.trim().to_owned()
    });
    for command in commands {
        let tried = workspace.run(&command);
        assert_eq!(tried.code, 0, "{command}: {tried:?}");
    }
}

fn assert_drains_on(signal: &str) {
    let mut workspace = Workspace::serving();
    workspace.lease();
    let process = workspace.process.as_mut().expect("a service");
    process.signal(signal);
    let status = process.wait();
    assert_eq!(status.code(), Some(0), "{}", process.log());
    assert!(process.log().contains("draining"), "{}", process.log());
}

#[test]
fn sigterm_drains_and_exits_0() {
    assert_drains_on("TERM");
}

#[test]
fn sigint_drains_and_exits_0() {
    assert_drains_on("INT");
}

#[test]
fn log_ends_with_operation_counts() {
    let mut workspace = Workspace::serving();
    let id = workspace.lease();
    workspace.call(&format!("complete work {id}"));
    let process = workspace.process.as_mut().expect("a service");
    process.signal("TERM");
    process.wait();
    let log = process.log();
    let event = log.lines().find(|line| line.contains("operation_counts"));
    let event = event.unwrap_or_else(|| panic!("no such line in {log}"));
    for counts in ["claim", "settle", "enqueue"] {
        for count in ["calls=1", "statements=1", "items=1"] {
            let count = format!("{counts}_{count}");
            assert!(event.contains(&count), "{count}: {event}");
        }
    }
    assert!(event.contains("heartbeat_calls=0"), "{event}");
}

#[tokio::test]
async fn sigterm_answers_waiting_claims() {
    let mut workspace = Workspace::serving();
    let process = workspace.process.as_mut().expect("a service");
    let client = Client::new(process.channel(), "work");
    let waiting = tokio::spawn({
        let (client, request) = (
            client.clone(),
            client.waiting_claim_request(1, Duration::from_secs(60)),
        );
        async move { client.try_claim(request).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(client.claim(1).await, []);
    process.signal("TERM");
    let leases = with_timeout(waiting).await.expect("a task");
    assert_eq!(leases.expect("an empty answer"), []);
    assert_eq!(process.wait().code(), Some(0), "{}", process.log());
}

#[test]
fn second_signal_ends_the_drain() {
    let workspace = Workspace::with(&format!("[server]\ndrain_delay = '60s'\n{QUEUES}"));
    let mut process = BrokerProcess::serve(&workspace.path("q.db"), &workspace.path("queues.toml"));
    process.signal("TERM");
    wait_until_blocking("it drains", || process.log().contains("draining"));
    assert!(process.is_running());
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(1), "{}", process.log());
}

#[test]
fn lease_survives_a_restart() {
    let mut workspace = Workspace::serving();
    let id = workspace.lease();
    workspace
        .process
        .as_mut()
        .expect("a service")
        .signal("TERM");
    workspace.process.as_mut().expect("a service").wait();
    workspace.serve();
    let done = workspace.call(&format!("complete work {id}")).json();
    assert_eq!(done[0]["outcome"], "applied");
}

#[test]
fn flags_override_environment_settings() {
    let workspace = Workspace::with(QUEUES);
    let output = crate::support::process::program()
        .args(["serve", "--listen", "nonsense"])
        .env("LEASE_BROKER_CONFIG", workspace.path("queues.toml"))
        .env("LEASE_BROKER_SERVER__LISTEN", "127.0.0.1:0")
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{stderr}");
    assert!(stderr.contains("flag --listen"), "{stderr}");
    let output = crate::support::process::program()
        .arg("stats")
        .env("LEASE_BROKER_LIMITS__MAX_ITEMS", "many")
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("LEASE_BROKER_LIMITS__MAX_ITEMS"),
        "{stderr}"
    );
}

#[test]
fn log_format_can_be_json() {
    let workspace = Workspace::with(&format!("[log]\nformat = 'json'\n{QUEUES}"));
    let mut process = BrokerProcess::start(
        &workspace.path("q.db"),
        &workspace.path("queues.toml"),
        &["--log-level", "info"],
    );
    process.signal("TERM");
    process.wait();
    let log = process.log();
    assert!(!log.is_empty());
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(
            line["message"].is_string() && line["level"].is_string(),
            "{line}"
        );
    }
}
