//! The promises, and the history of a row by which they are judged. The history knows which lease is in force, and nothing of the
//! columns of the row.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::{
    Cancelled, LeaseProof, LeaseRow, RowEnding, RowOperation, RowOutcome, Settled,
};
use stateright::Property;
use uuid::Uuid;

use super::LeaseModel;
use super::world::{Kind, WorkerId, World, swapped_lease};

/// A promise of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// Two workers never take the same item for theirs, and no lease ends before its time.
    NoOverlap,
    /// An item is completed once. In a recurring queue each lease completes it at most once.
    CompletedOnce,
    /// Each lease has a higher fencing token than those before.
    FencesRise,
    /// The number of attempts is that of the leases, without released ones.
    AttemptsExact,
    /// An item becomes dead only if its worker says so, an operator says so, or its attempts are used up.
    DeadAsAllowed,
    /// A call with a lease that is not in force changes nothing.
    LateCallsChangeNothing,
    /// The answer to a settlement is true: "applied" if a settlement of its kind has ended the lease, and only then.
    AnswersAreTrue,
    /// A completed item stays completed.
    CompletedStays,
    /// The columns of a row agree with each other.
    WellFormed,
    /// The replay runs each step through the stores. This is no promise of the protocol. It makes the model speak about the SQL.
    IsReplayed,
}

impl Promise {
    pub(super) const PROPERTIES: [Property<LeaseModel>; 10] = [
        always(Self::NoOverlap, |_, world| {
            !world.breaks_promise(Self::NoOverlap) && !world.has_overlap()
        }),
        always(Self::CompletedOnce, |_, world| {
            !world.breaks_promise(Self::CompletedOnce)
        }),
        always(Self::FencesRise, |_, world| {
            !world.breaks_promise(Self::FencesRise)
        }),
        always(Self::AttemptsExact, |_, world| {
            !world.breaks_promise(Self::AttemptsExact)
        }),
        always(Self::DeadAsAllowed, |_, world| {
            !world.breaks_promise(Self::DeadAsAllowed)
        }),
        always(Self::LateCallsChangeNothing, |_, world| {
            !world.breaks_promise(Self::LateCallsChangeNothing)
        }),
        always(Self::AnswersAreTrue, |_, world| {
            !world.breaks_promise(Self::AnswersAreTrue)
        }),
        always(Self::CompletedStays, |_, world| {
            !world.breaks_promise(Self::CompletedStays)
        }),
        always(Self::WellFormed, |_, world| {
            !world.breaks_promise(Self::WellFormed) && world.is_well_formed()
        }),
        always(Self::IsReplayed, |_, world| {
            !world.breaks_promise(Self::IsReplayed)
        }),
    ];

    /// Returns the promise as a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoOverlap => "no two workers hold the same item",
            Self::CompletedOnce => "an item is completed once",
            Self::FencesRise => "fencing tokens rise",
            Self::AttemptsExact => "attempts are exact",
            Self::DeadAsAllowed => "an item dies only as allowed",
            Self::LateCallsChangeNothing => "late calls change nothing",
            Self::AnswersAreTrue => "answers to settlements are true",
            Self::CompletedStays => "a completed item stays completed",
            Self::WellFormed => "rows are well formed",
            Self::IsReplayed => "each step is replayed",
        }
    }
}

const fn always(
    promise: Promise,
    condition: fn(&LeaseModel, &World) -> bool,
) -> Property<LeaseModel> {
    Property {
        expectation: stateright::Expectation::Always,
        name: promise.name(),
        condition,
    }
}

impl World {
    fn breaks_promise(&self, promise: Promise) -> bool {
        self.broken == Some(promise)
    }
}

/// What has happened to a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct History {
    /// The lease that is in force, and its due time by the store's clock.
    held: Option<(LeaseProof, i64)>,
    last_fence: i64,
    attempts: u32,
    /// The leases that a settlement has ended.
    ended: Vec<(LeaseProof, Kind)>,
    /// The leases that an operator has taken away from their workers.
    taken_away: Vec<LeaseProof>,
    is_completed: bool,
    has_expired: bool,
}

type Row = LeaseRow<WorkerId>;

impl History {
    pub(super) fn had_expired(&self) -> bool {
        self.has_expired
    }

    pub(super) fn was_taken_away(&self, lease: LeaseProof) -> bool {
        self.taken_away.contains(&lease)
    }

    /// Notes an operation. An `Err` is the promise that it breaks.
    pub(super) fn note(
        &mut self,
        model: &LeaseModel,
        now: i64,
        before: Option<&Row>,
        operation: &RowOperation<WorkerId>,
        after: Option<&Row>,
        outcome: &RowOutcome,
    ) -> Result<(), Promise> {
        let held = self.held.filter(|(_, due)| *due > now);
        let has_changed = before != after;
        match operation {
            RowOperation::Claim { token, .. } if *outcome == RowOutcome::Leased => {
                self.claim(now, *token, after)?;
            }
            RowOperation::Heartbeat(lease, _) | RowOperation::Settle(lease, _)
                if held.is_none_or(|(held, _)| held != *lease) =>
            {
                check(!has_changed, Promise::LateCallsChangeNothing)?;
                self.check_late_answer(operation, outcome)?;
            }
            RowOperation::Heartbeat(lease, _) => {
                check(*outcome == RowOutcome::Extended, Promise::AnswersAreTrue)?;
                let due = after.and_then(|row| row.due);
                let due = due.ok_or(Promise::WellFormed)?;
                self.held = Some((*lease, due));
            }
            RowOperation::Settle(lease, ending) => {
                let is_ended = matches!(outcome, RowOutcome::Settled(Settled::Ended(_)));
                check(is_ended, Promise::AnswersAreTrue)?;
                self.settle(model, *lease, *ending)?;
            }
            RowOperation::ReleaseClaim(token) => match held {
                Some((lease, _)) if lease.token == *token => {
                    check(*outcome == RowOutcome::Released, Promise::AnswersAreTrue)?;
                    self.end(lease, Kind::Release);
                    self.attempts -= 1;
                }
                _ => check(!has_changed, Promise::LateCallsChangeNothing)?,
            },
            RowOperation::Cancel { dead_letter, .. } => {
                if let RowOutcome::Cancelled(Cancelled::Ended { state, .. }) = outcome {
                    let (lease, _) = self.held.take().ok_or(Promise::AnswersAreTrue)?;
                    self.taken_away.push(lease);
                    let may_die = *dead_letter || model.queue.retry.is_exhausted(self.attempts);
                    check((*state == State::Dead) == may_die, Promise::DeadAsAllowed)?;
                }
            }
            RowOperation::Reap { is_stepped } => {
                if let RowOutcome::Expired(state) = outcome {
                    let (_, due) = self.held.take().ok_or(Promise::LateCallsChangeNothing)?;
                    check(due <= now, Promise::NoOverlap)?;
                    let may_die = model.queue.retry.is_exhausted(self.attempts) && !is_stepped;
                    check((*state == State::Dead) == may_die, Promise::DeadAsAllowed)?;
                    self.has_expired = true;
                    if *is_stepped {
                        self.attempts -= 1;
                    }
                }
            }
            RowOperation::Redrive if *outcome == RowOutcome::Redriven => self.attempts = 0,
            RowOperation::BeginEpoch(_) if *outcome == RowOutcome::OfEarlierEpoch => {
                self.attempts -= 1;
            }
            RowOperation::Claim { .. } | RowOperation::Redrive | RowOperation::BeginEpoch(_) => {
                check(!has_changed, Promise::LateCallsChangeNothing)?;
            }
        }
        self.check_row(model, after)
    }

    fn claim(&mut self, now: i64, token: Uuid, after: Option<&Row>) -> Result<(), Promise> {
        // A lease that has expired ends only with the reaper.
        check(self.held.is_none(), Promise::NoOverlap)?;
        check(!self.is_completed, Promise::CompletedStays)?;
        let row = after.ok_or(Promise::WellFormed)?;
        check(row.fence > self.last_fence, Promise::FencesRise)?;
        let due = row.due.filter(|due| *due > now);
        let due = due.ok_or(Promise::WellFormed)?;
        let fence = row.fence;
        self.held = Some((LeaseProof { token, fence }, due));
        self.last_fence = fence;
        self.attempts += 1;
        Ok(())
    }

    fn settle(
        &mut self,
        model: &LeaseModel,
        lease: LeaseProof,
        ending: RowEnding,
    ) -> Result<(), Promise> {
        let kind = kind_of(ending);
        self.end(lease, kind);
        match kind {
            Kind::Complete if matches!(model.queue.on_complete, OnComplete::Recur(_)) => {
                self.attempts = 0;
            }
            Kind::Complete => {
                check(!self.is_completed, Promise::CompletedOnce)?;
                self.is_completed = true;
            }
            Kind::Release => self.attempts -= 1,
            Kind::Retry | Kind::DeadLetter => {}
        }
        Ok(())
    }

    fn end(&mut self, lease: LeaseProof, kind: Kind) {
        self.held = None;
        self.ended.push((lease, kind));
    }

    /// Checks the answer to a call whose lease is not in force.
    fn check_late_answer(
        &self,
        operation: &RowOperation<WorkerId>,
        outcome: &RowOutcome,
    ) -> Result<(), Promise> {
        let is_true = match (operation, outcome) {
            (RowOperation::Settle(lease, ending), RowOutcome::Settled(settled)) => {
                let kind = kind_of(*ending);
                let was_ended_so = self
                    .ended
                    .iter()
                    .any(|(ended, by)| ended == lease && by.is_like(kind));
                match settled {
                    Settled::Repeated(_) => was_ended_so,
                    // A completed row is gone, and does not show by which lease.
                    Settled::Gone => self.is_completed,
                    Settled::Lost => true,
                    Settled::Ended(_) | Settled::Refused(_) => false,
                }
            }
            (RowOperation::Heartbeat(..), outcome) => *outcome != RowOutcome::Extended,
            _ => true,
        };
        check(is_true, Promise::AnswersAreTrue)
    }

    /// Compares the row with the history.
    fn check_row(&self, model: &LeaseModel, row: Option<&Row>) -> Result<(), Promise> {
        let keeps = matches!(model.queue.on_complete, OnComplete::Keep);
        let Some(row) = row else {
            let is_removed = self.is_completed && !keeps;
            return check(is_removed, Promise::CompletedStays);
        };
        check(row.attempt == self.attempts, Promise::AttemptsExact)?;
        let is_completed = row.state == State::Completed;
        check(is_completed == self.is_completed, Promise::CompletedStays)
    }

    /// Notes a statement of another program: it ends the lease.
    pub(super) fn note_foreign_end(&mut self) {
        if let Some((lease, _)) = self.held.take() {
            self.taken_away.push(lease);
        }
    }

    /// Notes a restore of this row. What happened after the backup has not happened, but the fencing tokens were given.
    pub(super) fn note_restore(&mut self, row: Option<&Row>) {
        self.note_foreign_end();
        self.is_completed = row.is_none_or(|row| row.state == State::Completed);
        self.attempts = row.map_or(0, |row| row.attempt);
    }

    pub(super) fn swap_workers(&mut self) {
        if let Some((lease, _)) = &mut self.held {
            *lease = swapped_lease(*lease);
        }
        for (lease, _) in &mut self.ended {
            *lease = swapped_lease(*lease);
        }
        for lease in &mut self.taken_away {
            *lease = swapped_lease(*lease);
        }
    }
}

fn kind_of(ending: RowEnding) -> Kind {
    match ending {
        RowEnding::Complete => Kind::Complete,
        RowEnding::Fail(Some(_)) => Kind::Retry,
        RowEnding::Fail(None) => Kind::DeadLetter,
        RowEnding::Release(_) => Kind::Release,
    }
}

fn check(holds: bool, promise: Promise) -> Result<(), Promise> {
    if holds { Ok(()) } else { Err(promise) }
}
