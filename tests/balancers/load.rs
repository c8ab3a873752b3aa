//! The load of a client, which runs beside the test: a producer and four workers on one channel, until standard input ends.
//!
//! The client is the program `load` of each language in `tests/languages`. With a service config each Enqueue and each claim
//! has a request id, so that it can be sent again. The config does that, except for an Enqueue that was UNAVAILABLE, which the
//! program sends again. Without a config a failed call is not sent again. The program prints a line when its first call has
//! ended, and [`Seen`] at its end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;

use crate::support::skipped::skipped;
use crate::support::tools::{generate_python_client, python_with_grpc};

/// What a client has seen.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    /// The number of calls.
    pub(crate) calls: usize,
    /// The failed calls.
    pub(crate) failures: Vec<Failure>,
    /// The payloads of acknowledged items.
    pub(crate) added: Vec<String>,
    /// The keys of items that the client has completed.
    pub(crate) completed: Vec<String>,
}

/// Rpc, number of the status and message of a call that has failed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Failure(pub(crate) String, pub(crate) i32, pub(crate) String);

impl Failure {
    pub(crate) fn code(&self) -> tonic::Code {
        self.1.into()
    }
}

/// A language, and what its client needs to run.
#[derive(Clone, Debug)]
pub(crate) enum Language {
    Python { python: PathBuf, stubs: PathBuf },
    Other(&'static str),
}

impl Language {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Python { .. } => "python",
            Self::Other(name) => name,
        }
    }

    /// Builds the clients. Returns the languages that this machine has. For each other one, a line says that it is skipped.
    /// `folder`: the place of generated files.
    pub(crate) fn build_all(folder: &Path) -> Vec<Self> {
        let mut languages: Vec<Self> = Self::build_python(folder).into_iter().collect();
        if std::env::var_os("LEASE_BROKER_TEST_CLIENTS").is_none() {
            skipped("clients in Go, Java and Node: LEASE_BROKER_TEST_CLIENTS is not set");
            return languages;
        }
        for name in ["go", "java", "node"] {
            let output = ci_client(name).arg("build").output();
            let output = output.expect("the script starts");
            let text = String::from_utf8_lossy(&output.stdout);
            match output.status.code() {
                Some(0) => languages.push(Self::Other(name)),
                Some(77) => skipped(text.trim()),
                _ => panic!("{text}{}", String::from_utf8_lossy(&output.stderr)),
            }
        }
        languages
    }

    fn build_python(folder: &Path) -> Option<Self> {
        let Some(python) = python_with_grpc() else {
            skipped("no Python with grpcio and grpcio-tools; name one in LEASE_BROKER_TEST_PYTHON");
            return None;
        };
        let stubs = folder.join("python");
        std::fs::create_dir(&stubs).expect("a folder");
        generate_python_client(&python, &stubs);
        Some(Self::Python { python, stubs })
    }

    fn command(&self) -> Command {
        match self {
            Self::Python { python, stubs } => {
                let program = concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/tests/languages/python/load.py"
                );
                let mut command = Command::new(python);
                command.arg(program).env("PYTHONPATH", stubs);
                command
            }
            Self::Other(name) => {
                let mut command = ci_client(name);
                command.arg("load");
                command
            }
        }
    }
}

fn ci_client(language: &str) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/client"));
    command.arg(language).stdin(Stdio::null());
    command
}

/// A running client.
pub(crate) struct Load {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Load {
    /// Starts a client. `service_config`: its retry policy, as gRPC clients take it. Empty: it sends no call again.
    pub(crate) fn start(language: &Language, address: &str, service_config: &str) -> Self {
        let mut command = language.command();
        command.args([address, service_config]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the client starts");
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        Self { child, output }
    }

    /// Waits until the first call has ended.
    pub(crate) fn wait_for_a_call(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        assert_eq!(line, "begun\n");
    }

    /// Ends the client, and returns what it has seen. Needs an earlier [`Self::wait_for_a_call`].
    pub(crate) fn stop(mut self) -> Seen {
        drop(self.child.stdin.take());
        let mut output = String::new();
        self.output.read_to_string(&mut output).expect("text");
        let status = self.child.wait().expect("the client ends");
        assert!(status.success(), "{status}");
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
    }
}
