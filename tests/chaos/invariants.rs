//! The promises that hold for every run, and the checks of a history against them.
//!
//! An operation whose answer is unknown may have happened. A check never counts it as failed.

#[path = "invariants/answers.rs"]
mod answers;
#[path = "invariants/attempts.rs"]
mod attempts;
#[path = "invariants/completions.rs"]
mod completions;
#[path = "invariants/example.rs"]
mod example;
#[path = "invariants/items.rs"]
mod items;
#[path = "invariants/leases.rs"]
mod leases;

use std::fmt;

use crate::chaos::history::History;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// Each acknowledged item is in the table.
    NothingLost,
    /// Each row was sent by a producer, and none is there twice.
    NothingInvented,
    /// At most one lease of an item completes it.
    CompletedOnce,
    /// No lease begins before the one before it has ended.
    NoOverlap,
    /// A lease is not lost before it has expired or was settled.
    HeldIsKept,
    /// A call with a lease is refused if it is sent after another worker got the item.
    LateIsRefused,
    /// A fencing token belongs to one claim, and grows with each.
    Fences,
    /// A completed item has one follow-up, with the fencing token of its completion.
    FollowUps,
    /// The row's number of attempts is the number of claims without those that were released.
    Attempts,
    /// Calls end in time, and with documented errors.
    Answers,
    /// All items are completed soon after the last fault.
    Progress,
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) text: String,
}

impl Violation {
    pub(crate) fn new(invariant: Invariant, text: String) -> Self {
        Self { invariant, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.text)
    }
}

/// Returns everything in which a history breaks a promise. [`Invariant::Progress`] is checked while the run lasts.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let stories = history.stories();
    let mut violations = Vec::new();
    items::check(history, &mut violations);
    leases::check(history, &stories, &mut violations);
    completions::check(history, &stories, &mut violations);
    attempts::check(history, &stories, &mut violations);
    answers::check(history, &mut violations);
    violations
}
