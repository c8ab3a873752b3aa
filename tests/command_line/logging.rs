//! Tests of the log of `serve`: a stalled reader, changes of the level, folded lines, and values that never appear.

use std::net::{SocketAddr, TcpListener};
use std::time::Instant;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::client::{Client, failure};
use crate::support::http::{get, send};
use crate::support::process::BrokerProcess;
use crate::support::skipped::skipped;
use crate::support::timeout::{wait_until_blocking, with_timeout};

/// Starts a broker with its admin port on a free port.
fn serving(level: &str) -> (Workspace, BrokerProcess, SocketAddr) {
    let workspace = Workspace::with(&format!("admin.listen = '127.0.0.1:0'\n{QUEUES}"));
    let (store, config) = (workspace.path("q.db"), workspace.path("queues.toml"));
    let mut process = BrokerProcess::start(&store, &config, &["--log-level", level]);
    let admin = process.admin_address();
    (workspace, process, admin)
}

fn metric(admin: SocketAddr, series: &str) -> u64 {
    let text = get(admin, "/metrics").body;
    let value = text.lines().find_map(|line| line.strip_prefix(series));
    let value = value.unwrap_or_else(|| panic!("{series} is not in {text}"));
    value.trim().parse().expect("a number")
}

#[tokio::test]
async fn stalled_reader_of_the_log_stalls_no_call() {
    let workspace = Workspace::with(&format!("admin.listen = '127.0.0.1:0'\n{QUEUES}"));
    let mut process = BrokerProcess::with_stalled_log(
        &workspace.path("q.db"),
        &workspace.path("queues.toml"),
        &["--log-level", "trace,h2=trace,hyper=trace"],
    );
    let admin = process.admin_address();
    let client = Client::new(process.channel(), "work");
    let dropped = "lease_broker_log_lines_total{lease_broker_log_result=\"dropped\"}";
    let calls = async {
        while metric(admin, dropped) == 0 {
            for _ in 0..50 {
                client.claim(1).await;
            }
        }
    };
    // Calls are answered although nobody reads the log.
    with_timeout(calls).await;
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
}

#[tokio::test]
async fn level_changes_at_run_time_and_falls_back() {
    let (_workspace, process, admin) = serving("warn");
    assert_eq!(get(admin, "/log/level").body, "warn");
    let client = Client::new(process.channel(), "work");
    client.claim(1).await;
    assert_eq!(process.log(), "");
    let changed = send(admin, "PUT", "/log/level?for=2s", "info\n");
    assert_eq!((changed.status, &*changed.body), (200, "info"));
    wait_until_blocking("the change is logged", || {
        process.log().contains("log level changed")
    });
    wait_until_blocking("the level falls back", || {
        get(admin, "/log/level").body == "warn"
    });
    for (path, body, named) in [
        ("/log/level", "loud", "loud"),
        ("/log/level?for=soon", "info", "soon"),
        ("/log/level?for=8days", "info", "7 days"),
        ("/log/level?fro=2s", "info", "fro"),
    ] {
        let refused = send(admin, "PUT", path, body);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body.contains(named), "{refused:?}");
    }
    assert_eq!(get(admin, "/log/level").body, "warn");
}

#[test]
fn sighup_reads_the_level_again() {
    let toml = format!("admin.listen = '127.0.0.1:0'\n{QUEUES}");
    let mut workspace = Workspace::with(&toml);
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    let signal = |level: &str| {
        let path = workspace.folder.path().join("queues.toml");
        std::fs::write(path, format!("log.level = '{level}'\n{toml}")).expect("a file");
        let process = workspace.process.as_ref().expect("a service");
        process.signal("HUP");
    };
    signal("debug");
    wait_until_blocking("it changes", || get(admin, "/log/level").body == "debug");
    signal("loud");
    let process = workspace.process.as_ref().expect("a service");
    wait_until_blocking("it is refused", || {
        process.log().contains("configuration not changed")
    });
    assert_eq!(get(admin, "/log/level").body, "debug");
}

#[test]
fn level_is_fixed_on_an_address_that_others_reach() {
    for (allow, status) in [(false, 403), (true, 200)] {
        let mut workspace = Workspace::with(&format!(
            "admin = {{ listen = '0.0.0.0:0', allow_changes = {allow} }}\n{QUEUES}"
        ));
        workspace.serve();
        let process = workspace.process.as_mut().expect("a service");
        let port = process.admin_address().port();
        let admin = SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(send(admin, "PUT", "/log/level", "debug").status, status);
        assert_eq!(get(admin, "/log/level").status, 200);
        assert_eq!(get(admin, "/").status, status);
        let process = workspace.process.as_ref().expect("a service");
        for event in ["log.level_refused", "dashboard.refused"] {
            let line = format!("event=\"{event}\" peer=127.0.0.1");
            if allow {
                assert!(!process.log().contains(&line), "{}", process.log());
            } else {
                wait_until_blocking("it is reported", || process.log().contains(&line));
            }
        }
    }
}

#[test]
fn level_changes_on_a_mapped_loopback_address() {
    const LISTEN: &str = "[::ffff:127.0.0.1]:0";
    if let Err(error) = TcpListener::bind(LISTEN) {
        return skipped(&format!("{LISTEN} is no address of this host: {error}"));
    }
    let mut workspace = Workspace::with(&format!("admin.listen = '{LISTEN}'\n{QUEUES}"));
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    let changed = send(admin, "PUT", "/log/level", "debug");
    assert_eq!(changed.status, 200, "{changed:?}");
}

#[test]
fn each_change_of_the_level_has_a_line_and_they_have_a_rate() {
    let (_workspace, process, admin) = serving("info");
    let put = |level: &str| send(admin, "PUT", "/log/level", level).status;
    let levels = ["debug", "info"].into_iter().cycle().take(10);
    for level in levels {
        assert_eq!(put(level), 200);
    }
    assert_eq!(put("debug"), 429);
    assert_eq!(get(admin, "/log/level").body, "info");
    wait_until_blocking("each change has a line", || {
        process.log().matches("event=\"log.level\"").count() == 10
    });
}

#[tokio::test]
async fn a_thousand_equal_failures_write_three_lines_at_most() {
    let (workspace, mut process, admin) = serving("info");
    let client = Client::new(process.channel(), "work");
    workspace
        .database()
        .execute_batch("DROP TABLE work")
        .expect("the table is dropped");
    let start = Instant::now();
    for _ in 0..1_000 {
        let refused = client.try_enqueue(vec![crate::support::client::item("x")]);
        with_timeout(refused).await.expect_err("no table");
    }
    assert!(
        metric(
            admin,
            "lease_broker_log_lines_total{lease_broker_log_result=\"folded\"}"
        ) >= 990
    );
    process.signal("TERM");
    process.wait();
    let log = process.log();
    let about = log.lines().filter(|line| line.contains("call failed"));
    // Every 30 s, one more line tells the number of those left out.
    let most = 3 + usize::try_from(start.elapsed().as_secs() / 30).expect("a short time");
    assert!((1..=most).contains(&about.count()), "{log}");
    assert!(log.contains("similar log lines left out"), "{log}");
}

#[tokio::test]
async fn values_and_secrets_never_appear_in_the_log() {
    let (workspace, mut process, _) = serving("trace");
    let client = Client::new(process.channel(), "work");
    client.enqueue(&["marker-value"]).await;
    let mut request = tonic::Request::new(client.claim_request(1));
    for (name, value) in [
        ("authorization", "Bearer marker-token"),
        ("traceparent", "marker-parent"),
        ("x-other", "marker-header"),
    ] {
        let value = value.parse().expect("ASCII");
        request.metadata_mut().insert(name, value);
    }
    let claimed = client.rpc.clone().claim_batch(request).await;
    let lease = claimed.expect("a lease").into_inner().leases.remove(0);
    let failed = vec![failure(&lease.lease_id, "marker-error")];
    client.try_fail(failed).await.expect("it is failed");
    let changed = format!("{}marker", lease.lease_id);
    let lost = vec![failure(&changed, "marker-error")];
    client.try_fail(lost).await.expect("it is lost");
    let strange = client.for_queue("marker-queue");
    let unknown = strange.try_claim(strange.claim_request(1)).await;
    unknown.expect_err("the queue is unknown");
    process.signal("TERM");
    process.wait();
    let log = process.log();
    assert!(log.contains("operation_counts"), "{log}");
    for secret in ["marker", &lease.lease_id] {
        let found = log.lines().find(|line| line.contains(secret));
        assert_eq!(found, None);
    }
    drop(workspace);
}
