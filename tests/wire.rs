//! Tests of the SQL Server store against a scripted server on loopback that speaks TDS. They need no database.
//!
//! The server can be slow, broken, silent, hostile or absent. A real server would not behave so on request.

#[path = "wire/answers.rs"]
mod answers;
#[path = "wire/database.rs"]
mod database;
#[path = "wire/deadlocks.rs"]
mod deadlocks;
#[path = "wire/departed_callers.rs"]
mod departed_callers;
#[path = "wire/errors.rs"]
mod errors;
#[path = "wire/fixture.rs"]
mod fixture;
#[path = "harness/harness.rs"]
mod harness;
#[path = "wire/keepalive.rs"]
mod keepalive;
#[path = "wire/login.rs"]
mod login;
#[path = "wire/lost_connections.rs"]
mod lost_connections;
#[path = "wire/malformed_answers.rs"]
mod malformed_answers;
#[path = "wire/refused_logins.rs"]
mod refused_logins;
#[path = "wire/refused_settlements.rs"]
mod refused_settlements;
#[path = "wire/responder/responder.rs"]
mod responder;
#[path = "wire/round_trips.rs"]
mod round_trips;
#[path = "wire/sessions.rs"]
mod sessions;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "wire/stalled_servers.rs"]
mod stalled_servers;
#[path = "support/timeout.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod timeout;
#[path = "wire/tls.rs"]
mod tls;
#[path = "wire/unreachable_servers.rs"]
mod unreachable_servers;
