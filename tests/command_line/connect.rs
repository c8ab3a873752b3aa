//! Connections of commands to a service: they try until the timeout, and say what a port speaks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::ports::free_port;
use crate::support::process::{BrokerProcess, program};

/// Starts a server that treats each connection in this way.
fn server(answer: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream);
        }
    });
    address
}

#[test]
fn command_waits_for_a_service_that_starts_later() {
    let workspace = Workspace::with(QUEUES);
    let address = free_port();
    let mut waiting = program()
        .args(["enqueue", "work", "--set", "payload=x", "--timeout", "1h"])
        .args(["--address", &address.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut warning = String::new();
    BufReader::new(waiting.stderr.take().expect("a pipe"))
        .read_line(&mut warning)
        .expect("a line");
    assert!(warning.contains("nothing listens"), "{warning}");
    let _process = BrokerProcess::listening(
        &address.to_string(),
        &workspace.path("q.db"),
        &workspace.path("queues.toml"),
    );
    assert_eq!(waiting.wait().expect("it ends").code(), Some(0));
}

#[test]
fn frozen_broker_is_passed_over_if_there_is_another() {
    let mut workspace = Workspace::with(QUEUES);
    workspace.serve();
    let (kept, _streams) = std::sync::mpsc::channel();
    let frozen = server(move |stream| drop(kept.send(stream)));
    let broker = workspace.process.as_ref().expect("a service").address;
    let stats = workspace.run(&format!("stats --address {frozen},{broker} --timeout 30s"));
    assert_eq!(stats.code, 0, "{stats:?}");
}

#[test]
fn wrong_protocol_of_a_port_is_named_with_a_remedy() {
    let mut workspace = Workspace::with(&format!("[admin]\nlisten = '127.0.0.1:0'\n{QUEUES}"));
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let (grpc, admin) = (process.address, process.admin_address());
    let mail = server(|mut stream| {
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n");
    });
    // The connections stay open for as long as the test runs.
    let silent = server(std::mem::forget);
    let closing = server(drop);
    for (address, parts) in [
        (
            format!("https://{grpc}"),
            &["the port speaks plain text, not TLS", "write http://"][..],
        ),
        (format!("http://{admin}"), &["the port speaks HTTP/1"]),
        (format!("https://{admin}"), &["the port speaks HTTP/1"]),
        (format!("http://{mail}"), &["another protocol than gRPC"]),
        (format!("http://{silent}"), &["does not answer"]),
        (format!("http://{closing}"), &["closes the connection"]),
        ("http://nowhere.invalid:1".to_owned(), &["has no address"]),
    ] {
        for command in ["claim work", "enqueue work --set payload=x"] {
            let command = format!("{command} --address {address} --timeout 1s --plaintext");
            let failed = workspace.run(&command);
            assert_eq!(failed.code, 69, "{command}: {failed:?}");
            for part in parts.iter().chain(&[&*address]) {
                let address = part.trim_end_matches('/');
                assert!(failed.err.contains(address), "{part:?}: {failed:?}");
            }
        }
    }
}

#[test]
fn command_uses_the_address_of_a_list_that_answers() {
    let workspace = Workspace::serving();
    let url = workspace.process.as_ref().expect("a service").url();
    let list = format!("{},{url}", free_port());
    let added = workspace.run(&format!("enqueue work --set payload=x --address {list}"));
    assert_eq!(added.code, 0, "{added:?}");
}

#[test]
fn longest_wait_is_no_overflow() {
    let workspace = Workspace::with(QUEUES);
    let wait = format!("{}s", u64::MAX);
    let address = free_port();
    let command = format!("claim work --wait {wait} --timeout 1s --address {address}");
    let failed = workspace.run(&command);
    assert_eq!(failed.code, 69, "{failed:?}");
}

#[test]
fn address_without_a_valid_port_is_refused() {
    let workspace = Workspace::with(QUEUES);
    for address in [
        "127.0.0.1:500511",
        "127.0.0.1",
        "http://127.0.0.1:",
        "https://localhost",
        "[::1]",
        "127.0.0.1:1,127.0.0.1:65536",
    ] {
        let command = format!("claim work --timeout 1s --address {address}");
        let refused = workspace.run(&command);
        assert_eq!(refused.code, 64, "{address}: {refused:?}");
        for part in ["--address", "port", ":50051"] {
            assert!(refused.err.contains(part), "{address}: {refused:?}");
        }
    }
}
