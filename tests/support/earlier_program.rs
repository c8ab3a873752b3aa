//! The program of an earlier version, for tests that run it beside this one.

use std::path::PathBuf;

use crate::support::skipped::skipped;

/// Returns the program. Without one it prints a line.
pub(crate) fn earlier_program() -> Option<PathBuf> {
    let program = std::env::var_os("LEASE_BROKER_TEST_EARLIER");
    if program.is_none() {
        skipped("an earlier version on the same database: LEASE_BROKER_TEST_EARLIER is not set");
    }
    program.map(PathBuf::from)
}
