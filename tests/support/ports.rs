//! Ports for programs that cannot choose a free one themselves.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};

use rand::RngExt as _;
use rustix::fs::{FlockOperation, flock};

/// Returns an address with a free port, below those that the system gives to outgoing connections. Otherwise such a connection
/// could take the port before the program does. No other test gets the port while this process runs: each locks a file.
pub(crate) fn free_port() -> SocketAddr {
    let folder = std::env::temp_dir().join("lease-broker-test-ports");
    std::fs::create_dir_all(&folder).expect("a folder");
    loop {
        let port = rand::rng().random_range(20_000..32_768_u16);
        let file = File::create(folder.join(port.to_string())).expect("a file");
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            // The lock ends with the process.
            std::mem::forget(file);
            return address;
        }
    }
}
