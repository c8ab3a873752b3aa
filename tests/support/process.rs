//! The compiled program: a broker as a separate process, and commands run to their end.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use tonic::transport::{Channel, Endpoint};

use super::signal;

const ANY_PORT: &str = "127.0.0.1:0";

/// The program that the tests were built with.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_lease-broker");

/// Builds a command that runs the program with an empty environment, so that no setting comes from outside the test.
pub(crate) fn program() -> Command {
    program_of_build(Path::new(PROGRAM))
}

fn program_of_build(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear();
    command
}

/// Builds a command that runs the program with a limit of open files.
pub(crate) fn limited_program(open_files: u32) -> Command {
    let mut command = Command::new("/bin/sh");
    command.env_clear();
    command.args([
        "-c",
        &format!("ulimit -n {open_files} && exec \"$0\" \"$@\""),
    ]);
    command.arg(PROGRAM);
    command
}

/// A running `lease-broker serve`. Dropping it kills the process.
pub(crate) struct BrokerProcess {
    child: Child,
    /// Standard output. It stays open, because a closed pipe would make the process fail when it prints.
    output: BufReader<ChildStdout>,
    log: PathBuf,
    pub(crate) address: SocketAddr,
    /// The first line of standard output, which names version, address and queues.
    pub(crate) announcement: String,
}

impl BrokerProcess {
    /// Starts a broker whose standard error is a pipe that is never read.
    pub(crate) fn with_stalled_log(store: &Path, config: &Path, more: &[&str]) -> Self {
        Self::spawn(store, config, more, Stdio::piped())
    }

    /// Starts a broker on a database file with a configuration file, and waits until it listens.
    pub(crate) fn serve(store: &Path, config: &Path) -> Self {
        Self::start(store, config, &[])
    }

    /// Does the same as [`BrokerProcess::serve`] with more command-line arguments.
    pub(crate) fn start(store: &Path, config: &Path, more: &[&str]) -> Self {
        let log = File::create(store.with_extension("log")).expect("the log file is created");
        Self::spawn(store, config, more, log.into())
    }

    /// Starts a broker with these environment variables.
    pub(crate) fn with_environment(
        store: &Path,
        config: &Path,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = program();
        command.envs(environment.iter().copied());
        Self::spawn_logged(command, store, config, store.with_extension("log"))
    }

    /// Starts a broker with this limit of open files.
    pub(crate) fn with_open_files(store: &Path, config: &Path, limit: u32) -> Self {
        let log = store.with_extension("log");
        Self::spawn_logged(limited_program(limit), store, config, log)
    }

    /// Starts a second broker on a database file. Its log is beside that of the first one.
    pub(crate) fn second(store: &Path, config: &Path) -> Self {
        let log = store.with_extension("second.log");
        Self::spawn_logged(program(), store, config, log)
    }

    /// Starts a broker of this build of the program on this address. The configuration names the store. The log is beside the
    /// configuration, and continues if there is one.
    pub(crate) fn of_build(path: &Path, address: SocketAddr, config: &Path) -> Self {
        let log = config.with_extension("log");
        let mut options = File::options();
        let error = options.create(true).append(true).open(&log);
        let error = error.expect("the log file opens");
        let (command, listen) = (program_of_build(path), address.to_string());
        Self::spawn_command(command, &listen, None, config, &[], (log, error.into()))
    }

    /// Starts a broker that listens on this address.
    pub(crate) fn listening(listen: &str, store: &Path, config: &Path) -> Self {
        let log = store.with_extension("log");
        let error = File::create(&log).expect("the log file is created");
        let log = (log, error.into());
        Self::spawn_command(program(), listen, Some(store), config, &[], log)
    }

    fn spawn_logged(command: Command, store: &Path, config: &Path, log: PathBuf) -> Self {
        let error = File::create(&log).expect("the log file is created");
        let log = (log, error.into());
        Self::spawn_command(command, ANY_PORT, Some(store), config, &[], log)
    }

    fn spawn(store: &Path, config: &Path, more: &[&str], error: Stdio) -> Self {
        let log = (store.with_extension("log"), error);
        Self::spawn_command(program(), ANY_PORT, Some(store), config, more, log)
    }

    fn spawn_command(
        mut command: Command,
        listen: &str,
        store: Option<&Path>,
        config: &Path,
        more: &[&str],
        (log, error): (PathBuf, Stdio),
    ) -> Self {
        command.args(["serve", "--listen", listen]);
        if let Some(store) = store {
            command.arg("--store").arg(store);
        }
        let mut child = command
            .arg("--config")
            .arg(config)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(error)
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut announcement = String::new();
        output
            .read_line(&mut announcement)
            .expect("a line is printed");
        let address = announcement
            .split_once("listens on ")
            .and_then(|(_, rest)| rest.split_once(','))
            .and_then(|(address, _)| address.parse().ok());
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        Self {
            address: address.unwrap_or_else(|| {
                panic!("the first line has no address: {announcement}{}", logged())
            }),
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

    /// Returns a channel that connects when the first call is made.
    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.url());
        endpoint.expect("the URL is valid").connect_lazy()
    }

    /// Kills the process without a chance to clean up, as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the process is running");
        self.child.wait().expect("the process ends");
    }

    /// Sends a signal, given by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        signal::send(&self.child, name);
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("the process ends")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("the state of the process is known")
            .is_none()
    }

    /// Returns the text that the process has written to standard error so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the address of the admin port, which is the last line that the process prints at its start.
    pub(crate) fn admin_address(&mut self) -> SocketAddr {
        loop {
            let line = self.next_line();
            assert_ne!(
                line,
                "",
                "the process printed no admin port: {}",
                self.log()
            );
            if let Some(address) = line.strip_prefix("admin port: http://") {
                return address.trim().parse().expect("an address");
            }
        }
    }

    /// Reads standard output until the process ends.
    pub(crate) fn rest_of_output(&mut self) -> String {
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        text
    }

    /// Reads the next line of standard output.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line is printed");
        line
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Parses standard output as one JSON object per line. Panics if the command failed.
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        assert_eq!(self.code, 0, "{self:?}");
        let lines = self.out.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("each line is JSON")
    }
}

/// Runs the program in `folder` to its end, without input.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> CommandOutput {
    run_with_input(folder, arguments, "")
}

/// Runs the program in `folder` to its end, with `input` as standard input.
pub(crate) fn run_with_input(folder: &Path, arguments: &[&str], input: &str) -> CommandOutput {
    let mut child = program()
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The result is ignored: a command that does not read its input can end before all of it is written.
    let _ = child
        .stdin
        .take()
        .expect("standard input is piped")
        .write_all(input.as_bytes());
    let output = child.wait_with_output().expect("the process ends");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("the output is UTF-8"),
        err: String::from_utf8(output.stderr).expect("the output is UTF-8"),
    }
}
