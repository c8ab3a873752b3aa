//! Tests of the command line of `lease-broker-bench`. `tests/command_line/bench.rs` of the broker tests its runs.

use std::process::{Command, Output};

fn bench(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lease-broker-bench"))
        .args(arguments.split_whitespace())
        .output()
        .expect("the program runs")
}

#[test]
fn contradicting_flags_are_refused_by_name() {
    for (arguments, named) in [
        ("--batch 1001", "--batch"),
        ("--workers 0", "--workers"),
        ("--connections 0", "--connections"),
        (
            "--fail-ratio 0.6 --release-ratio 0.6",
            "--fail-ratio 0.6 and --release-ratio 0.6",
        ),
        ("--items 5 --fail-ratio 1", "--fail-ratio 1"),
        ("--fail-ratio 1.5", "--fail-ratio"),
        ("--hold-leases 5 --rate 5", "--hold-leases"),
        ("--hold-leases 5 --items 5", "--hold-leases"),
        ("--rate 0", "--rate"),
        ("--duration 0s", "--duration"),
        ("--items 5 --duration 1s", "--items"),
        ("--workers 2 --queues 3", "--queues 3"),
        ("--queue work", "--address"),
        ("--address localhost:1 --config queues.toml", "--config"),
        (
            "--address localhost:1 --on-complete delete",
            "--on-complete",
        ),
        ("--baseline direct", "--baseline"),
    ] {
        let printed = bench(arguments);
        assert_eq!(printed.status.code(), Some(64), "{arguments}: {printed:?}");
        let error = String::from_utf8_lossy(&printed.stderr);
        assert!(error.contains(named), "{arguments}: {error}");
    }
}

#[test]
fn help_shows_examples() {
    let printed = bench("--help");
    assert!(printed.status.success());
    let help = String::from_utf8_lossy(&printed.stdout);
    assert!(help.contains("lease-broker-bench --overload 10"), "{help}");
}
