//! A small history for the tests of the checks. It breaks no promise until a test changes it.

use super::{Invariant, Violation, check};
use crate::chaos::history::{COMPLETED, Call, History, Row};
use crate::chaos::journal::{Answer, Asked, Ending, Granted, Lease};

pub(super) const SECOND: u64 = 1_000_000_000;

/// Two items, of which the first is completed.
pub(super) struct Example {
    pub(super) history: History,
    claims: usize,
}

impl Example {
    pub(super) fn new() -> Self {
        let row = |key: i64| Row {
            key,
            payload: format!("p-{key}"),
            state: 0,
            fence: 0,
            attempt: 0,
        };
        let mut example = Self {
            history: History {
                rows: vec![row(1), row(2)],
                ..History::default()
            },
            claims: 0,
        };
        let payloads = vec!["p-1".to_owned(), "p-2".to_owned()];
        let keys = vec![1, 2];
        example.add(
            0,
            Asked::Enqueue { payloads },
            Some(Answer::Enqueued { keys }),
        );
        example.claim(1, 1, SECOND, 10);
        example.settle(1, 1, Ending::Complete, 2 * SECOND, Some(1));
        example
    }

    pub(super) fn row(&mut self, key: i64) -> &mut Row {
        let mut rows = self.history.rows.iter_mut();
        rows.find(|row| row.key == key).expect("a row")
    }

    fn add(&mut self, sent: u64, asked: Asked, answer: Option<Answer>) {
        self.history.calls.push(Call {
            process: "worker".to_owned(),
            sent,
            asked,
            answered: answer.map(|answer| (sent + SECOND / 10, answer)),
        });
    }

    /// Adds a claim that returned this lease, with its own request id. It changes the row of an item that is not completed.
    pub(super) fn claim(&mut self, key: i64, fence: i64, sent: u64, seconds_left: u64) {
        self.claims += 1;
        let request_id = self.claims.to_string();
        let granted = Granted {
            lease: Lease { key, fence },
            attempt: fence,
            time_left_ms: seconds_left * 1_000,
        };
        let leases = vec![granted];
        self.add(
            sent,
            Asked::Claim { request_id },
            Some(Answer::Claimed { leases }),
        );
        let row = self.row(key);
        if row.state != COMPLETED {
            (row.fence, row.attempt) = (fence, fence);
        }
    }

    /// Adds a settlement with this outcome. `None`: it was not answered. A completion that may have been applied changes the row.
    pub(super) fn settle(
        &mut self,
        key: i64,
        fence: i64,
        ending: Ending,
        sent: u64,
        outcome: Option<i32>,
    ) {
        let lease = Lease { key, fence };
        let leases = vec![lease];
        let answer = outcome.map(|outcome| Answer::Settled {
            outcomes: vec![outcome],
        });
        self.add(sent, Asked::Settle { ending, leases }, answer);
        let is_first = self.row(key).state != COMPLETED;
        if ending == Ending::Complete && outcome != Some(2) && is_first {
            self.row(key).state = COMPLETED;
            self.history.follow_ups.push(format!("{key}:{fence}"));
        }
    }

    /// Adds a heartbeat. `seconds_left`: the time that the lease has left after it. `None`: it was refused.
    pub(super) fn heartbeat(&mut self, key: i64, fence: i64, sent: u64, seconds_left: Option<u64>) {
        let leases = vec![Lease { key, fence }];
        let time_left_ms = vec![seconds_left.map(|seconds| seconds * 1_000)];
        self.add(
            sent,
            Asked::Heartbeat { leases },
            Some(Answer::Extended { time_left_ms }),
        );
    }

    pub(super) fn assert_passes(&self) {
        let violations = check(&self.history);
        assert!(violations.is_empty(), "{violations:?}");
    }
}

/// Expects that a check finds one violation or more, and all of this promise.
pub(super) fn assert_only(
    invariant: Invariant,
    example: &Example,
    check: impl Fn(&History) -> Vec<Violation>,
) {
    let violations = check(&example.history);
    assert!(!violations.is_empty(), "{invariant:?} was not found");
    for violation in &violations {
        assert_eq!(violation.invariant, invariant, "{violations:?}");
    }
}
