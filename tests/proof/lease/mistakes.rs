//! Deliberate mistakes in the store. The checker must find each of them. A checker that finds no mistake proves nothing.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{LeaseProof, LeaseRow, RowOperation, RowOutcome, Settled, step};

use super::world::WorkerId;

/// A mistake in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say what the store does wrong")]
pub enum Mistake {
    SettleIgnoresFence,
    SettleIgnoresToken,
    SettleIgnoresExpiry,
    HeartbeatIgnoresFence,
    HeartbeatIgnoresExpiry,
    ClaimKeepsFence,
    ClaimKeepsAttempt,
    ClaimTakesLeasedRows,
    ReleaseKeepsAttempt,
    ReapIgnoresDueTime,
    ExpiryKeepsToken,
    ExpiryIgnoresMaxAttempts,
    ExpiryIgnoresClockStep,
    CancelKeepsToken,
    RedriveKeepsToken,
    RedriveKeepsAttempts,
    RepeatIgnoresKind,
    ClaimIgnoresEpoch,
    RestoreKeepsLeases,
}

type Row = LeaseRow<WorkerId>;
type Operation = RowOperation<WorkerId>;

impl Mistake {
    /// Does what a store with this mistake does.
    pub(super) fn step(
        self,
        queue: &QueueSpec,
        row: Option<&Row>,
        now: i64,
        operation: &Operation,
    ) -> (Option<Row>, RowOutcome) {
        let Some(before) = row else {
            return step(queue, row, now, operation);
        };
        let (operation, now) = self.change_input(before, now, operation);
        let mut taken = *before;
        let takes_leased = self == Self::ClaimTakesLeasedRows && before.state == State::Leased;
        if takes_leased && matches!(operation, RowOperation::Claim { .. }) {
            taken.state = State::Ready;
        }
        let (mut after, mut outcome) = step(queue, Some(&taken), now, &operation);
        if let Some(after) = &mut after {
            self.change_row(before, after, &mut outcome);
        }
        if let (Self::RepeatIgnoresKind, RowOperation::Settle(lease, _)) = (self, operation)
            && outcome == RowOutcome::Settled(Settled::Lost)
            && before.state != State::Leased
            && before.shows(lease)
        {
            outcome = RowOutcome::Settled(Settled::Repeated(before.state));
        }
        (after, outcome)
    }

    fn change_input(self, row: &Row, now: i64, operation: &Operation) -> (Operation, i64) {
        let with_own_fence = |lease: LeaseProof| LeaseProof {
            fence: row.fence,
            ..lease
        };
        let before_expiry = match (row.state, row.due) {
            (State::Leased, Some(due)) => now.min(due - 1),
            _ => now,
        };
        match (self, *operation) {
            (Self::SettleIgnoresFence, RowOperation::Settle(lease, ending)) => {
                (RowOperation::Settle(with_own_fence(lease), ending), now)
            }
            (Self::SettleIgnoresToken, RowOperation::Settle(lease, ending)) => {
                let token = row.token.unwrap_or(lease.token);
                let lease = LeaseProof { token, ..lease };
                (RowOperation::Settle(lease, ending), now)
            }
            (Self::HeartbeatIgnoresFence, RowOperation::Heartbeat(lease, duration)) => (
                RowOperation::Heartbeat(with_own_fence(lease), duration),
                now,
            ),
            (Self::SettleIgnoresExpiry, RowOperation::Settle(..))
            | (Self::HeartbeatIgnoresExpiry, RowOperation::Heartbeat(..)) => {
                (*operation, before_expiry)
            }
            (Self::ReapIgnoresDueTime, RowOperation::Reap { .. }) => {
                (*operation, row.due.unwrap_or(now))
            }
            (Self::ExpiryIgnoresClockStep, RowOperation::Reap { .. }) => {
                (RowOperation::Reap { is_stepped: false }, now)
            }
            _ => (*operation, now),
        }
    }

    fn change_row(self, before: &Row, after: &mut Row, outcome: &mut RowOutcome) {
        match (self, &mut *outcome) {
            (Self::ClaimKeepsFence, RowOutcome::Leased) => after.fence = before.fence.max(1),
            (Self::ClaimKeepsAttempt, RowOutcome::Leased)
            | (Self::ReleaseKeepsAttempt, RowOutcome::Settled(Settled::Ended(State::Ready)))
            | (Self::RedriveKeepsAttempts, RowOutcome::Redriven) => {
                after.attempt = before.attempt;
            }
            (Self::ExpiryKeepsToken, RowOutcome::Expired(_))
            | (Self::CancelKeepsToken, RowOutcome::Cancelled(_))
            | (Self::RedriveKeepsToken, RowOutcome::Redriven) => after.token = before.token,
            (Self::ExpiryIgnoresMaxAttempts, RowOutcome::Expired(state)) => {
                *state = State::Ready;
                after.state = State::Ready;
            }
            _ => {}
        }
    }
}
