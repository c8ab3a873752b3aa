//! Brokers on one database, each on ports of its own that it keeps when it is started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::support::http::is_ready;
use crate::support::ports::free_port;
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until_blocking;

/// The ports of a broker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) grpc: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// A broker that can be stopped and started again.
pub(crate) struct Member {
    addresses: Addresses,
    config: PathBuf,
    process: BrokerProcess,
}

impl Member {
    fn start(
        folder: &Path,
        name: &str,
        program: &Path,
        settings: &str,
        addresses: Addresses,
    ) -> Self {
        let config = folder.join(name).with_extension("toml");
        let (admin, store) = (addresses.admin, folder.join("q.db"));
        let store = store.display();
        let text = format!("admin.listen = '{admin}'\nstore.path = '{store}'\n{settings}");
        std::fs::write(&config, text).expect("a file");
        Self {
            process: BrokerProcess::of_build(program, addresses.grpc, &config),
            addresses,
            config,
        }
    }

    /// Ends the process with a signal, and starts this build of the program in its place.
    pub(crate) fn restart(&mut self, signal: &str, program: &Path) {
        self.process.signal(signal);
        let status = self.process.wait();
        assert!(signal == "KILL" || status.success(), "{status}");
        self.process = BrokerProcess::of_build(program, self.addresses.grpc, &self.config);
        let admin = self.addresses.admin;
        wait_until_blocking("the broker is ready", || is_ready(admin));
    }
}

impl Member {
    /// Sends a signal to the process.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }
}

/// Starts `count` brokers of this build of the program, with these settings, on one database.
pub(crate) fn start(
    folder: &Path,
    program: &Path,
    settings: &str,
    count: usize,
) -> (Vec<Member>, Vec<Addresses>) {
    let start = |number| {
        let addresses = Addresses {
            grpc: free_port(),
            admin: free_port(),
        };
        let name = format!("broker{number}");
        let member = Member::start(folder, &name, program, settings, addresses);
        (member, addresses)
    };
    (1..=count).map(start).unzip()
}
