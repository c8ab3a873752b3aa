//! The rules of leases as a pure function: what one operation does to one row.
//!
//! Each operation of a store is one transaction, so its effect on a row depends on the row, the time and the operation alone.
//! [`step`] is this effect. The statements in `sql/` do the same on columns. The stores call the parts of this file for all that
//! they decide outside of a statement, and `tests/proof` compares every statement with [`step`] on every kind of row.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::millis::millis_rounded_up;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use uuid::Uuid;

use super::ended_leases::{Cancelled, EndedLease};
use super::settle::{Ending, Settled};

/// The columns of a row that decide about its lease. `O` identifies a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseRow<O = String> {
    /// The state of the item.
    pub state: State,
    /// The fencing token of the last lease. 0: the item was never leased.
    pub fence: i64,
    /// The number of attempts used.
    pub attempt: u32,
    /// The lease token. It stays after a settlement, so that the same settlement sent again is recognized.
    pub token: Option<Uuid>,
    /// The worker that holds the lease or held it last.
    pub owner: Option<O>,
    /// The due time, in milliseconds by the store's clock.
    pub due: Option<i64>,
}

impl EndedLease {
    /// Returns the row of the lease in this state, as it was when it was read.
    pub(crate) fn row(&self, state: State) -> LeaseRow<&str> {
        LeaseRow {
            state,
            fence: self.lease.fence,
            attempt: self.lease.attempt,
            token: (!self.lease.token.is_nil()).then_some(self.lease.token),
            owner: self.owner.as_deref(),
            due: Some(self.expire_time),
        }
    }
}

/// The proof that a caller had a lease on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseProof {
    /// The lease token.
    pub token: Uuid,
    /// The fencing token.
    pub fence: i64,
}

/// The way in which a worker ends a lease, as far as it decides about the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowEnding {
    /// The work is done.
    Complete,
    /// The work failed. The delay until the next attempt; `None`: the item becomes dead.
    Fail(Option<Duration>),
    /// The worker returns the item. The delay until it is ready.
    Release(Duration),
}

/// An operation on one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOperation<O> {
    /// A claim call with this token leases the row, if it is ready.
    Claim {
        /// The token of the call.
        token: Uuid,
        /// The worker.
        owner: O,
        /// The duration of the lease.
        duration: Duration,
        /// The fence of the epoch. The fencing token is greater.
        epoch_fence: i64,
    },
    /// Extends the lease, so that it lasts the given duration from now.
    Heartbeat(LeaseProof, Duration),
    /// Ends the lease.
    Settle(LeaseProof, RowEnding),
    /// Releases the lease that the claim call with this token got.
    ReleaseClaim(Uuid),
    /// Takes the lease away from its worker.
    Cancel {
        /// The fencing token of the lease. `None`: the lease that is held, whichever it is.
        fence: Option<i64>,
        /// The delay until the item is ready.
        delay: Duration,
        /// True: the item becomes dead.
        dead_letter: bool,
    },
    /// Ends the lease if it has expired, or makes the item ready if its delay is over.
    Reap {
        /// True: the store's clock was stepped forward, so leases give their attempts back.
        is_stepped: bool,
    },
    /// Makes the item ready, if it is dead.
    Redrive,
    /// Begins an epoch with this fence after a restore, so that leases of earlier epochs are over.
    BeginEpoch(i64),
}

/// The result of an operation for one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowOutcome {
    /// The operation does not concern the row.
    Unchanged,
    /// A claim has leased the row.
    Leased,
    /// The lease was extended.
    Extended,
    /// The lease of a heartbeat is not held.
    Lost {
        /// The state of the item. `None`: there is no row.
        state: Option<State>,
        /// True if the lease was cancelled and the item has not been claimed since.
        is_cancelled: bool,
    },
    /// The result of a settlement.
    Settled(Settled),
    /// The lease was released by the token of its claim.
    Released,
    /// The result of a cancellation.
    Cancelled(Cancelled),
    /// The lease has expired. The new state of the item.
    Expired(State),
    /// The delay is over, and the item is ready.
    Promoted,
    /// The item was dead and is ready.
    Redriven,
    /// The lease was one of an earlier epoch, and the item is ready.
    OfEarlierEpoch,
}

impl From<&Ending> for RowEnding {
    fn from(ending: &Ending) -> Self {
        match ending {
            Ending::Complete { .. } => Self::Complete,
            Ending::Fail { retry, .. } => Self::Fail(*retry),
            Ending::Release { delay } => Self::Release(*delay),
        }
    }
}

impl RowEnding {
    /// Returns the state of the item after this settlement has ended its lease, and the delay after which the item is ready.
    ///
    /// [`State::Completed`] also stands for a row that the queue removes.
    pub(crate) fn next_state(self, queue: &QueueSpec) -> (State, Option<Duration>) {
        match self {
            Self::Complete => match &queue.on_complete {
                OnComplete::Recur(interval) => (State::Delayed, Some(*interval)),
                OnComplete::Keep | OnComplete::Delete | OnComplete::Archive(_) => {
                    (State::Completed, None)
                }
            },
            Self::Fail(None) => (State::Dead, None),
            Self::Fail(Some(delay)) => (State::Delayed, Some(delay)),
            Self::Release(delay) => ready_after(delay),
        }
    }

    /// Returns the result of this settlement for a lease that has ended and whose row still has its tokens.
    ///
    /// The row shows which kind of settlement ended the lease. A completion leaves the state completed, or no attempts. A
    /// failure leaves the state dead, or at least one attempt and the owner. A release clears the owner.
    pub(crate) fn after_end(self, state: State, attempt: i64, has_owner: bool) -> Settled {
        let is_unfinished = matches!(state, State::Ready | State::Delayed);
        let is_same_kind = match self {
            Self::Complete => {
                state == State::Completed || (is_unfinished && attempt == 0 && has_owner)
            }
            Self::Fail(_) => state == State::Dead || (is_unfinished && attempt > 0 && has_owner),
            Self::Release(_) => is_unfinished && !has_owner,
        };
        if is_same_kind {
            Settled::Repeated(state)
        } else {
            Settled::Lost
        }
    }

    /// Returns the result of this settlement for a key that has no row.
    pub(crate) const fn without_row(self) -> Settled {
        match self {
            Self::Complete => Settled::Gone,
            Self::Fail(_) | Self::Release(_) => Settled::Lost,
        }
    }
}

/// Returns the fencing token of the next lease on a row. `None`: there is none left.
pub(crate) fn next_fence(fence: i64, epoch_fence: i64) -> Option<i64> {
    fence.max(epoch_fence).checked_add(1)
}

/// Returns the state of an item that becomes ready after a delay, and the delay. `None`: it is ready now.
pub(crate) fn ready_after(delay: Duration) -> (State, Option<Duration>) {
    if delay.is_zero() {
        (State::Ready, None)
    } else {
        (State::Delayed, Some(delay))
    }
}

/// Returns the time after a delay from now. A lease or a delay never ends early, so it is rounded up.
pub(crate) fn due_after(now: i64, delay: Duration) -> i64 {
    now.saturating_add(millis_rounded_up(delay))
}

impl<O: Clone> LeaseRow<O> {
    /// Returns a row that no claim has seen.
    pub const fn new() -> Self {
        Self {
            state: State::Ready,
            fence: 0,
            attempt: 0,
            token: None,
            owner: None,
            due: None,
        }
    }

    /// Returns whether the claim call with this token holds a lease on the row. A claim that is sent again gets such leases.
    pub fn is_leased_by(&self, token: Uuid, now: i64) -> bool {
        self.state == State::Leased
            && self.token == Some(token)
            && self.due.is_some_and(|due| due > now)
    }

    /// Returns whether the row shows this lease, also if it has ended.
    pub fn shows(&self, lease: LeaseProof) -> bool {
        self.token == Some(lease.token) && self.fence == lease.fence
    }

    /// Returns whether the lease is held.
    pub fn is_held(&self, lease: LeaseProof, now: i64) -> bool {
        self.fence == lease.fence && self.is_leased_by(lease.token, now)
    }

    /// Returns whether the item is a suspect: it is ready, and its last lease expired. Only expiry clears both the owner and the
    /// token of an item with used attempts, and so does a new epoch.
    pub fn is_suspect(&self) -> bool {
        self.state == State::Ready
            && self.attempt > 0
            && self.owner.is_none()
            && self.token.is_none()
    }

    /// Returns whether the last lease was cancelled. Only such rows have an owner and no token.
    fn was_cancelled(&self) -> bool {
        self.owner.is_some() && self.token.is_none()
    }

    fn enter(&mut self, now: i64, (state, delay): (State, Option<Duration>)) {
        self.state = state;
        self.due = delay.map(|delay| due_after(now, delay));
    }

    fn release(&mut self, now: i64, next: (State, Option<Duration>)) {
        self.attempt = self.attempt.saturating_sub(1);
        self.owner = None;
        self.enter(now, next);
    }

    fn settle(&mut self, queue: &QueueSpec, now: i64, ending: RowEnding) -> Settled {
        let next = ending.next_state(queue);
        match ending {
            RowEnding::Complete => {
                if next.0 != State::Completed {
                    self.attempt = 0;
                }
                self.enter(now, next);
            }
            RowEnding::Fail(_) => self.enter(now, next),
            RowEnding::Release(_) => self.release(now, next),
        }
        Settled::Ended(next.0)
    }

    fn cancel(
        &mut self,
        queue: &QueueSpec,
        now: i64,
        fence: Option<i64>,
        delay: Duration,
        dead_letter: bool,
    ) -> Cancelled {
        let is_meant = fence.is_none_or(|fence| fence == self.fence);
        if self.state != State::Leased {
            let state = self.state;
            return match fence {
                Some(fence) if is_meant && self.was_cancelled() => {
                    Cancelled::Repeated { state, fence }
                }
                _ => Cancelled::NotHeld(state),
            };
        }
        if !is_meant {
            return Cancelled::NotHeld(self.state);
        }
        let next = if dead_letter || queue.retry.is_exhausted(self.attempt) {
            (State::Dead, None)
        } else {
            RowEnding::Release(delay).next_state(queue)
        };
        self.enter(now, next);
        self.token = None;
        Cancelled::Ended {
            state: self.state,
            fence: self.fence,
        }
    }

    fn reap(&mut self, queue: &QueueSpec, now: i64, is_stepped: bool) -> RowOutcome {
        if self.due.is_none_or(|due| due > now) {
            return RowOutcome::Unchanged;
        }
        match self.state {
            State::Leased => {
                let is_dead = queue.retry.is_exhausted(self.attempt) && !is_stepped;
                let next = if is_dead { State::Dead } else { State::Ready };
                if is_stepped {
                    self.attempt = self.attempt.saturating_sub(1);
                }
                self.owner = None;
                self.token = None;
                self.enter(now, (next, None));
                RowOutcome::Expired(next)
            }
            State::Delayed => {
                self.enter(now, (State::Ready, None));
                RowOutcome::Promoted
            }
            State::Ready | State::Completed | State::Dead => RowOutcome::Unchanged,
        }
    }
}

impl<O: Clone> Default for LeaseRow<O> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the row after an operation at the time `now`, and the result of the operation. `None`: there is no row.
pub fn step<O: Clone>(
    queue: &QueueSpec,
    row: Option<&LeaseRow<O>>,
    now: i64,
    operation: &RowOperation<O>,
) -> (Option<LeaseRow<O>>, RowOutcome) {
    let Some(before) = row else {
        return (None, without_row(operation));
    };
    let mut row = before.clone();
    let outcome = match operation {
        RowOperation::Claim {
            token,
            owner,
            duration,
            epoch_fence,
        } => {
            let fence = next_fence(row.fence, *epoch_fence);
            let Some(fence) = fence.filter(|_| row.state == State::Ready) else {
                return (Some(row), RowOutcome::Unchanged);
            };
            row.fence = fence;
            row.attempt += 1;
            row.token = Some(*token);
            row.owner = Some(owner.clone());
            row.enter(now, (State::Leased, Some(*duration)));
            RowOutcome::Leased
        }
        RowOperation::Heartbeat(lease, duration) if row.is_held(*lease, now) => {
            row.due = Some(due_after(now, *duration));
            RowOutcome::Extended
        }
        RowOperation::Heartbeat(lease, _) => RowOutcome::Lost {
            state: Some(row.state),
            is_cancelled: row.fence == lease.fence && row.was_cancelled(),
        },
        RowOperation::Settle(lease, ending) if row.is_held(*lease, now) => {
            let settled = row.settle(queue, now, *ending);
            let is_removed = row.state == State::Completed && queue.on_complete.removes_row();
            let row = (!is_removed).then_some(row);
            return (row, RowOutcome::Settled(settled));
        }
        RowOperation::Settle(lease, ending) => {
            let has_ended = row.state != State::Leased && row.shows(*lease);
            RowOutcome::Settled(if has_ended {
                ending.after_end(row.state, row.attempt.into(), row.owner.is_some())
            } else {
                Settled::Lost
            })
        }
        RowOperation::ReleaseClaim(token) if row.is_leased_by(*token, now) => {
            row.release(now, (State::Ready, None));
            RowOutcome::Released
        }
        RowOperation::Cancel {
            fence,
            delay,
            dead_letter,
        } => RowOutcome::Cancelled(row.cancel(queue, now, *fence, *delay, *dead_letter)),
        RowOperation::Reap { is_stepped } => row.reap(queue, now, *is_stepped),
        RowOperation::Redrive if row.state == State::Dead => {
            row.attempt = 0;
            row.owner = None;
            row.token = None;
            row.enter(now, (State::Ready, None));
            RowOutcome::Redriven
        }
        RowOperation::BeginEpoch(fence) if row.state == State::Leased && row.fence <= *fence => {
            row.release(now, (State::Ready, None));
            row.token = None;
            RowOutcome::OfEarlierEpoch
        }
        RowOperation::ReleaseClaim(_) | RowOperation::Redrive | RowOperation::BeginEpoch(_) => {
            RowOutcome::Unchanged
        }
    };
    (Some(row), outcome)
}

/// Returns the result of an operation for a key that has no row.
fn without_row<O>(operation: &RowOperation<O>) -> RowOutcome {
    match operation {
        RowOperation::Heartbeat(..) => RowOutcome::Lost {
            state: None,
            is_cancelled: false,
        },
        RowOperation::Settle(_, ending) => RowOutcome::Settled(ending.without_row()),
        RowOperation::Cancel { .. } => RowOutcome::Cancelled(Cancelled::NoRow),
        RowOperation::Claim { .. }
        | RowOperation::ReleaseClaim(_)
        | RowOperation::Reap { .. }
        | RowOperation::Redrive
        | RowOperation::BeginEpoch(_) => RowOutcome::Unchanged,
    }
}
