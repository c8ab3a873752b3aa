//! Clients that begin TLS handshakes, never go on, and read nothing: they cost the broker cryptography and themselves none.

use std::net::Ipv4Addr;

use crate::security::fixture::Files;
use crate::security::handshakes::client_hello;
use crate::support::raw_connection::{RawConnection, blocking};
use crate::support::server::Server;
use crate::support::timeout::wait_until;

/// The number of connections of the attack.
const CONNECTIONS: usize = 300;
/// The number of honest handshakes.
const HONEST: usize = 6;

fn answered(attack: &[RawConnection]) -> usize {
    let answered = attack
        .iter()
        .filter(|connection| connection.has_unread_bytes());
    answered.count()
}

#[tokio::test]
async fn hellos_of_one_address_leave_handshakes_to_another() {
    let files = Files::new();
    let identity = "[[auth.identities]]\nname = 'fleet'\nspiffe = 'spiffe://test/fleet'\nroles = { worker = ['work'] }\n";
    let limits = "server.handshakes_per_second = 10\nserver.handshake_timeout = '1m'\n";
    let server = Server::with_config(&format!("{limits}{}", files.settings(identity))).await;
    let address = server.address;
    let attack = blocking(move || {
        let hello = client_hello();
        let connect = |_| {
            let mut connection = RawConnection::unread_from(Ipv4Addr::new(127, 0, 0, 2), address);
            connection.send(&hello).expect("sent");
            connection
        };
        (0..CONNECTIONS).map(connect).collect::<Vec<_>>()
    });
    let attack = attack.await;
    // The first handshakes begin together. Then the others wait.
    wait_until("the attack has begun", async || answered(&attack) >= 10).await;
    let before = answered(&attack);
    for _ in 0..HONEST {
        files.client(&server, "spiffe://test/fleet").await;
    }
    // Addresses take turns. One handshake of the attack may be about to begin at each end.
    let begun = answered(&attack) - before;
    assert!(
        begun <= 2 * HONEST + 2,
        "{begun} of the attack beside {HONEST}"
    );
}
