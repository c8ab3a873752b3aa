//! Admission: which calls may run, and what they may hold.
//!
//! | file | content |
//! |---|---|
//! | `budget.rs`, `budgets.rs` | amounts of places and bytes, of which each caller gets a share |
//! | `ledger.rs` | the connections, what each holds, and which of them are trusted |
//! | `fair_queue.rs` | the order of calls that wait: callers take turns |
//! | `shedding.rs` | the refusal of calls that have waited too long for the store |
//! | `overload.rs` | the delay after which a refused call is sent again |

mod budget;
mod budgets;
mod fair_queue;
mod ledger;
mod overload;
mod shedding;

pub use self::budget::{Budget, Held, Importance};
pub use self::budgets::Budgets;
pub(super) use self::budgets::ClaimPlace;
pub(super) use self::fair_queue::Turn;
pub use self::fair_queue::{FairQueue, InTurn};
pub use self::ledger::{Account, Ledger, OpenAccount};
pub(super) use self::shedding::{Arrival, Arrivals, Shedding};
