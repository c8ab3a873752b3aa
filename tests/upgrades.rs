//! Two versions on one database: lease ids of one are settled at the other, either can restart, and differing settings are
//! reported.
//!
//! The tests with an earlier version need its program. `LEASE_BROKER_TEST_EARLIER` names it.

#[path = "harness/harness.rs"]
mod harness;
mod support;

#[path = "upgrades/earlier_program.rs"]
mod earlier_program;
#[path = "upgrades/earlier_version.rs"]
mod earlier_version;
#[path = "upgrades/golden.rs"]
mod golden;
#[path = "sql_server/program.rs"]
#[allow(dead_code, reason = "another target uses the rest")]
mod program;
#[path = "upgrades/settings.rs"]
mod settings;
#[path = "support/skipped.rs"]
mod skipped;
