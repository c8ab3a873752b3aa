//! Tests of `top` on a terminal.

use rustix::process::Signal;
use serde_json::json;

use crate::command_line::terminal::Terminal;
use crate::command_line::workspace::Workspace;

#[test]
fn top_shows_queues_and_pauses_one() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    workspace.call(&format!("fail work {id} --dead-letter --error hopeless"));
    workspace.call("enqueue work --set payload=x");
    workspace.call("claim work --worker somebody");
    let url = workspace.process.as_ref().expect("a service").url();
    let arguments = ["top", "--address", &url];
    let mut terminal = Terminal::sized(workspace.folder.path(), &arguments, (100, 30));
    // The last failures are drawn below the queues and the leases.
    terminal.answer("hopeless", "");
    // The second queue is `work`.
    terminal.answer("", "jp");
    terminal.answer("Reason", "lunch\r");
    terminal.answer("lunch", "");
    let paused = || {
        let stats = workspace.call("stats").json();
        let work = stats.into_iter().find(|row| row["queue"] == "work");
        work.expect("a row")["pause_reason"].clone()
    };
    crate::support::timeout::wait_until_blocking("it is paused", || paused() == json!("lunch"));
    terminal.answer("claims", "p");
    terminal.answer("[y/N]", "y");
    crate::support::timeout::wait_until_blocking("it is resumed", || paused().is_null());
    terminal.answer("", "\r");
    terminal.answer("table", "\u{1b}");
    terminal.answer("", "q");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    // The screen of the shell comes back.
    assert!(screen.contains("\u{1b}[?1049l"), "{screen:?}");
}

#[test]
fn signals_that_end_top_give_the_screen_back() {
    let workspace = Workspace::serving();
    let url = workspace.process.as_ref().expect("a service").url();
    for signal in [Signal::INT, Signal::TERM] {
        let arguments = ["top", "--address", &url];
        let mut terminal = Terminal::sized(workspace.folder.path(), &arguments, (100, 30));
        terminal.answer("work", "");
        terminal.signal(signal);
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(0), "{signal:?}: {screen}");
        assert!(screen.contains("\u{1b}[?1049l"), "{signal:?}: {screen:?}");
    }
}

#[test]
fn top_needs_a_terminal_and_a_service() {
    let workspace = Workspace::serving();
    let pipe = workspace.run("top");
    assert_eq!(pipe.code, 64, "{pipe:?}");
    assert!(pipe.err.contains("stats --watch"), "{pipe:?}");
}
