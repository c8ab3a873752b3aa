//! Every kind of row, and every operation on it.
//!
//! The effect of an operation depends on few facts: the state, whether the due time has passed, whether the tokens are equal, how
//! the fencing tokens compare, whether attempts are left. So all rows fall into a few hundred kinds. The replay runs each operation
//! on a row of each kind. Rows that no run of the protocol can reach are among them, because another program can write any row.

use std::collections::HashSet;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::{LeaseProof, LeaseRow, RowEnding, RowOperation};
use uuid::Uuid;

/// The number of attempts after which an item of the replay is dead.
pub const MAX_ATTEMPTS: u32 = 2;
/// The fencing token of each row of the replay.
pub const FENCE: i64 = 7;
/// The duration of the leases and delays that operations begin.
pub const DURATION: Duration = Duration::from_secs(7_200);
/// The distance of the due time of a row from now. It differs from [`DURATION`], so that a due time that was set is seen.
const DISTANCE_MILLIS: i64 = 3_600_000;

const OWN: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

/// Where the due time of a row lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Due {
    /// There is none.
    None,
    /// It has passed.
    Past,
    /// It is now, to the millisecond.
    Now,
    /// It is later.
    Later,
}

/// A kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKind {
    /// The state.
    pub state: State,
    /// The number of attempts used, 0 to 3.
    pub attempt: u32,
    /// Whether the row has a lease token.
    pub has_token: bool,
    /// Whether the row names a worker.
    pub has_owner: bool,
    /// The due time.
    pub due: Due,
}

impl RowKind {
    /// Returns all kinds. A leased row has at least one attempt, because a claim counts it.
    pub fn all() -> Vec<Self> {
        let mut kinds = Vec::new();
        for state in State::ALL {
            for attempt in 0..=MAX_ATTEMPTS + 1 {
                for (has_token, has_owner) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    for due in [Due::None, Due::Past, Due::Now, Due::Later] {
                        if state != State::Leased || attempt > 0 {
                            kinds.push(Self {
                                state,
                                attempt,
                                has_token,
                                has_owner,
                                due,
                            });
                        }
                    }
                }
            }
        }
        kinds
    }

    /// Returns the kind of a row at the time `now`.
    pub fn of<O>(row: &LeaseRow<O>, now: i64) -> Self {
        Self {
            state: row.state,
            attempt: row.attempt,
            has_token: row.token.is_some(),
            has_owner: row.owner.is_some(),
            due: match row.due {
                None => Due::None,
                Some(due) if due < now => Due::Past,
                Some(due) if due == now => Due::Now,
                Some(_) => Due::Later,
            },
        }
    }

    /// Returns a row of this kind at the time `now`. Its token is `token`.
    pub fn row(self, now: i64, token: Uuid) -> LeaseRow<String> {
        LeaseRow {
            state: self.state,
            fence: FENCE,
            attempt: self.attempt,
            token: self.has_token.then_some(token),
            owner: self.has_owner.then(|| "worker".to_owned()),
            due: match self.due {
                Due::None => None,
                Due::Past => Some(now - DISTANCE_MILLIS),
                Due::Now => Some(now),
                Due::Later => Some(now + DISTANCE_MILLIS),
            },
        }
    }
}

/// The kinds and the operations of the replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    kinds: HashSet<RowKind>,
    operations: HashSet<RowOperation<()>>,
}

impl Default for Replayed {
    fn default() -> Self {
        Self {
            kinds: RowKind::all().into_iter().collect(),
            operations: operations().into_iter().collect(),
        }
    }
}

impl Replayed {
    /// Returns whether the replay runs an operation of this kind on a row of this kind.
    pub fn contains<O>(&self, row: &LeaseRow<O>, now: i64, operation: &RowOperation<O>) -> bool {
        self.kinds.contains(&RowKind::of(row, now))
            && self.operations.contains(&normal(operation, row))
    }
}

/// Returns an operation as the replay has it: relative to the fencing token and the token of the row, and with durations that are
/// zero or [`DURATION`].
pub fn normal<O>(operation: &RowOperation<O>, row: &LeaseRow<O>) -> RowOperation<()> {
    let token = |token: Uuid| if row.token == Some(token) { OWN } else { OTHER };
    let fence = |fence: i64| FENCE + (fence - row.fence).signum();
    let proof = |lease: LeaseProof| LeaseProof {
        token: token(lease.token),
        fence: fence(lease.fence),
    };
    let time = |time: Duration| if time.is_zero() { time } else { DURATION };
    match operation {
        RowOperation::Claim {
            duration,
            epoch_fence,
            ..
        } => RowOperation::Claim {
            token: OTHER,
            owner: (),
            duration: time(*duration),
            epoch_fence: fence(*epoch_fence),
        },
        RowOperation::Heartbeat(lease, duration) => {
            RowOperation::Heartbeat(proof(*lease), time(*duration))
        }
        RowOperation::Settle(lease, ending) => {
            let ending = match ending {
                RowEnding::Complete => RowEnding::Complete,
                RowEnding::Fail(delay) => RowEnding::Fail(delay.map(time)),
                RowEnding::Release(delay) => RowEnding::Release(time(*delay)),
            };
            RowOperation::Settle(proof(*lease), ending)
        }
        RowOperation::ReleaseClaim(of) => RowOperation::ReleaseClaim(token(*of)),
        RowOperation::Cancel {
            fence: of,
            delay,
            dead_letter,
        } => RowOperation::Cancel {
            fence: of.map(fence),
            delay: time(*delay),
            dead_letter: *dead_letter,
        },
        RowOperation::Reap { is_stepped } => RowOperation::Reap {
            is_stepped: *is_stepped,
        },
        RowOperation::Redrive => RowOperation::Redrive,
        RowOperation::BeginEpoch(of) => RowOperation::BeginEpoch(fence(*of)),
    }
}

/// Returns all operations. Tokens are as in [`normal`]: those of the row and others. Fences of epochs rise, as in a database.
pub fn operations() -> Vec<RowOperation<()>> {
    let claim = |epoch_fence| RowOperation::Claim {
        token: OTHER,
        owner: (),
        duration: DURATION,
        epoch_fence,
    };
    let mut operations = vec![
        claim(FENCE - 1),
        claim(FENCE),
        claim(FENCE + 1),
        RowOperation::ReleaseClaim(OWN),
        RowOperation::ReleaseClaim(OTHER),
        RowOperation::Reap { is_stepped: false },
        RowOperation::Reap { is_stepped: true },
        RowOperation::Redrive,
    ];
    for token in [OWN, OTHER] {
        for fence in [FENCE - 1, FENCE, FENCE + 1] {
            let lease = LeaseProof { token, fence };
            operations.push(RowOperation::Heartbeat(lease, DURATION));
            let endings = [
                RowEnding::Complete,
                RowEnding::Fail(Some(DURATION)),
                RowEnding::Fail(Some(Duration::ZERO)),
                RowEnding::Fail(None),
                RowEnding::Release(Duration::ZERO),
                RowEnding::Release(DURATION),
            ];
            operations.extend(endings.map(|ending| RowOperation::Settle(lease, ending)));
        }
    }
    for fence in [None, Some(FENCE - 1), Some(FENCE), Some(FENCE + 1)] {
        for (delay, dead_letter) in [
            (Duration::ZERO, false),
            (DURATION, false),
            (Duration::ZERO, true),
        ] {
            operations.push(RowOperation::Cancel {
                fence,
                delay,
                dead_letter,
            });
        }
    }
    operations.push(RowOperation::BeginEpoch(FENCE + 1));
    operations
}

/// Returns the operation for a row with this token and this owner of new leases.
pub fn on_row<O: Clone>(operation: RowOperation<()>, own: Uuid, owner: &O) -> RowOperation<O> {
    let token = |token: Uuid| if token == OWN { own } else { OTHER };
    let proof = |lease: LeaseProof| LeaseProof {
        token: token(lease.token),
        ..lease
    };
    match operation {
        RowOperation::Claim {
            duration,
            epoch_fence,
            ..
        } => RowOperation::Claim {
            token: OTHER,
            owner: owner.clone(),
            duration,
            epoch_fence,
        },
        RowOperation::Heartbeat(lease, duration) => RowOperation::Heartbeat(proof(lease), duration),
        RowOperation::Settle(lease, ending) => RowOperation::Settle(proof(lease), ending),
        RowOperation::ReleaseClaim(of) => RowOperation::ReleaseClaim(token(of)),
        RowOperation::Cancel {
            fence,
            delay,
            dead_letter,
        } => RowOperation::Cancel {
            fence,
            delay,
            dead_letter,
        },
        RowOperation::Reap { is_stepped } => RowOperation::Reap { is_stepped },
        RowOperation::Redrive => RowOperation::Redrive,
        RowOperation::BeginEpoch(fence) => RowOperation::BeginEpoch(fence),
    }
}
