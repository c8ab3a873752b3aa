//! Ports for programs that cannot choose a free one themselves.

use std::net::{SocketAddr, TcpListener};

use rand::RngExt as _;

/// Returns an address with a free port, below those that the system gives to outgoing connections. Otherwise such a connection
/// could take the port before the program does.
pub(crate) fn free_port() -> SocketAddr {
    loop {
        let port = rand::rng().random_range(20_000..32_768_u16);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
