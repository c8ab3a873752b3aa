//! A broker in a process of its own, on a T-SQL store.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Stdio};

use tonic::transport::{Channel, Endpoint};

use crate::harness::mssql::read_catalog;
use crate::support::client::Client;
use crate::support::process::program;
use crate::support::signal;

/// `lease-broker serve`, killed when it is dropped.
pub(crate) struct BrokerProcess {
    child: Child,
    address: SocketAddr,
    /// Kept open. If it were closed, the process could no longer print.
    _output: BufReader<ChildStdout>,
}

impl BrokerProcess {
    /// Starts a broker with this configuration, and waits until it serves.
    pub(crate) async fn serve(connection_string: &str, config: &str) -> Self {
        read_catalog(async { Self::start(connection_string, config) }).await
    }

    fn start(connection_string: &str, config: &str) -> Self {
        let text = config;
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("queues.toml");
        std::fs::write(&config, text).expect("a file");
        let log = folder.path().join("log");
        let log_file = std::fs::File::create(&log).expect("a file");
        let mut child = program()
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .env("LEASE_BROKER_STORE__CONNECTION_STRING", connection_string)
            // On a busy machine, the first batches of a session take seconds.
            .env("LEASE_BROKER_STORE__COMMAND_TIMEOUT", "60s")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut announced = String::new();
        output.read_line(&mut announced).expect("a line");
        let address = announced
            .split_once("listens on ")
            .and_then(|(_, rest)| rest.split_once(','))
            .and_then(|(address, _)| address.parse().ok());
        Self {
            address: address.unwrap_or_else(|| {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                panic!("no address: {announced}{log}")
            }),
            child,
            _output: output,
        }
    }

    /// Returns a client of the queue `work`.
    pub(crate) fn client(&self, worker: &str) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let channel: Channel = endpoint.expect("an address").connect_lazy();
        Client::new(channel, "work").as_worker(worker)
    }

    /// Sends a signal, given by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        signal::send(&self.child, name);
    }

    /// Kills the process with SIGKILL, so that it cannot clean up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
