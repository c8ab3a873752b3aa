//! The line that reports a skipped test and the reason.

use std::io::Write as _;

/// Writes `skipped:` and the reason to standard error directly.
///
/// The test runner captures `eprintln!` and hides it if the test passes. A direct write is always visible.
pub(crate) fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
