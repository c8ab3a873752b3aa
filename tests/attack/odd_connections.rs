//! Connections that come and go, and clients that leave in the middle of calls.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::arena::Arena;
use crate::support::frames::{GOAWAY, HEARTBEAT, call_headers, frame};
use crate::support::raw_connection::RawConnection;
use crate::support::timeout::wait_until_blocking;

/// Returns the number of open files of the broker. Its connections are among them.
fn open_files(arena: &Arena) -> Option<usize> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", arena.broker.id()));
    files.ok().map(Iterator::count)
}

/// Runs an attack that leaves no connection, and expects that the broker closes its side of all of them.
fn expect_no_connection_left(name: &str, attack: impl FnOnce(&Arena) -> u64) {
    let mut arena = Arena::start();
    let before = open_files(&arena);
    let sent = attack(&arena);
    wait_until_blocking("the broker has closed the connections", || {
        open_files(&arena) <= before
    });
    arena.end(name, sent).bystander_unharmed().memory_below(40);
}

#[test]
fn connections_that_end_immediately_leave_nothing() {
    expect_no_connection_left("connect and close", |arena| {
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            drop(TcpStream::connect(arena.address()).expect("accepted"));
        }
        0
    });
}

#[test]
fn connections_that_end_in_the_middle_of_a_call_leave_nothing() {
    expect_no_connection_left("close in the middle of a call", |arena| {
        let connections = (0..200).map(|_| {
            let mut connection = RawConnection::open(arena.address());
            let call = call_headers(1, HEARTBEAT, 0);
            connection.send(&call).expect("sent");
            connection
        });
        let connections: Vec<_> = connections.collect();
        connections.iter().map(RawConnection::sent).sum()
    });
}

/// Opens connections that say in this way that they send no further call. Expects that the broker closes all of them.
fn expect_closed_after(name: &str, goodbye: impl Fn(&mut RawConnection)) {
    expect_no_connection_left(name, |arena| {
        let connections = (0..200).map(|_| {
            let mut connection = RawConnection::open(arena.address());
            connection.sync(1);
            goodbye(&mut connection);
            connection
        });
        let connections: Vec<_> = connections.collect();
        for connection in &connections {
            connection.wait_until_closed();
        }
        connections.iter().map(RawConnection::sent).sum()
    });
}

#[test]
fn client_that_stops_writing_leaves_nothing() {
    expect_closed_after("half-closed connections", |connection| {
        connection.shut_down_writing();
    });
}

#[test]
fn client_that_says_goodbye_leaves_nothing() {
    expect_closed_after("GOAWAY from the client", |connection| {
        let goodbye = frame(GOAWAY, 0, 0, &[0; 8]);
        connection.send(&goodbye).expect("sent");
    });
}
