//! The worker library: claims items, calls a handler for each, keeps their leases alive, and reports how they ended.
//!
//! A [`Worker`] works on one queue. A [`Client`] adds items to queues and wakes waiting claims.
//!
//! ```no_run
//! use lease_broker_client::{Context, Done, HandlerError, Item, Worker};
//!
//! async fn price(item: Item, _context: Context) -> Result<Done, HandlerError> {
//!     println!("order {} of {}", item.key(), item.text("Customer")?);
//!     Ok(Done::new().column("Total", 12.5))
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     Worker::new("127.0.0.1:50052", "orders").concurrency(8).main(price)
//! }
//! ```
//!
//! # Threads
//!
//! Handlers run on the caller's tokio runtime. The worker has two threads of its own, each with a runtime and a
//! connection: one for claims and settlements, one for heartbeats. A handler that blocks its thread delays neither.
//!
//! # Modules
//!
//! ```text
//! worker ─► poller, settler, keeper ─► state ─► runners ─► the handler
//!           └──────── calls ─► transport
//! ```
//!
//! The three tasks share `state`, a set of slots, leases, running handlers and endings behind one lock.

mod builder;
mod calls;
mod connection;
mod context;
mod control;
mod credentials;
mod endings;
mod errors;
mod events;
mod failure;
mod gathering;
mod handler_error;
mod health;
mod item;
mod keeper;
mod leases;
#[cfg(test)]
mod memory_log;
mod middleware;
#[cfg(test)]
mod mistakes;
mod options;
mod poller;
mod producer;
mod runners;
mod running;
mod settler;
mod signals;
mod state;
mod stop;
mod transport;
mod values;
#[cfg(test)]
mod vectors;
mod way;
mod worker;

pub use self::connection::Connection;
pub use self::context::{Cancelled, Cause, Context};
pub use self::credentials::{Credentials, Pem, Tls, Token};
pub use self::endings::{BatchDone, Done};
pub use self::errors::{Applied, CallError, WorkerError};
pub use self::events::{Event, EventName, RetriedCall};
pub use self::handler_error::{DeadLetter, HandlerError, Release, Retry};
pub use self::item::{ColumnError, Item};
pub use self::middleware::Next;
pub use self::producer::{Client, EnqueueError};
pub use self::running::{RunningWorker, run_all};
pub use self::values::{NewItem, Row};
pub use self::worker::Worker;
pub use lease_broker_value::Value;
