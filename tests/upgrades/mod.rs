//! Two versions on one database: lease ids of one are settled at the other, either can restart, and differing settings are
//! reported. Schema changes that are killed half way are finished by the next try.
//!
//! The tests with an earlier version need its program. `LEASE_BROKER_TEST_EARLIER` names it.

mod earlier_version;
mod golden;
mod interrupted;
mod settings;
