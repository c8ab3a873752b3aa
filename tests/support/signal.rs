//! Sends signals to the programs of a test.

use std::process::{Child, Command};

/// Sends a signal, given by its name without SIG.
pub(crate) fn send(process: &Child, name: &str) {
    let id = process.id().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &id])
        .status();
    assert!(sent.expect("kill runs").success());
}
