//! Models of the lease protocol, which are checked exhaustively. `docs/proof.md` explains them for engineers who do not know model
//! checking.
//!
//! A *model* is a small program with a state and actions. The checker visits every state that any order of actions can reach, and
//! looks at each whether the promises hold. [`lease`] is the model of the protocol as it ships, over the function
//! [`step`](lease_broker_store::step) that the stores use. [`engine`] is the model of a database that ignores lock hints. The
//! others are models of rules over several rows. [`suspects`] is the list of suspects for
//! stores of tests.
//!
//! [`domain`] lists every kind of row and every operation. The replay runs all of them through the stores.

pub mod check;
pub mod domain;
pub mod engine;
pub mod group;
pub mod lease;
pub mod operation;
pub mod pause;
pub mod poison;
pub mod suspects;
#[path = "../../src/store/test_queue.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod test_queue;
