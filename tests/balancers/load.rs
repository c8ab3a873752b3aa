//! The load of a Python client, which runs beside the test.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

/// What a client has seen.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    /// The number of calls.
    pub(crate) calls: usize,
    /// Method, code and details of each failed call.
    pub(crate) failures: Vec<(String, String, String)>,
    /// The payloads of acknowledged items.
    pub(crate) added: Vec<String>,
    /// The keys of items that the client has completed.
    pub(crate) completed: Vec<String>,
}

/// A running client.
pub(crate) struct Load(Child);

impl Load {
    /// Starts a client. `service_config`: its retry policy, as gRPC clients take it. Empty: it sends no call again.
    pub(crate) fn start(python: &Path, stubs: &Path, address: &str, service_config: &str) -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/balancers/load.py");
        let child = Command::new(python)
            .args([program, address, service_config])
            .env("PYTHONPATH", stubs)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self(child.expect("Python starts"))
    }

    /// Ends the client, and returns what it has seen.
    pub(crate) fn stop(mut self) -> Seen {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().expect("Python ends");
        serde_json::from_slice(&output.stdout).expect("a JSON object")
    }
}
