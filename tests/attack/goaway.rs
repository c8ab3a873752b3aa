//! Attacks that the broker answers by the end of the connection.

use super::arena::Arena;
use crate::support::raw_connection::RawConnection;

/// Runs an attack on one connection. Expects a GOAWAY with one of these codes, and a bystander without harm.
pub(crate) fn expect_goaway(name: &str, codes: &[u32], attack: impl FnOnce(&mut RawConnection)) {
    let mut arena = Arena::start();
    let mut connection = RawConnection::open(arena.address());
    attack(&mut connection);
    let goaway = connection.goaway();
    assert!(codes.contains(&goaway.0), "{goaway:?}");
    arena
        .end(name, connection.sent())
        .bystander_unharmed()
        .memory_below(30);
}

/// Sends the same bytes until the broker has closed the connection.
pub(crate) fn send_until_closed(connection: &mut RawConnection, bytes: &[u8]) {
    // The bound ends a test whose broker reads on.
    let _ = (0..1_000).any(|_| connection.try_send(bytes).is_err());
}
