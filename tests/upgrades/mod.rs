//! Two versions on one database: lease ids of one are settled at the other, either can restart, and differing settings are
//! reported.
//!
//! The tests with an earlier version need its program. `LEASE_BROKER_TEST_EARLIER` names it.

mod earlier_version;
mod golden;
mod settings;
