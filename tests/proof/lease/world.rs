//! The state of the model, and the store's part in it.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::{
    LeaseProof, LeaseRow, RowEnding, RowOperation, RowOutcome, Settled, step,
};
use stateright::Representative;
use uuid::Uuid;

use super::history::{History, Promise};
use super::{Bounds, LeaseModel, Mistake, WORKERS};
use crate::domain;

/// The unit of time.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The duration of a lease, in ticks.
pub(super) const LEASE: i8 = 2;
/// The number of rows that a world has room for.
pub(super) const ROWS: usize = 2;

pub(super) type WorkerId = u8;

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct World {
    pub(super) rows: [Option<LeaseRow<WorkerId>>; ROWS],
    pub(super) histories: [History; ROWS],
    /// The rows of a backup. `None`: there is none.
    pub(super) backup: Option<[Option<LeaseRow<WorkerId>>; ROWS]>,
    /// The fence of the epoch.
    pub(super) epoch_fence: i64,
    /// The true time, by which workers measure.
    pub(super) time: i8,
    /// The store's clock minus the true time.
    pub(super) offset: i8,
    /// A step of the clock forward that the reaper has not dealt with.
    pub(super) is_stepped: bool,
    /// Whether the clock was ever stepped forward. Leases then end early, so beliefs can overlap.
    pub(super) was_stepped: bool,
    pub(super) workers: [Worker; WORKERS],
    /// The messages that may still arrive, sorted. One that is lost is one that never arrives.
    pub(super) network: Vec<Message>,
    pub(super) left: Left,
    /// The first promise that was broken.
    pub(super) broken: Option<Promise>,
    pub(super) shows: Shows,
}

/// How often things can still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Left {
    pub(super) copies: u8,
    pub(super) crashes: u8,
    pub(super) cancels: u8,
    pub(super) redrives: u8,
    pub(super) steps_forward: u8,
    pub(super) steps_back: u8,
    pub(super) foreign: u8,
    pub(super) careless: u8,
    pub(super) restores: u8,
}

/// Situations that the model must be able to show.
#[expect(clippy::struct_excessive_bools, reason = "each is a situation")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Shows {
    pub(super) completed: bool,
    pub(super) second_lease: bool,
    pub(super) late_call: bool,
    pub(super) repeated: bool,
}

/// A worker, as it sees itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Worker {
    /// The number of its last claim. 0: it has not claimed.
    pub(super) claims: u8,
    /// Other calls that it can still make.
    pub(super) calls: u8,
    /// The number of its last call.
    pub(super) last_call: u8,
    /// The call whose answer it waits for.
    pub(super) waits: Option<Wait>,
    pub(super) leases: [Option<Belief>; ROWS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Wait {
    pub(super) call: Call,
    pub(super) sent: i8,
}

/// A lease that a worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Belief {
    pub(super) lease: LeaseProof,
    /// The number of the attempt, which is in the lease id.
    pub(super) attempt: u32,
    /// The true time until which the worker takes the lease for held.
    pub(super) until: i8,
    /// The settlement that the worker has sent. It works on the item no more.
    pub(super) ended: Option<Kind>,
}

/// A kind of settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Complete,
    Retry,
    DeadLetter,
    Release,
}

impl Kind {
    pub(super) const ALL: [Self; 4] =
        [Self::Complete, Self::Retry, Self::DeadLetter, Self::Release];

    /// Returns the ending that the broker chooses. A failure of the last attempt is not tried again.
    fn ending(self, model: &LeaseModel, attempt: u32) -> RowEnding {
        match self {
            Self::Complete => RowEnding::Complete,
            Self::Retry if !model.queue.retry.is_exhausted(attempt) => RowEnding::Fail(Some(TICK)),
            Self::Retry | Self::DeadLetter => RowEnding::Fail(None),
            Self::Release => RowEnding::Release(Duration::ZERO),
        }
    }

    /// Returns whether the API takes both for the same kind.
    pub(super) fn is_like(self, other: Self) -> bool {
        let fails = |kind| matches!(kind, Self::Retry | Self::DeadLetter);
        self == other || fails(self) && fails(other)
    }
}

/// A call of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) worker: WorkerId,
    pub(super) number: u8,
    pub(super) content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Content {
    /// A claim with a request id.
    Claim(Uuid),
    /// The release of all leases of a claim.
    ReleaseClaim(Uuid),
    Heartbeat(usize, LeaseProof),
    Settle(usize, LeaseProof, u32, Kind),
}

/// A message on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Message {
    Request(Call),
    Answer(Call, Answer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Answer {
    Leases([Option<NewLease>; ROWS]),
    Extended,
    /// The lease was settled, or is not held.
    Over,
}

/// The fencing token, the attempt and the time left of a lease that a claim got.
pub(super) type NewLease = (i64, u32, i8);

/// Returns the token that is derived from the request id of a claim.
pub(super) fn token(worker: WorkerId, claim: u8) -> Uuid {
    Uuid::from_u128(u128::from(claim) * 16 + u128::from(worker) + 1)
}

impl World {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let worker = Worker {
            claims: 0,
            calls: bounds.calls,
            last_call: 0,
            waits: None,
            leases: [None; ROWS],
        };
        Self {
            rows: std::array::from_fn(|row| (row < bounds.rows).then(LeaseRow::new)),
            histories: Default::default(),
            backup: None,
            epoch_fence: 0,
            time: 0,
            offset: 0,
            is_stepped: false,
            was_stepped: false,
            workers: std::array::from_fn(|_| worker.clone()),
            network: Vec::new(),
            left: Left {
                copies: bounds.copies,
                crashes: bounds.crashes,
                cancels: bounds.cancels,
                redrives: bounds.redrives,
                steps_forward: bounds.steps_forward,
                steps_back: bounds.steps_back,
                foreign: bounds.foreign,
                careless: bounds.careless,
                restores: bounds.restores,
            },
            broken: None,
            shows: Shows::default(),
        }
    }

    /// Returns the time of the store's clock.
    pub(super) fn now(&self) -> i64 {
        (self.time + self.offset).into()
    }

    /// Adds a message, unless the same one is on its way.
    pub(super) fn send(&mut self, message: Message) {
        if let Err(at) = self.network.binary_search(&message) {
            self.network.insert(at, message);
        }
    }

    /// Runs an operation on a row, and compares it with the history of the row.
    pub(super) fn step(
        &mut self,
        model: &LeaseModel,
        row: usize,
        operation: RowOperation<WorkerId>,
    ) -> RowOutcome {
        let now = self.now();
        let before = self.rows[row];
        if let Some(before) = &before
            && !model.replayed.contains(before, now, &operation)
        {
            self.breaks(Promise::IsReplayed);
        }
        let (after, outcome) = match model.mistake {
            None => step(&model.queue, before.as_ref(), now, &operation),
            Some(mistake) => mistake.step(&model.queue, before.as_ref(), now, &operation),
        };
        self.rows[row] = after;
        match outcome {
            RowOutcome::Leased => self.shows.second_lease |= self.histories[row].had_expired(),
            RowOutcome::Settled(Settled::Repeated(_)) => self.shows.repeated = true,
            RowOutcome::Settled(Settled::Ended(_)) => {
                let completes = matches!(operation, RowOperation::Settle(_, RowEnding::Complete));
                self.shows.completed |= completes;
            }
            RowOutcome::Settled(Settled::Lost) | RowOutcome::Lost { .. } => {
                self.shows.late_call = true;
            }
            _ => {}
        }
        let noted = self.histories[row].note(
            model,
            now,
            before.as_ref(),
            &operation,
            after.as_ref(),
            &outcome,
        );
        if let Err(promise) = noted {
            self.breaks(promise);
        }
        outcome
    }

    pub(super) fn breaks(&mut self, promise: Promise) {
        self.broken.get_or_insert(promise);
    }

    /// Serves a request as a broker and its store do, in one transaction, and sends the answer.
    pub(super) fn serve(&mut self, model: &LeaseModel, call: Call) {
        let answer = match call.content {
            Content::Claim(token) => Answer::Leases(self.claim(model, call.worker, token)),
            Content::ReleaseClaim(token) => {
                for row in 0..model.bounds.rows {
                    self.step(model, row, RowOperation::ReleaseClaim(token));
                }
                Answer::Over
            }
            Content::Heartbeat(row, lease) => {
                let duration = TICK * LEASE.unsigned_abs().into();
                match self.step(model, row, RowOperation::Heartbeat(lease, duration)) {
                    RowOutcome::Extended => Answer::Extended,
                    _ => Answer::Over,
                }
            }
            Content::Settle(row, lease, attempt, kind) => {
                let ending = kind.ending(model, attempt);
                self.step(model, row, RowOperation::Settle(lease, ending));
                Answer::Over
            }
        };
        let waits = self.workers[usize::from(call.worker)].waits;
        // A worker ignores the answers to other calls.
        if waits.is_some_and(|wait| wait.call == call) {
            self.send(Message::Answer(call, answer));
        }
    }

    /// Returns the leases of an earlier try of the claim. If there is none, leases all ready rows.
    fn claim(
        &mut self,
        model: &LeaseModel,
        worker: WorkerId,
        token: Uuid,
    ) -> [Option<NewLease>; ROWS] {
        let now = self.now();
        let mut leases = [None; ROWS];
        for (lease, row) in leases.iter_mut().zip(&self.rows) {
            let held = row.filter(|row| row.is_leased_by(token, now));
            *lease = held.and_then(|row| {
                let left = i8::try_from(row.due? - now).ok()?;
                Some((row.fence, row.attempt, left))
            });
        }
        if leases.iter().all(Option::is_none) {
            for (row, lease) in leases.iter_mut().enumerate().take(model.bounds.rows) {
                let claim = RowOperation::Claim {
                    token,
                    owner: worker,
                    duration: TICK * LEASE.unsigned_abs().into(),
                    epoch_fence: match model.mistake {
                        Some(Mistake::ClaimIgnoresEpoch) => 0,
                        _ => self.epoch_fence,
                    },
                };
                if self.step(model, row, claim) == RowOutcome::Leased {
                    *lease = self.rows[row].map(|row| (row.fence, row.attempt, LEASE));
                }
            }
        }
        leases
    }

    /// Puts the rows of the backup in place, and begins an epoch with a fence that is greater than every fencing token.
    pub(super) fn restore(&mut self, model: &LeaseModel) {
        let Some(backup) = self.backup else {
            return;
        };
        self.rows = backup;
        self.epoch_fence += 10;
        for (row, restored) in backup.iter().enumerate().take(model.bounds.rows) {
            self.histories[row].note_restore(restored.as_ref());
            if model.mistake != Some(Mistake::RestoreKeepsLeases) {
                self.step(model, row, RowOperation::BeginEpoch(self.epoch_fence));
            }
        }
    }

    /// Returns whether two workers take the same item for theirs.
    pub(super) fn has_overlap(&self) -> bool {
        (0..ROWS).any(|row| {
            let believes = |worker: &&Worker| {
                worker.leases[row].is_some_and(|belief| {
                    belief.until > self.time
                        && belief.ended.is_none()
                        && !self.histories[row].was_taken_away(belief.lease)
                })
            };
            !self.was_stepped && self.workers.iter().filter(believes).count() > 1
        })
    }

    /// Returns whether a row is well formed, as every state demands it.
    pub(super) fn is_well_formed(&self) -> bool {
        self.rows.iter().flatten().all(|row| match row.state {
            State::Leased => {
                row.due.is_some()
                    && row.token.is_some()
                    && row.owner.is_some()
                    && row.fence > 0
                    && (1..=domain::MAX_ATTEMPTS).contains(&row.attempt)
            }
            State::Delayed => row.due.is_some(),
            State::Ready | State::Completed | State::Dead => row.due.is_none(),
        })
    }

    fn swap_workers(&self) -> Self {
        let mut other = self.clone();
        other.workers.swap(0, 1);
        for row in other.rows.iter_mut().flatten() {
            row.token = row.token.map(swapped);
            row.owner = row.owner.map(|owner| 1 - owner);
        }
        for row in other.backup.iter_mut().flatten().flatten() {
            row.token = row.token.map(swapped);
            row.owner = row.owner.map(|owner| 1 - owner);
        }
        for history in &mut other.histories {
            history.swap_workers();
        }
        for worker in &mut other.workers {
            if let Some(wait) = &mut worker.waits {
                wait.call = swapped_call(wait.call);
            }
            for belief in worker.leases.iter_mut().flatten() {
                belief.lease = swapped_lease(belief.lease);
            }
        }
        for message in &mut other.network {
            *message = match *message {
                Message::Request(call) => Message::Request(swapped_call(call)),
                Message::Answer(call, answer) => Message::Answer(swapped_call(call), answer),
            };
        }
        other.network.sort_unstable();
        other
    }
}

fn swapped(token: Uuid) -> Uuid {
    let number = token.as_u128() - 1;
    Uuid::from_u128((number ^ 1) + 1)
}

pub(super) fn swapped_lease(lease: LeaseProof) -> LeaseProof {
    LeaseProof {
        token: swapped(lease.token),
        ..lease
    }
}

fn swapped_call(call: Call) -> Call {
    Call {
        worker: 1 - call.worker,
        content: match call.content {
            Content::Claim(token) => Content::Claim(swapped(token)),
            Content::ReleaseClaim(token) => Content::ReleaseClaim(swapped(token)),
            Content::Heartbeat(row, lease) => Content::Heartbeat(row, swapped_lease(lease)),
            Content::Settle(row, lease, attempt, kind) => {
                Content::Settle(row, swapped_lease(lease), attempt, kind)
            }
        },
        ..call
    }
}

/// Worlds that differ only in the numbers of the workers have the same representative.
impl Representative for World {
    fn representative(&self) -> Self {
        self.swap_workers().min(self.clone())
    }
}
