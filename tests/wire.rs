//! The SQL Server store over real TDS, against a scripted server on loopback: what a broker makes of a server that is slow,
//! broken, silent, hostile or gone. No database is needed.

#[path = "wire/answers.rs"]
mod answers;
#[path = "wire/callers.rs"]
mod callers;
#[path = "wire/cuts.rs"]
mod cuts;
#[path = "wire/database.rs"]
mod database;
#[path = "wire/deadlocks.rs"]
mod deadlocks;
#[path = "wire/dialling.rs"]
mod dialling;
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
#[path = "wire/refused_logins.rs"]
mod refused_logins;
#[path = "wire/responder/responder.rs"]
mod responder;
#[path = "wire/round_trips.rs"]
mod round_trips;
#[path = "wire/sessions.rs"]
mod sessions;
#[path = "wire/shapes.rs"]
mod shapes;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "wire/stalls.rs"]
mod stalls;
#[path = "support/timeout.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod timeout;
#[path = "wire/tls.rs"]
mod tls;
