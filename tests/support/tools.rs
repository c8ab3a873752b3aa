//! Programs that the tests of other languages run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns a Python that has grpcio and grpcio-tools, if there is one.
pub(crate) fn python_with_grpc() -> Option<PathBuf> {
    let python = std::env::var_os("LEASE_BROKER_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let mut check = Command::new(&python);
    check
        .args(["-c", "import grpc, grpc_tools, google.rpc"])
        .stderr(Stdio::null());
    check
        .status()
        .is_ok_and(|status| status.success())
        .then(|| python.into())
}

/// Generates the Python client into `folder`.
pub(crate) fn generate_python_client(python: &Path, folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut generate = Command::new(python);
    generate
        .args(["-m", "grpc_tools.protoc", "-I"])
        .arg(root.join("proto"))
        .args([
            "--python_out=.",
            "--grpc_python_out=.",
            "leasebroker/v1/lease_broker.proto",
        ])
        .current_dir(folder);
    run(&mut generate);
}

/// Runs a command to its end. Returns its standard output. Panics if it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}
