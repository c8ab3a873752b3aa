//! Connections of clients and the process: shutdown with requests that never end, and the limit of open files.

use std::net::TcpStream;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::frames::{HEARTBEAT, call_headers};
use crate::support::http::get;
use crate::support::process::{BrokerProcess, limited_program};
use crate::support::raw_connection::RawConnection;
use crate::support::timeout::wait_until_blocking;

#[test]
fn incomplete_requests_do_not_delay_the_exit() {
    // Longer than the test: a request that delays the exit fails it.
    let settings = "server.request_timeout = '1h'\nserver.drain_grace = '1h'";
    let mut workspace = Workspace::with(&format!("{settings}\n{QUEUES}"));
    workspace.serve();
    let process = workspace.process.as_ref().expect("a service");
    let mut connection = RawConnection::open(process.address);
    for call in 0..10 {
        let headers = call_headers(2 * call + 1, HEARTBEAT, 0);
        connection.send(&headers).expect("sent");
    }
    // These calls take much longer than the headers need to arrive.
    workspace.lease();
    let process = workspace.process.as_mut().expect("a service");
    process.signal("TERM");
    wait_until_blocking("the process ends", || !process.is_running());
    assert_eq!(process.wait().code(), Some(0), "{}", process.log());
}

#[test]
fn silent_connections_leave_files_for_the_store() {
    let mut workspace = Workspace::with(QUEUES);
    let (store, config) = (workspace.path("q.db"), workspace.path("queues.toml"));
    workspace.process = Some(BrokerProcess::with_open_files(&store, &config, 256));
    let process = workspace.process.as_ref().expect("a service");
    wait_until_blocking("the lower limit is logged", || {
        process.log().contains("server.max_connections is lowered")
    });
    // A connection beyond the limit is reset, which `connect` itself may report.
    let silent: Vec<_> = (0..400)
        .filter_map(|_| TcpStream::connect(process.address).ok())
        .collect();
    assert!(silent.len() > 100, "{} were accepted", silent.len());
    // The silent connections are closed after server.handshake_timeout, and leave their places to others.
    wait_until_blocking("a call succeeds", || {
        workspace.call("enqueue work --set payload=x").code == 0
    });
    let log = workspace.process.as_ref().expect("a service").log();
    assert!(!log.contains("connections cannot be accepted"), "{log}");
    drop(silent);
}

#[test]
fn connections_over_the_limit_are_counted() {
    let settings =
        "admin.listen = '127.0.0.1:0'\nserver.max_connections = 2\nserver.handshake_timeout = '1m'";
    let mut workspace = Workspace::with(&format!("{settings}\n{QUEUES}"));
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    let value = |name: &str| {
        let metrics = get(admin, "/metrics").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        value.expect(name).trim().to_owned()
    };
    // Connections without a call would make room for others.
    let open = [(); 2].map(|()| {
        let mut connection = RawConnection::open(process.address);
        connection.sync(1);
        connection
    });
    wait_until_blocking("both are open", || {
        value("lease_broker_connection_open ") == "2"
    });
    for _ in 0..180 {
        // The reset can arrive before the connection is complete.
        drop(TcpStream::connect(process.address));
    }
    let refused = "lease_broker_connection_refused_total{lease_broker_connection_refusal=\"max_connections\"}";
    wait_until_blocking("all are counted", || value(refused) == "180");
    drop(open);
    wait_until_blocking("none is open", || {
        value("lease_broker_connection_open ") == "0"
    });
    // The log has the first one at once, and the others at the latest when the broker stops.
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
    let log = process.log();
    let lines = log
        .lines()
        .filter(|line| line.contains("connection refused"));
    let counts = lines.map(|line| match line.split_once("left_out=") {
        None => 1,
        Some((_, count)) => count.trim().parse::<u64>().expect("a number"),
    });
    assert_eq!(counts.sum::<u64>(), 180, "{log}");
}

#[test]
fn too_few_open_files_stop_the_start() {
    let workspace = Workspace::with(QUEUES);
    let mut command = limited_program(200);
    let command = command.args([
        "serve",
        "--config",
        "queues.toml",
        "--listen",
        "127.0.0.1:0",
    ]);
    let output = command.current_dir(workspace.folder.path()).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("200 files"), "{text}");
}
