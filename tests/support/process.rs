//! The real program: a broker in a process of its own, and the commands that people type.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use tonic::transport::{Channel, Endpoint};

/// Returns the program, without settings from the environment.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lease-broker"));
    command.env_clear();
    command
}

/// `lease-broker serve`, killed when it is dropped.
pub(crate) struct BrokerProcess {
    child: Child,
    /// Kept open: who closes it makes the process fail to print.
    output: BufReader<ChildStdout>,
    log: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) announcement: String,
}

impl BrokerProcess {
    /// Starts on a file with a configuration, and waits for the announcement.
    pub(crate) fn serve(store: &Path, config: &Path) -> Self {
        Self::start(store, config, &[])
    }

    pub(crate) fn start(store: &Path, config: &Path, more: &[&str]) -> Self {
        let log = store.with_extension("log");
        let mut child = program()
            .args(["serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .arg("--config")
            .arg(config)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log file"))
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut announcement = String::new();
        output.read_line(&mut announcement).expect("a line");
        let address = announcement
            .split_once("listens on ")
            .and_then(|(_, rest)| rest.split_once(','))
            .and_then(|(address, _)| address.parse().ok());
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        Self {
            address: address.unwrap_or_else(|| panic!("no address: {announcement}{}", logged())),
            child,
            output,
            log,
            announcement,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a connection that is made when it is used.
    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.url());
        endpoint.expect("an address").connect_lazy()
    }

    /// Ends the process at once, as a power cut does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the process runs");
        self.child.wait().expect("it ends");
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("known").is_none()
    }

    /// What it has written to standard error.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The rest of the announcement.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Reads the JSON objects that were printed, one a line.
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        assert_eq!(self.code, 0, "{self:?}");
        let lines = self.out.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("JSON lines")
    }
}

/// Runs a command in `folder` to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> CommandOutput {
    run_with_input(folder, arguments, "")
}

pub(crate) fn run_with_input(folder: &Path, arguments: &[&str], input: &str) -> CommandOutput {
    let mut child = program()
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A command that reads nothing may have ended before all of it is written.
    let _ = child
        .stdin
        .take()
        .expect("its input")
        .write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}
