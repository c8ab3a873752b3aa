//! The model: a queue in memory that follows the contract of a store. What an operation does to the lease of one row is the
//! function `step` of the store's contract. The model adds the choice of rows, and the columns beside the lease.
//!
//! Time in the model advances by whole hours, and every duration is a whole number of hours plus half an hour. So each
//! due time is at least half an hour away from every moment at which the test compares. The time that the operations of
//! the store take cannot change a result.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::QueueSpec;
use lease_broker_proof::suspects::SuspectList;
use lease_broker_store::{
    Cancelled, Checkpoints, LeaseProof, LeaseRow, RowEnding, RowOperation, RowOutcome, Settled,
    Share, step,
};
use lease_broker_value::Value;
use uuid::Uuid;

/// A point in time or a duration, in half hours.
pub(crate) type Halves = i64;

/// The effect of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Keep,
    Delete,
    Archive,
    Recur,
}

/// The way in which a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Fail(Option<Halves>),
    Release(Halves),
}

/// What a settlement writes into the row of its item. The column `result` does not accept NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Nothing,
    Result(i64),
    /// NULL into the column `result`. The table refuses it if the lease is held.
    Null,
    /// A column that is not writable. It is refused whether the lease is held or not.
    Forbidden,
}

/// Time until a completed item of a recurring queue is ready again.
pub(crate) const RECUR_AFTER: Halves = 7;
/// The length of the unit of time in milliseconds.
const MILLIS: i64 = 30 * 60 * 1_000;
pub(crate) const MAX_ATTEMPTS: u32 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) rank: i64,
    /// The columns that decide about the lease. Its due time is in milliseconds.
    pub(crate) row: LeaseRow,
    /// The time of the last change of state.
    pub(crate) since: Halves,
    pub(crate) has_error: bool,
    pub(crate) result: i64,
    pub(crate) checkpoint: Option<Vec<u8>>,
}

/// The expected result of a settlement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Exactly(Settled),
    /// A refused column. The row is not changed.
    Refused,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: Halves,
    pub(crate) items: BTreeMap<i64, Item>,
    pub(crate) suspects: SuspectList,
    /// The results of the archived items, by id.
    pub(crate) archived: BTreeMap<i64, i64>,
    pub(crate) policy: Policy,
    /// The rules of the queue.
    pub(crate) queue: QueueSpec,
}

pub(crate) fn id(key: &Key) -> i64 {
    match *key.0 {
        [Value::Int(id)] => id,
        _ => panic!("{key:?} is not a key of this queue"),
    }
}

/// Returns a time in milliseconds.
fn millis(halves: Halves) -> i64 {
    halves * MILLIS
}

pub(crate) fn time(halves: Halves) -> Duration {
    Duration::from_millis(millis(halves).unsigned_abs())
}

fn proof(lease: &LeaseRef) -> LeaseProof {
    LeaseProof {
        token: lease.token,
        fence: lease.fence,
    }
}

impl Item {
    /// Returns the due time.
    pub(crate) fn due(&self) -> Option<Halves> {
        self.row.due.map(|due| due / MILLIS)
    }

    /// Stores a checkpoint. An empty one removes the stored one.
    fn store(&mut self, checkpoint: Option<&Vec<u8>>) {
        if let Some(checkpoint) = checkpoint {
            self.checkpoint = (!checkpoint.is_empty()).then(|| checkpoint.clone());
        }
    }
}

impl Model {
    pub(crate) fn add(&mut self, id: i64, rank: i64, delay: Halves) {
        let mut row = LeaseRow::new();
        if delay > 0 {
            row.state = State::Delayed;
            row.due = Some(millis(self.now + delay));
        }
        let item = Item {
            rank,
            row,
            since: self.now,
            has_error: false,
            result: 0,
            checkpoint: None,
        };
        assert!(self.items.insert(id, item).is_none());
    }

    /// Runs an operation on one item. Removes the item if the operation does.
    fn step(&mut self, id: i64, operation: &RowOperation<String>) -> RowOutcome {
        let row = self.items.get(&id).map(|item| &item.row);
        let (after, outcome) = step(&self.queue, row, millis(self.now), operation);
        match (after, self.items.get_mut(&id)) {
            (Some(after), Some(item)) => {
                if after.state != item.row.state {
                    item.since = self.now;
                }
                item.row = after;
            }
            _ => drop(self.items.remove(&id)),
        }
        outcome
    }

    /// Returns the ids of the items in one state.
    pub(crate) fn in_state(&self, state: State) -> Vec<i64> {
        let items = self.items.iter();
        items
            .filter(|(_, item)| item.row.state == state)
            .map(|(&id, _)| id)
            .collect()
    }

    fn sort(&self, ids: &mut [i64]) {
        ids.sort_by_key(|id| (-self.items[id].rank, *id));
    }

    /// Returns the ids of the items that a token has leased, in the order of the queue.
    fn held_by(&self, token: Uuid) -> Vec<i64> {
        let mut held: Vec<i64> = self.items.keys().copied().collect();
        held.retain(|id| self.items[id].row.is_leased_by(token, millis(self.now)));
        self.sort(&mut held);
        held
    }

    /// Leases items and returns their ids in the order of the queue. A repeated request gets its earlier leases again.
    pub(crate) fn claim(
        &mut self,
        worker: &str,
        token: Uuid,
        has_request_id: bool,
        max_items: usize,
        duration: Halves,
    ) -> Vec<i64> {
        if has_request_id {
            let held = self.held_by(token);
            if !held.is_empty() {
                return held;
            }
        }
        let mut ready = self.in_state(State::Ready);
        self.sort(&mut ready);
        let now = millis(self.now);
        let row = |id| self.items.get(&id).map(|item| &item.row);
        let patience = i64::try_from(self.queue.lease.default.as_millis()).expect("milliseconds");
        let rows = self.items.values().map(|item| &item.row);
        let share = self.suspects.choose(row, rows, worker, (patience, now));
        let ready = ready.into_iter().map(|id| (id, &self.items[&id].row));
        let picked = SuspectList::pick(share, ready, max_items);
        for id in &picked {
            let claim = RowOperation::Claim {
                token,
                owner: worker.to_owned(),
                duration: time(duration),
                epoch_fence: 0,
            };
            assert_eq!(self.step(*id, &claim), RowOutcome::Leased);
            if share.0 == Share::Suspect {
                let row = self.items[id].row.clone();
                self.suspects.note_lease(*id, worker, &row);
            }
        }
        picked
    }

    pub(crate) fn is_held(&self, lease: &LeaseRef) -> bool {
        let item = self.items.get(&id(&lease.key));
        item.is_some_and(|item| item.row.is_held(proof(lease), millis(self.now)))
    }

    pub(crate) fn heartbeat(
        &mut self,
        lease: &LeaseRef,
        duration: Halves,
        checkpoint: Option<&Vec<u8>>,
    ) -> RowOutcome {
        let id = id(&lease.key);
        let heartbeat = RowOperation::Heartbeat(proof(lease), time(duration));
        let outcome = self.step(id, &heartbeat);
        if outcome == RowOutcome::Extended {
            let item = self.items.get_mut(&id).expect("extended");
            item.store(checkpoint);
        }
        outcome
    }

    /// Releases the leases of a request and returns their number.
    pub(crate) fn release_request(&mut self, token: Uuid) -> usize {
        let held = self.held_by(token);
        for id in &held {
            let release = RowOperation::ReleaseClaim(token);
            assert_eq!(self.step(*id, &release), RowOutcome::Released);
        }
        held.len()
    }

    /// Cancels the lease on an item.
    pub(crate) fn cancel(&mut self, id: i64, delay: Halves, dead_letter: bool) -> Cancelled {
        let cancel = RowOperation::Cancel {
            fence: None,
            delay: time(delay),
            dead_letter,
        };
        let RowOutcome::Cancelled(cancelled) = self.step(id, &cancel) else {
            panic!("a cancellation has another outcome");
        };
        if let (Cancelled::Ended { .. }, Some(item)) = (&cancelled, self.items.get_mut(&id)) {
            item.has_error = true;
        }
        cancelled
    }

    pub(crate) fn settle(
        &mut self,
        lease: &LeaseRef,
        end: End,
        write: Write,
        checkpoint: Option<&Vec<u8>>,
    ) -> Answer {
        let is_held = self.is_held(lease);
        if write == Write::Forbidden || is_held && write == Write::Null {
            return Answer::Refused;
        }
        let id = id(&lease.key);
        let ending = match end {
            End::Complete => RowEnding::Complete,
            End::Fail(retry) => RowEnding::Fail(retry.map(time)),
            End::Release(delay) => RowEnding::Release(time(delay)),
        };
        if is_held {
            let item = self.items.get_mut(&id).expect("held");
            if let Write::Result(result) = write {
                item.result = result;
            }
            item.store(checkpoint);
            match end {
                End::Complete => {
                    item.has_error = false;
                    item.checkpoint = None;
                    if self.policy == Policy::Archive {
                        self.archived.insert(id, item.result);
                    }
                }
                End::Fail(_) => item.has_error = true,
                End::Release(_) => {}
            }
        }
        match self.step(id, &RowOperation::Settle(proof(lease), ending)) {
            RowOutcome::Settled(settled) => Answer::Exactly(settled),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the leased and delayed items that are due, starting with the earliest due time.
    pub(crate) fn due(&self) -> Vec<i64> {
        let mut due: Vec<i64> = self.items.keys().copied().collect();
        due.retain(|id| self.items[id].due().is_some_and(|due| due <= self.now));
        due.sort_by_key(|id| self.items[id].row.due);
        due
    }

    /// Ends an expired lease, or makes a delayed item ready.
    pub(crate) fn reap(&mut self, id: i64) -> RowOutcome {
        let outcome = self.step(id, &RowOperation::Reap { is_stepped: false });
        if matches!(outcome, RowOutcome::Expired(_)) {
            self.items.get_mut(&id).expect("expired").has_error = true;
        }
        if outcome == RowOutcome::Expired(State::Ready) {
            self.suspects
                .remember(id, &self.items[&id].row, millis(self.now));
        }
        outcome
    }

    pub(crate) fn redrive(&mut self, id: i64, checkpoints: Checkpoints) {
        assert_eq!(self.step(id, &RowOperation::Redrive), RowOutcome::Redriven);
        if checkpoints == Checkpoints::Clear {
            self.items.get_mut(&id).expect("redriven").checkpoint = None;
        }
    }
}
