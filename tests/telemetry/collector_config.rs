//! The collector's configuration in `deploy`, validated by a real collector if one is installed.

use std::process::Command;

use crate::support::skipped::skipped;

/// Names under which collectors are installed.
const COLLECTORS: [&str; 2] = ["otelcol", "otelcol-contrib"];

#[test]
fn collector_accepts_the_configuration() {
    let is_installed = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(collector) = COLLECTORS.iter().find(is_installed) else {
        skipped("no OpenTelemetry collector (otelcol) is installed");
        return;
    };
    let validated = Command::new(collector)
        .args(["validate", "--config", "deploy/otel-collector.yaml"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the collector runs");
    assert!(validated.status.success(), "{validated:?}");
}
