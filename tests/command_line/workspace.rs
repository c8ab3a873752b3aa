//! A temporary folder with a configuration file and a database file, and optionally a running service on them.

use std::path::PathBuf;

use rusqlite::Connection;

use crate::support::database;
use crate::support::process::{BrokerProcess, CommandOutput, run, run_with_input};

pub(crate) const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text', number = 'integer' }
writable = ['number']
max_attempts = 1
[queues.outbox]
managed_columns = { payload = 'text' }
";

pub(crate) struct Workspace {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) process: Option<BrokerProcess>,
}

impl Workspace {
    /// Creates a folder with this configuration, without a service.
    pub(crate) fn with(toml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("queues.toml"), toml).expect("a file");
        Self {
            folder,
            process: None,
        }
    }

    /// Creates a folder and starts a service with the queues `work` and `outbox`.
    pub(crate) fn serving() -> Self {
        let mut workspace = Self::with(QUEUES);
        workspace.serve();
        workspace
    }

    pub(crate) fn serve(&mut self) {
        self.process = Some(BrokerProcess::serve(
            &self.path("q.db"),
            &self.path("queues.toml"),
        ));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    pub(crate) fn database(&self) -> Connection {
        database::open(&self.path("q.db"))
    }

    /// Runs a command in the folder.
    pub(crate) fn run(&self, arguments: &str) -> CommandOutput {
        run(self.folder.path(), &words(arguments))
    }

    /// Runs a command that opens the store, with the flags for the configuration and the database file.
    pub(crate) fn store(&self, arguments: &str) -> CommandOutput {
        self.run(&format!("{arguments} --config queues.toml --store q.db"))
    }

    /// Runs a command that calls the service, with the flags for its address and for JSON output.
    pub(crate) fn call(&self, arguments: &str) -> CommandOutput {
        self.call_with_input(arguments, "")
    }

    pub(crate) fn call_with_input(&self, arguments: &str, input: &str) -> CommandOutput {
        let url = self.process.as_ref().expect("a service").url();
        let mut words = words(arguments);
        words.extend(["--output", "json", "--address", &url]);
        run_with_input(self.folder.path(), &words, input)
    }

    /// Adds an item to `work`, claims an item, and returns the lease id.
    pub(crate) fn lease(&self) -> String {
        let added = self.call("enqueue work --set payload=x");
        assert_eq!(added.code, 0, "{added:?}");
        let claimed = self.call("claim work").json();
        claimed[0]["lease_id"].as_str().expect("an id").to_owned()
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}
