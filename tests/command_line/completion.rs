//! Tests of the completion of command lines by the service and the database.

use std::time::{Duration, Instant};

use crate::command_line::workspace::Workspace;
use crate::support::process::program;

/// Returns the candidates for the last word of a line.
fn candidates(workspace: &Workspace, line: &[&str]) -> Vec<String> {
    let mut command = program();
    command
        .current_dir(workspace.folder.path())
        .args(["--", "lease-broker"])
        .args(line)
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", line.len().to_string())
        .env("_CLAP_IFS", "\n");
    let output = command.output().expect("a process");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{error}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

/// Asks for candidates until some come. On a busy machine the service can be too late for a person who waits.
fn patient_candidates(workspace: &Workspace, words: &[&str]) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let found = candidates(workspace, words);
        if !found.is_empty() || Instant::now() > end {
            return found;
        }
    }
}

#[test]
fn names_and_keys_come_from_the_service() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    workspace.call(&format!("fail work {id} --dead-letter"));
    workspace.lease();
    let url = workspace.process.as_ref().expect("a service").url();
    let line = |words: &[&str]| patient_candidates(&workspace, words);
    assert_eq!(line(&["stats", "--address", &url, "--ex"]), ["--exact"]);
    assert_eq!(line(&["list", "--address", &url, "w"]), ["work"]);
    assert_eq!(line(&["pause", "--address", &url, "o"]), ["outbox"]);
    assert_eq!(line(&["cancel", "--address", &url, "work", "2"]), ["2"]);
    assert_eq!(line(&["redrive", "--address", &url, "work", "1"]), ["1"]);
    assert_eq!(
        line(&["list", "work", "--state", "de"]),
        ["delayed", "dead"]
    );
    assert_eq!(line(&["claim", "--address", &url, "w"]), ["work"]);
    let brokers = line(&["drain", "--address", &url, ""]);
    assert!(brokers.iter().any(|id| id.len() == 36), "{brokers:?}");
}

#[test]
fn names_come_from_the_database_too() {
    let workspace = Workspace::serving();
    for command in ["show", "why"] {
        let line = [command, "--config", "queues.toml", "--store", "q.db", "w"];
        assert_eq!(patient_candidates(&workspace, &line), ["work"], "{command}");
    }
}

#[test]
fn completion_without_an_answer_is_silent_and_quick() {
    let workspace = Workspace::serving();
    let process = workspace.process.as_ref().expect("a service");
    process.signal("STOP");
    let begun = Instant::now();
    let url = process.url();
    let found = candidates(&workspace, &["list", "--address", &url, "w"]);
    process.signal("CONT");
    assert!(found.iter().all(|found| found != "work"), "{found:?}");
    // The limit is 300 ms. A busy machine starts the process late.
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    let nowhere = candidates(&workspace, &["list", "--address", "127.0.0.1:1", "w"]);
    assert!(nowhere.iter().all(|found| found != "work"), "{nowhere:?}");
}
