//! Tests of `stats --watch` in a pipe and on a terminal.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::command_line::terminal::Terminal;
use crate::command_line::workspace::Workspace;
use crate::support::process::program;
use crate::support::timeout::wait_until_blocking;

/// Starts `stats --watch` on the service, and returns it with the pipe that it writes to.
fn watch_in_a_pipe(workspace: &Workspace) -> (Child, BufReader<ChildStdout>) {
    let url = workspace.process.as_ref().expect("a service").url();
    let mut child = program()
        .args(["stats", "--watch", "--output", "json", "--address", &url])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    (child, out)
}

#[test]
fn pipe_gets_a_line_for_each_change() {
    let workspace = Workspace::serving();
    let (mut child, out) = watch_in_a_pipe(&workspace);
    let mut lines = out
        .lines()
        .map(|line| -> Value { serde_json::from_str(&line.expect("a line")).expect("JSON") });
    let first: Vec<Value> = lines.by_ref().take(2).collect();
    assert_eq!(
        (&first[0]["queue"], &first[1]["queue"]),
        (&json!("outbox"), &json!("work"))
    );
    workspace.call("enqueue work --set payload=x");
    let next = lines.next().expect("a line");
    assert_eq!(
        (&next["queue"], &next["ready"]),
        (&json!("work"), &json!(1))
    );
    assert!(next["time"].is_string(), "{next}");
    child.kill().expect("it ends");
    child.wait().expect("it ends");
}

#[test]
fn watch_ends_when_nobody_reads_it() {
    let workspace = Workspace::serving();
    let (mut child, mut out) = watch_in_a_pipe(&workspace);
    out.read_line(&mut String::new()).expect("a line");
    // Nothing changes any more, so nothing is written that could fail.
    drop(out);
    wait_until_blocking("the program ends", || {
        child.try_wait().expect("its state").is_some()
    });
    assert!(child.wait().expect("it has ended").success());
}

#[test]
fn terminal_is_drawn_again_and_cut() {
    let workspace = Workspace::serving();
    let url = workspace.process.as_ref().expect("a service").url();
    let arguments = ["stats", "--watch", "--address", &url];
    let mut terminal = Terminal::sized(workspace.folder.path(), &arguments, (60, 10));
    terminal.answer("Ctrl-C", "");
    terminal.answer("outbox", "");
    workspace.call("pause work --reason lunch");
    terminal.answer("claims", "");
    terminal.signal(Signal::TERM);
    let (_, screen) = terminal.end();
    let widest = screen.lines().map(|line| line.trim_end().chars().count());
    assert!(widest.max().unwrap_or(0) <= 80, "{screen:?}");
}

#[test]
fn table_is_cut_to_the_terminal() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    let error = "e".repeat(300);
    workspace.call(&format!("fail work {id} --dead-letter --error {error}"));
    let url = workspace.process.as_ref().expect("a service").url();
    let arguments = ["list", "work", "--state", "dead", "--address", &url];
    let terminal = Terminal::sized(workspace.folder.path(), &arguments, (100, 10));
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains('…') && screen.contains("eeee"), "{screen}");
    for line in screen.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let pipe = workspace.run(&arguments.join(" "));
    assert!(pipe.out.contains(&error), "{pipe:?}");
}
