//! `demo`: its checks pass at every size, a worker is killed even if the rows run out, workers of other languages share the table,
//! and its dashboard can be kept.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::command_line::workspace::Workspace;
use crate::support::http::get;
use crate::support::process::{CommandOutput, program};
use crate::support::signal;
use crate::support::skipped::skipped;
use crate::support::timeout::wait_until_blocking;

/// Asserts that the demo passed, and returns its last line.
fn passed(printed: &CommandOutput) -> &str {
    assert_eq!(printed.code, 0, "{printed:?}");
    let line = printed
        .out
        .lines()
        .find(|line| line.starts_with("demo: ok"));
    line.unwrap_or_else(|| panic!("no verdict in {printed:?}"))
}

#[test]
fn rows_are_added_if_none_is_left_before_the_kill() {
    let workspace = Workspace::with("");
    // The only row is completed within milliseconds, long before the demo first looks for a worker to kill.
    let printed = workspace.run("demo --events 1 --workers 2 --batch 50 --lease 2s");
    let line = passed(&printed);
    assert!(line.contains("completed_twice=0 lost=0"), "{line}");
    assert!(!line.contains("takeovers=0"), "{line}");
    assert!(printed.out.contains("was killed"), "{printed:?}");
}

#[test]
fn several_workers_are_killed() {
    let workspace = Workspace::with("");
    let printed = workspace.run("demo --events 1000 --workers 3 --batch 20 --kill 2 --lease 2s");
    passed(&printed);
    let killed = printed.out.matches("was killed").count();
    assert_eq!(killed, 2, "{printed:?}");
}

#[test]
fn no_worker_is_killed_on_request() {
    let workspace = Workspace::with("");
    let printed = workspace.run("demo --events 200 --workers 1 --kill 0 --database kept.db");
    let line = passed(&printed);
    assert!(line.contains("events=200 completed=200"), "{line}");
    assert!(!printed.out.contains("was killed"), "{printed:?}");
    assert!(workspace.path("kept.db").exists());
}

#[test]
fn wrong_flags_exit_64() {
    let workspace = Workspace::with("");
    workspace.write("kept.db", "");
    for (flags, named) in [
        ("--workers 2 --kill 2", "--kill 2"),
        ("--database kept.db", "--database"),
        ("--lease 1ms", "--lease"),
    ] {
        let refused = workspace.run(&format!("demo {flags}"));
        assert_eq!(refused.code, 64, "{refused:?}");
        assert!(refused.err.contains(named), "{refused:?}");
    }
}

/// Runs the demo with this flag and these folders of programs.
fn demo_in(language: &str, path: &OsStr) -> CommandOutput {
    let folder = tempfile::tempdir().expect("a folder");
    let output = program()
        .args(["demo", "--events", "2000", "--batch", "50", "--lease", "5s"])
        .args(["--language", language])
        .current_dir(folder.path())
        // Go and Maven have caches in the home folder.
        .envs(std::env::var_os("HOME").map(|home| ("HOME", home)))
        .env("PATH", path)
        .output()
        .expect("the program starts");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("the output is UTF-8"),
        err: String::from_utf8(output.stderr).expect("the output is UTF-8"),
    }
}

/// Checks that workers of the language and built-in workers have completed rows, and that one was killed.
fn shares_the_table(language: &str) {
    // The workers build their library, which needs a network. `.ci/run` sets the variable.
    if std::env::var_os("LEASE_BROKER_TEST_CLIENTS").is_none() {
        return skipped(&format!(
            "demo --language {language}: LEASE_BROKER_TEST_CLIENTS is not set"
        ));
    }
    let printed = demo_in(language, &std::env::var_os("PATH").expect("PATH"));
    if printed.code == 69 {
        return skipped(&printed.err);
    }
    passed(&printed);
    // One worker is killed, perhaps in its first batch.
    for workers in [format!("{language}-"), "worker-".to_owned()] {
        let lines = printed
            .out
            .lines()
            .filter(|line| line.starts_with(&workers));
        let completed =
            lines.filter_map(|line| line.split_whitespace().nth(2)?.parse::<u32>().ok());
        let completed: u32 = completed.sum();
        assert_ne!(completed, 0, "{workers}… completed nothing: {printed:?}");
    }
    assert!(printed.out.contains("was killed"), "{printed:?}");
}

#[test]
fn python_workers_share_the_table() {
    shares_the_table("python");
}

#[test]
fn node_workers_share_the_table() {
    shares_the_table("node");
}

#[test]
fn go_workers_share_the_table() {
    shares_the_table("go");
}

#[test]
fn java_workers_share_the_table() {
    shares_the_table("java");
}

#[test]
fn missing_toolchain_exits_69_with_its_name() {
    // The script that looks for Go needs these programs.
    let path = tempfile::tempdir().expect("a folder");
    for name in ["bash", "dirname"] {
        let folders = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
        let found = folders.iter().find(|program| program.exists());
        let found = found.unwrap_or_else(|| panic!("no {name}"));
        symlink(found, path.path().join(name)).expect("a link");
    }
    let refused = demo_in("go", path.path().as_os_str());
    assert_eq!(refused.code, 69, "{refused:?}");
    assert!(
        refused.err.contains("--language go: go is missing"),
        "{refused:?}"
    );
}

/// A running demo in a process group of its own, as a shell starts it.
struct RunningDemo {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The folder for temporary files.
    folder: TempDir,
}

impl RunningDemo {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = program()
            .arg("demo")
            .args(flags)
            .env("TMPDIR", folder.path())
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        Self {
            child,
            output,
            folder,
        }
    }

    /// Returns the next line that contains `text`.
    fn line_with(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("a line");
            assert_ne!(read, 0, "the demo ended without {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends the signal of a key to all processes that the terminal knows.
    fn press(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).expect("sent");
    }

    /// Waits until the demo ends. Returns its exit code, its standard error and the folder.
    fn end(self) -> (Option<i32>, String, TempDir) {
        // The rest is read, so that the demo can print it.
        let mut output = self.output;
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let ended = self.child.wait_with_output().expect("the demo ends");
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.code(), error, self.folder)
    }
}

/// Returns whether a process has a file of this folder on its command line. Workers name their journals there.
fn is_used(folder: &Path) -> bool {
    let folder = folder.as_os_str().as_encoded_bytes();
    let processes = std::fs::read_dir("/proc").expect("a system with /proc");
    processes.flatten().any(|process| {
        let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        arguments.windows(folder.len()).any(|part| part == folder)
    })
}

#[test]
fn interrupted_demo_leaves_no_process_and_no_file() {
    for signal in ["INT", "TERM", "HUP"] {
        let mut demo = RunningDemo::start(&["--events", "100000"]);
        demo.line_with("held by: ");
        signal::send(&demo.child, signal);
        let (code, error, folder) = demo.end();
        assert_eq!(code, Some(1), "{signal}: {error}");
        assert!(error.contains("interrupted"), "{signal}: {error}");
        let left: Vec<_> = folder.path().read_dir().expect("a folder").collect();
        assert!(left.is_empty(), "{signal}: {left:?}");
        wait_until_blocking("the workers have ended", || !is_used(folder.path()));
    }
}

#[test]
fn workers_end_soon_after_a_killed_demo() {
    let mut demo = RunningDemo::start(&["--events", "100000"]);
    demo.line_with("held by: ");
    let start = Instant::now();
    signal::send(&demo.child, "KILL");
    let (_, _, folder) = demo.end();
    wait_until_blocking("the workers have ended", || !is_used(folder.path()));
    // A worker that stops takes at most 15 s.
    let taken = start.elapsed();
    assert!(taken < Duration::from_secs(30), "{taken:?}");
}

#[test]
fn kept_demo_ends_after_the_key_of_a_terminal() {
    for key in [Signal::INT, Signal::HUP] {
        let flags = ["--events", "100", "--workers", "1", "--kill", "0", "--keep"];
        let mut demo = RunningDemo::start(&flags);
        demo.line_with("dashboard: ");
        demo.press(key);
        let (code, error, folder) = demo.end();
        assert_eq!((code, error.as_str()), (Some(0), ""), "{key:?}");
        assert!(!is_used(folder.path()), "{key:?}");
    }
}

#[test]
fn kept_demo_serves_its_dashboard_until_it_is_told_to_stop() {
    let flags = ["--events", "900", "--workers", "1", "--kill", "0", "--keep"];
    let mut demo = RunningDemo::start(&flags);
    let line = demo.line_with("dashboard: ");
    let address = line.trim().strip_prefix("dashboard: http://");
    let dashboard = address.and_then(|address| address.parse().ok());
    let dashboard = dashboard.expect("an address");
    // Rows are added and completed, and some of them fail.
    wait_until_blocking("a row has failed", || {
        let page = get(dashboard, "/queues/rainfall").body;
        page.contains("is not calibrated")
    });
    signal::send(&demo.child, "TERM");
    let (code, error, _) = demo.end();
    assert_eq!(code, Some(0), "{error}");
    assert!(TcpStream::connect(dashboard).is_err(), "the broker ended");
}
