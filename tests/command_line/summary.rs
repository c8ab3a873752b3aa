//! The summary at the end of `.ci/run`.

use std::path::Path;
use std::process::Command;

/// Parts of a log: two targets, a check that was skipped, and the tests of a second build.
const LOG: &str = "     Running unittests src/lib.rs (target/debug/deps/lease_broker-1)
skipped: test store::plans: LEASE_BROKER_TEST_MSSQL is not set
test store::plans ... ok
test text::short ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/api.rs (target/debug/deps/api-1)
skipped: test store::plans: no server
skipped: test store::plans: and no Python either
skipped: test half: no Python
test half ... FAILED
test store::plans ... ok
test whole ... ok
test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

skipped: the Go library was not checked: go is missing
skipped: go: the toolchain is missing
";

fn summary(log: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tests.log");
    std::fs::write(&file, log).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/summary");
    let output = Command::new(script).arg(file).output();
    let output = output.expect("the script runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn skipped_tests_are_not_counted_as_passed() {
    let printed = summary(LOG);
    // One test of each target is skipped, and two checks. A failed test counts once.
    let last = printed.lines().last();
    assert_eq!(last, Some("2 passed, 1 failed, 4 skipped"), "{printed}");
    assert!(printed.contains("test half ... FAILED"), "{printed}");
}

#[test]
fn skipped_tests_of_a_run_with_one_thread_are_counted() {
    // The runner prints the name of a test before it runs.
    let log = "     Running tests/api.rs (target/debug/deps/api-1)
test one ... skipped: test main: no server
ok
test two ... skipped: test main: no server
ok
test three ... ok
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";
    let printed = summary(log);
    let last = printed.lines().last();
    assert_eq!(last, Some("1 passed, 0 failed, 2 skipped"), "{printed}");
}
