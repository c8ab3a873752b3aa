//! Tests of the admin port and of `health`.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::database::WriteLock;
use crate::support::http::{get, send, send_with_headers};
use crate::support::ports::free_port;
use crate::support::process::BrokerProcess;
use crate::support::raw_connection::RawConnection;
use crate::support::timeout::wait_until_blocking;

/// Starts a broker with more configuration, with its admin port on a free port.
fn serving(toml: &str) -> (Workspace, SocketAddr) {
    let mut workspace = Workspace::with(&format!("admin.listen = '127.0.0.1:0'\n{toml}\n{QUEUES}"));
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    (workspace, admin)
}

#[test]
fn probes_and_version_of_a_ready_broker() {
    let (workspace, admin) = serving("");
    let live = get(admin, "/livez");
    assert_eq!((live.status, &live.json()["status"]), (200, &"ok".into()));
    let ready = get(admin, "/readyz");
    assert_eq!(ready.status, 200, "{ready:?}");
    assert_eq!(ready.json()["ready"], true);
    assert_eq!(ready.json()["store"]["up"], true);
    let version = get(admin, "/version").json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["store"], "sqlite");
    assert!(
        version["rustc"]
            .as_str()
            .is_some_and(|text| text.starts_with("rustc "))
    );
    let nothing = get(admin, "/nothing");
    assert_eq!(nothing.status, 404);
    assert!(
        nothing.body.contains("the dashboard is at /"),
        "{nothing:?}"
    );
    assert_eq!(send(admin, "POST", "/livez", "").status, 405);
    drop(workspace);
}

/// Returns the time that probes of `probed` take, if as many silent connections as possible are opened to `attacked` before each.
fn probes_under_attack(attacked: SocketAddr, probed: SocketAddr) -> Duration {
    let mut silent = Vec::new();
    let mut duration = Duration::ZERO;
    for _ in 0..5 {
        let opened = (0..64).map(|_| TcpStream::connect(attacked).expect("a connection"));
        silent.extend(opened);
        let start = Instant::now();
        assert_eq!(get(probed, "/livez").status, 200);
        duration += start.elapsed();
    }
    duration
}

#[test]
fn silent_connections_delay_no_probe() {
    let (_attacked, attacked) = serving("");
    let (_control, control) = serving("");
    let control = probes_under_attack(attacked, control);
    let duration = probes_under_attack(attacked, attacked);
    // A probe that waited for the time limit of a connection took 10 s.
    assert!(
        duration < Duration::from_secs(4) + 20 * control,
        "probes took {duration:?}, and those of another broker {control:?}"
    );
}

#[test]
fn only_own_names_and_pages_are_answered() {
    let (_workspace, admin) = serving("admin.hosts = ['broker-1']");
    let own = format!("Host: {admin}\r\n");
    let foreign_page = format!("{own}Origin: http://127.0.0.1:1\r\n");
    for headers in ["Host: evil.example\r\n", &foreign_page] {
        let refused = send_with_headers(admin, "PUT", "/log/level", headers, "debug");
        assert_eq!(refused.status, 403, "{refused:?}");
        for path in ["/livez", "/metrics", "/nothing"] {
            let refused = send_with_headers(admin, "GET", path, headers, "");
            assert_eq!(refused.status, 403, "{refused:?}");
        }
    }
    assert_eq!(get(admin, "/log/level").body, "info");
    let own_page = format!("{own}Origin: http://{admin}\r\n");
    for headers in ["Host: localhost\r\n", "Host: broker-1:9464\r\n", &own_page] {
        let changed = send_with_headers(admin, "PUT", "/log/level", headers, "debug");
        assert_eq!(changed.status, 200, "{changed:?}");
    }
}

#[test]
fn queues_show_settings_and_counts() {
    let (workspace, admin) = serving("");
    workspace.lease();
    let queues = get(admin, "/debug/queues").json();
    let work = &queues[1];
    assert_eq!(work["queue"], "work", "{queues}");
    assert_eq!(work["configuration"]["max_attempts"], 1);
    assert_eq!(work["operation_counts"]["claim"]["calls"], 1);
    assert_eq!(work["operation_counts"]["enqueue"]["items"], 1);
    assert_eq!(queues[0]["operation_counts"]["claim"]["calls"], 0);
    // The page of the queue has them in the same words.
    assert_eq!(work["configuration"]["on_complete"], "keep");
    let page = get(admin, "/queues/work").body;
    let on_complete = "&quot;on_complete&quot;: &quot;keep&quot;";
    assert!(page.contains(on_complete), "{page}");
}

#[test]
fn connections_and_their_callers_are_shown() {
    let (workspace, admin) = serving("");
    let address = workspace.process.as_ref().expect("a service").address;
    let mut connection = RawConnection::open(address);
    connection.sync(1);
    wait_until_blocking("the connection has no open stream", || {
        let shown = get(admin, "/debug/connections").json();
        let found = |list: &str, of: &dyn Fn(&Json) -> bool| {
            let mut list = shown[list].as_array().expect("a list").iter();
            list.rfind(|shown| of(shown)).cloned()
        };
        let connection = found("connections", &|shown| shown["trusted"] == true);
        let connection = connection.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(connection["identity"], Json::Null, "{shown}");
        let caller = found("callers", &|shown| shown["caller"] == connection["caller"]);
        let caller = caller.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(caller["address"], "127.0.0.1", "{shown}");
        connection["open_streams"] == 0 && caller["holds"]["open_streams"] == 0
    });
}

#[test]
fn draining_broker_is_live_but_not_ready() {
    let (mut workspace, admin) = serving("server.drain_delay = '60s'");
    workspace
        .process
        .as_mut()
        .expect("a service")
        .signal("TERM");
    wait_until_blocking("it drains", || get(admin, "/readyz").status == 503);
    assert_eq!(get(admin, "/readyz").json()["reasons"][0], "draining");
    assert_eq!(get(admin, "/livez").status, 200);
    let health = workspace.call("health");
    assert_eq!(health.code, 1, "{health:?}");
    assert!(health.out.contains("NOT_SERVING"), "{health:?}");
}

#[test]
fn locked_store_makes_the_broker_unready() {
    let (workspace, admin) = serving("");
    let lock = WriteLock::acquire(&workspace.path("q.db"));
    let running = || get(admin, "/readyz").json()["store"]["oldest_operation_seconds"].as_f64();
    let enqueue = ["enqueue", "work", "--set", "payload=x"];
    let refused = std::thread::scope(|scope| {
        let refused = scope.spawn(|| workspace.call(&enqueue.join(" ")));
        wait_until_blocking("an operation is seen to hang", || running() > Some(0.5));
        refused.join().expect("it ends")
    });
    assert_eq!(refused.code, 69, "{refused:?}");
    wait_until_blocking("it is not ready", || get(admin, "/readyz").status == 503);
    let ready = get(admin, "/readyz").json();
    assert_eq!(ready["reasons"][0], "store_unavailable");
    assert_eq!(ready["store"]["up"], false);
    // Operators read the cause everywhere, and callers its kind.
    let cause = "write lock";
    let error = |ready: &serde_json::Value| ready["store"]["error"].as_str().map(str::to_owned);
    let is_named = |error: Option<String>| error.is_some_and(|error| error.contains(cause));
    assert!(is_named(error(&ready)), "{ready}");
    assert_eq!(ready["store"]["error_cause"], "busy");
    let health = crate::support::process::program()
        .args(["health", "--admin"])
        .env("LEASE_BROKER_ADMIN__LISTEN", admin.to_string())
        .output()
        .expect("it runs");
    assert_eq!(health.status.code(), Some(1), "{health:?}");
    assert!(
        String::from_utf8_lossy(&health.stderr).contains(cause),
        "{health:?}"
    );
    let log = workspace.process.as_ref().expect("a service").log();
    let mut unhealthy = log
        .lines()
        .filter(|line| line.contains("store is unhealthy"));
    assert!(unhealthy.any(|line| line.contains(cause)), "{log}");
    let metrics = get(admin, "/metrics").body;
    let failures = "lease_broker_store_failures_total{lease_broker_store_cause=\"busy\"} ";
    let failures = metrics.lines().find_map(|line| line.strip_prefix(failures));
    assert!(
        failures.is_some_and(|failures| failures != "0"),
        "{metrics}"
    );
    for refused in [refused, workspace.call(&enqueue.join(" "))] {
        assert!(
            refused.err.contains("the database is locked or busy"),
            "{refused:?}"
        );
        assert!(!refused.err.contains("process holds"), "{refused:?}");
    }
    drop(lock);
    wait_until_blocking("it is ready again", || get(admin, "/readyz").status == 200);
    let ready = get(admin, "/readyz").json();
    assert!(is_named(error(&ready)), "{ready}");
}

#[test]
fn health_of_a_ready_service_is_0_and_of_no_service_69() {
    let workspace = Workspace::serving();
    let health = workspace.call("health");
    assert_eq!(health.json()[0]["status"], "SERVING");
    let service = workspace.call("health --service leasebroker.v1.LeaseService");
    assert_eq!(service.code, 0, "{service:?}");
    assert_eq!(workspace.call("health --service nothing").code, 1);
    let address = free_port();
    let listener = TcpListener::bind(address).expect("the port is free");
    let silent = workspace.run(&format!("health --address {address} --timeout 100ms"));
    assert_eq!(silent.code, 69, "{silent:?}");
    drop(listener);
    let absent = workspace.run(&format!("health --address {address}"));
    assert_eq!(absent.code, 69, "{absent:?}");
}

#[test]
fn health_without_an_admin_port_exits_64() {
    let workspace = Workspace::with("admin.listen = ''");
    let health = workspace.run("health --admin --config queues.toml");
    assert_eq!(health.code, 64, "{health:?}");
    assert!(health.err.contains("admin.listen"), "{health:?}");
}

#[test]
fn taken_default_port_is_replaced_and_taken_set_port_exits_74() {
    // Another broker on this machine may have the default port. If it ends before this one starts, the test begins again.
    let (workspace, admin) = loop {
        let _taken = TcpListener::bind("127.0.0.1:9464");
        let mut workspace = Workspace::serving();
        let admin = workspace
            .process
            .as_mut()
            .expect("a service")
            .admin_address();
        if admin.port() != 9464 {
            break (workspace, admin);
        }
    };
    assert_eq!(get(admin, "/readyz").status, 200);
    let set = workspace.store(&format!(
        "serve --listen 127.0.0.1:0 --admin-listen {admin}"
    ));
    assert_eq!(set.code, 74, "{set:?}");
    assert!(set.err.contains(&admin.to_string()), "{set:?}");
}

#[test]
fn empty_address_turns_the_admin_port_off() {
    let workspace = Workspace::with(&format!("admin.listen = ''\n{QUEUES}"));
    let mut process = BrokerProcess::serve(&workspace.path("q.db"), &workspace.path("queues.toml"));
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0), "{}", process.log());
    assert!(!process.rest_of_output().contains("admin port"));
}
