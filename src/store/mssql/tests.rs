//! Tests of the SQL Server store that need its private parts: snapshots of the rendered statements, the query plans
//! that a server chooses for them, adoption on editions that write every row when they add a column, and properties of tables
//! that only SQL Server has.

mod catalogue;
mod editions;
mod hint_rules;
mod query_plans;
mod snapshots;

use std::io::Write as _;

/// Returns the connection string of the server for tests. Without one, writes a line that says why the test is skipped. The line
/// does not go through `eprintln!`, which the test runner hides if the test passes.
pub(super) fn test_server() -> Option<String> {
    let server = std::env::var("LEASE_BROKER_TEST_MSSQL").ok();
    if server.is_none() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("unknown");
        let line = format!("skipped: test {test}: LEASE_BROKER_TEST_MSSQL is not set\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    server
}
