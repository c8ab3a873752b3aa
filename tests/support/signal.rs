//! Sends signals to the programs of a test.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use crate::support::timeout::wait_until_blocking;

/// Sends a signal, given by its name without SIG. After STOP the process has stopped: on a busy machine its threads can go on
/// for a while after the signal was sent.
pub(crate) fn send(process: &Child, name: &str) {
    let id = process.id().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &id])
        .status();
    assert!(sent.expect("kill runs").success());
    if name == "STOP" {
        let threads = Path::new("/proc").join(id).join("task");
        wait_until_blocking("the process has stopped", || has_stopped(&threads));
    }
}

/// Returns whether no thread in this folder runs. Without such a folder nothing is known, so the answer is yes.
fn has_stopped(threads: &Path) -> bool {
    let Ok(mut threads) = fs::read_dir(threads) else {
        return true;
    };
    threads.all(|thread| {
        let status = thread.and_then(|thread| fs::read_to_string(thread.path().join("status")));
        // A thread without a status has ended.
        status.map_or(true, |status| status.contains("State:\tT"))
    })
}
