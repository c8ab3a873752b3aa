//! Connections of clients and the process: shutdown with requests that never end, and the limit of open files.

use std::net::TcpStream;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::frames::{HEARTBEAT, call_headers};
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
