//! The line that reports a skipped test and the reason.

use std::io::Write as _;

/// Writes `skipped: test`, the name of the test and the reason to standard error directly. Must be called on the thread of the
/// test. `.ci/summary` counts such a test as skipped and not as passed.
///
/// The test runner captures `eprintln!` and hides it if the test passes. A direct write is always visible.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unknown");
    // One write, so that the lines of tests that run at the same time do not mix.
    let line = format!("skipped: test {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
