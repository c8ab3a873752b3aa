//! `demo`: its checks pass at every size, a worker is killed even if the rows run out, workers of other languages share the table,
//! and its dashboard can be kept.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

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

#[test]
fn kept_demo_serves_its_dashboard_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = program()
        .args(["demo", "--events", "900", "--workers", "1", "--kill", "0"])
        .arg("--keep")
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut output = BufReader::new(child.stdout.take().expect("standard output is piped"));
    let dashboard = loop {
        let mut line = String::new();
        let read = output.read_line(&mut line).expect("a line");
        assert_ne!(read, 0, "the demo ended");
        if let Some(address) = line.strip_prefix("dashboard: http://") {
            break address.trim().parse().expect("an address");
        }
    };
    // Rows are added and completed, and some of them fail.
    wait_until_blocking("a row has failed", || {
        let page = get(dashboard, "/queues/rainfall").body;
        page.contains("is not calibrated")
    });
    signal::send(&child, "TERM");
    let status = child.wait().expect("the demo ends");
    assert!(status.success(), "{status}");
    assert!(TcpStream::connect(dashboard).is_err(), "the broker ended");
}
