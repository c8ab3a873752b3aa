//! Tests of the SQL Server store against a scripted server on loopback that speaks TDS. They need no database.
//!
//! The server can be slow, broken, silent, hostile or absent. A real server would not behave so on request.

mod answers;
mod database;
mod deadlocks;
mod departed_callers;
mod errors;
mod fixture;
mod generations;
mod keepalive;
mod keys;
mod locked_rows;
mod login;
mod lost_connections;
mod lost_logins;
mod malformed_answers;
mod masked_columns;
mod probes;
mod random_answers;
mod refused_logins;
mod refused_settlements;
#[path = "responder/responder.rs"]
mod responder;
mod round_trips;
mod sessions;
mod silent_failures;
mod slow_reapers;
mod stalled_servers;
mod tls;
mod unreachable_servers;
mod unread_claims;
