//! `demo`: its checks pass at every size, and a worker is killed even if the rows run out.

use crate::support::process::CommandOutput;
use crate::workspace::Workspace;

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
    let printed = workspace.run("demo --events 200 --workers 1 --kill 0 --keep kept.db");
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
        ("--keep kept.db", "--keep"),
        ("--lease 1ms", "--lease"),
    ] {
        let refused = workspace.run(&format!("demo {flags}"));
        assert_eq!(refused.code, 64, "{refused:?}");
        assert!(refused.err.contains(named), "{refused:?}");
    }
}
