//! The admin port: an HTTP/1.1 server for probes, metrics scrapes and operators.
//!
//! | path | answer |
//! |---|---|
//! | `GET /livez` | 200 while the process runs its tasks, otherwise 503 |
//! | `GET /readyz` | 200 while the broker serves calls, otherwise 503 with the reasons |
//! | `GET /metrics` | all metrics as Prometheus text |
//! | `GET /version` | version, build and start time |
//! | `GET /debug/queues` | the configuration and the counters of each queue |
//! | `GET /debug/connections` | what each connection and each caller holds |
//! | `GET`, `PUT /log/level` | the level of the log |
//! | `/` and below | the dashboard (`pages.rs`) |
//!
//! No request but those of the dashboard reaches the database. The server has a thread and a runtime of its own, so it also answers while all
//! threads that serve calls are busy. Only the dashboard has a login, and only its answers contain rows. It answers no page of
//! another site (`host_check.rs`), and no client keeps the others out (`seats.rs`).

mod answers;
mod connections;
mod host_check;
mod log_level;
mod pages;
mod pulse;
mod queues;
mod routes;
mod seats;
mod server;
mod state;

pub use self::pages::Sessions;
pub use self::pulse::Pulse;
pub use self::server::{AdminPort, start};
pub use self::state::AdminState;
