//! The model: a queue in memory that follows the contract of a store.
//!
//! Time in the model advances by whole hours, and every duration is a whole number of hours plus half an hour. So each
//! due time is at least half an hour away from every moment at which the test compares. The time that the operations of
//! the store take cannot change a result.

use std::collections::BTreeMap;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_store::{Checkpoints, Settled};
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
pub(crate) const MAX_ATTEMPTS: u32 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) rank: i64,
    pub(crate) state: State,
    /// The time of the last change of state.
    pub(crate) since: Halves,
    pub(crate) due: Option<Halves>,
    pub(crate) owner: Option<String>,
    pub(crate) token: Option<Uuid>,
    pub(crate) fence: i64,
    pub(crate) attempt: u32,
    pub(crate) has_error: bool,
    pub(crate) result: i64,
    pub(crate) checkpoint: Option<Vec<u8>>,
    /// True after the last lease was cancelled, until the next claim or redrive.
    pub(crate) is_cancelled: bool,
    /// The way in which the lease of `token` ended.
    ended: Option<End>,
}

/// The expected result of a settlement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Exactly(Settled),
    /// A refused column. The row is not changed.
    Refused,
    /// For a failure after a release, or a release after a failure. The row of a store may not tell them apart, so the result
    /// is this state or a lost lease.
    StateOrLost(State),
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: Halves,
    pub(crate) items: BTreeMap<i64, Item>,
    /// The results of the archived items, by id.
    pub(crate) archived: BTreeMap<i64, i64>,
    pub(crate) policy: Policy,
}

pub(crate) fn id(key: &Key) -> i64 {
    match *key.0 {
        [Value::Int(id)] => id,
        _ => panic!("{key:?} is not a key of this queue"),
    }
}

impl Model {
    pub(crate) fn add(&mut self, id: i64, rank: i64, delay: Halves) {
        let item = Item {
            rank,
            state: if delay == 0 {
                State::Ready
            } else {
                State::Delayed
            },
            since: self.now,
            due: (delay > 0).then_some(self.now + delay),
            owner: None,
            token: None,
            fence: 0,
            attempt: 0,
            has_error: false,
            result: 0,
            checkpoint: None,
            is_cancelled: false,
            ended: None,
        };
        assert!(self.items.insert(id, item).is_none());
    }

    /// Returns the ids of the items in one state.
    pub(crate) fn in_state(&self, state: State) -> Vec<i64> {
        let items = self.items.iter();
        items
            .filter(|(_, item)| item.state == state)
            .map(|(&id, _)| id)
            .collect()
    }

    fn sort(&self, ids: &mut [i64]) {
        ids.sort_by_key(|id| (-self.items[id].rank, *id));
    }

    /// Returns the ids of the items that a token has leased, in the order of the queue.
    fn held_by(&self, token: Uuid) -> Vec<i64> {
        let mut held = self.in_state(State::Leased);
        held.retain(|id| {
            let item = &self.items[id];
            item.token == Some(token) && item.due > Some(self.now)
        });
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
        let mut picked = self.in_state(State::Ready);
        self.sort(&mut picked);
        picked.truncate(max_items);
        for id in &picked {
            let now = self.now;
            let item = self.items.get_mut(id).expect("picked");
            item.enter(State::Leased, now, Some(now + duration));
            item.owner = Some(worker.to_owned());
            item.token = Some(token);
            item.fence += 1;
            item.attempt += 1;
            item.is_cancelled = false;
            item.ended = None;
        }
        picked
    }

    /// Returns the item if the lease is held.
    fn held(&mut self, lease: &LeaseRef) -> Option<&mut Item> {
        let now = self.now;
        let item = self.items.get_mut(&id(&lease.key))?;
        let held = item.state == State::Leased
            && item.token == Some(lease.token)
            && item.fence == lease.fence
            && item.due > Some(now);
        held.then_some(item)
    }

    pub(crate) fn is_held(&mut self, lease: &LeaseRef) -> bool {
        self.held(lease).is_some()
    }

    pub(crate) fn heartbeat(
        &mut self,
        lease: &LeaseRef,
        duration: Halves,
        checkpoint: Option<&Vec<u8>>,
    ) -> bool {
        let due = self.now + duration;
        let Some(item) = self.held(lease) else {
            return false;
        };
        item.due = Some(due);
        item.store(checkpoint);
        true
    }

    /// Releases the leases of a request and returns their number.
    pub(crate) fn release_request(&mut self, token: Uuid) -> usize {
        let held = self.held_by(token);
        for id in &held {
            let now = self.now;
            let item = self.items.get_mut(id).expect("held");
            item.ended = Some(End::Release(0));
            item.attempt -= 1;
            item.owner = None;
            item.enter(State::Ready, now, None);
        }
        held.len()
    }

    /// Returns the state of the item of a lost lease, and whether a heartbeat gets the reason of a cancellation.
    pub(crate) fn lost(&self, lease: &LeaseRef) -> (Option<State>, bool) {
        let Some(item) = self.items.get(&id(&lease.key)) else {
            return (None, false);
        };
        let is_cancelled = item.is_cancelled && item.fence == lease.fence;
        (Some(item.state), is_cancelled)
    }

    /// Cancels the lease on an item. Returns whether the item was leased, and its state; `None` if there is no such item.
    pub(crate) fn cancel(
        &mut self,
        id: i64,
        delay: Halves,
        dead_letter: bool,
    ) -> (bool, Option<State>) {
        let now = self.now;
        let Some(item) = self.items.get_mut(&id) else {
            return (false, None);
        };
        if item.state != State::Leased {
            return (false, Some(item.state));
        }
        if dead_letter || item.attempt >= MAX_ATTEMPTS {
            item.enter(State::Dead, now, None);
        } else if delay == 0 {
            item.enter(State::Ready, now, None);
        } else {
            item.enter(State::Delayed, now, Some(now + delay));
        }
        item.token = None;
        item.has_error = true;
        item.is_cancelled = true;
        (true, Some(item.state))
    }

    pub(crate) fn settle(
        &mut self,
        lease: &LeaseRef,
        end: End,
        write: Write,
        checkpoint: Option<&Vec<u8>>,
    ) -> Answer {
        let (now, policy) = (self.now, self.policy);
        if write == Write::Forbidden {
            return Answer::Refused;
        }
        let Some(item) = self.held(lease) else {
            return self.repeat(lease, end);
        };
        match write {
            Write::Null => return Answer::Refused,
            Write::Result(result) => item.result = result,
            Write::Nothing | Write::Forbidden => {}
        }
        item.ended = Some(end);
        item.store(checkpoint);
        match end {
            End::Complete => {
                item.has_error = false;
                item.checkpoint = None;
                match policy {
                    Policy::Keep => item.enter(State::Completed, now, None),
                    Policy::Recur => {
                        item.enter(State::Delayed, now, Some(now + RECUR_AFTER));
                        item.attempt = 0;
                    }
                    Policy::Delete | Policy::Archive => {
                        let (id, result) = (id(&lease.key), item.result);
                        self.items.remove(&id);
                        if policy == Policy::Archive {
                            self.archived.insert(id, result);
                        }
                        return Answer::Exactly(Settled::Ended(State::Completed));
                    }
                }
            }
            End::Fail(retry) => {
                item.has_error = true;
                match retry {
                    Some(delay) => item.enter(State::Delayed, now, Some(now + delay)),
                    None => item.enter(State::Dead, now, None),
                }
            }
            End::Release(delay) => {
                item.attempt -= 1;
                item.owner = None;
                if delay == 0 {
                    item.enter(State::Ready, now, None);
                } else {
                    item.enter(State::Delayed, now, Some(now + delay));
                }
            }
        }
        Answer::Exactly(Settled::Ended(item.state))
    }

    fn repeat(&self, lease: &LeaseRef, end: End) -> Answer {
        let Some(item) = self.items.get(&id(&lease.key)) else {
            return Answer::Exactly(match end {
                End::Complete => Settled::Gone,
                End::Fail(_) | End::Release(_) => Settled::Lost,
            });
        };
        let is_same_lease = item.state != State::Leased
            && item.token == Some(lease.token)
            && item.fence == lease.fence;
        let Some(ended) = item.ended.filter(|_| is_same_lease) else {
            return Answer::Exactly(Settled::Lost);
        };
        match (ended, end) {
            (End::Complete, End::Complete)
            | (End::Fail(_), End::Fail(_))
            | (End::Release(_), End::Release(_)) => Answer::Exactly(Settled::Repeated(item.state)),
            (End::Complete, _) | (_, End::Complete) => Answer::Exactly(Settled::Lost),
            _ => Answer::StateOrLost(item.state),
        }
    }

    /// Returns the leased and delayed items that are due, starting with the earliest due time.
    pub(crate) fn due(&self) -> Vec<i64> {
        let mut due: Vec<i64> = self.items.keys().copied().collect();
        due.retain(|id| self.items[id].due.is_some_and(|due| due <= self.now));
        due.sort_by_key(|id| self.items[id].due);
        due
    }

    /// Ends an expired lease and returns the new state of its item.
    pub(crate) fn expire(&mut self, id: i64) -> State {
        let now = self.now;
        let item = self.items.get_mut(&id).expect("expired");
        let is_exhausted = item.attempt >= MAX_ATTEMPTS;
        item.enter(
            if is_exhausted {
                State::Dead
            } else {
                State::Ready
            },
            now,
            None,
        );
        item.owner = None;
        item.token = None;
        item.has_error = true;
        item.state
    }

    pub(crate) fn promote(&mut self, id: i64) {
        let now = self.now;
        let item = self.items.get_mut(&id).expect("delayed");
        item.enter(State::Ready, now, None);
    }

    pub(crate) fn redrive(&mut self, id: i64, checkpoints: Checkpoints) {
        let now = self.now;
        let item = self.items.get_mut(&id).expect("dead");
        item.enter(State::Ready, now, None);
        item.owner = None;
        item.token = None;
        item.is_cancelled = false;
        item.attempt = 0;
        if checkpoints == Checkpoints::Clear {
            item.checkpoint = None;
        }
    }
}

impl Item {
    /// Stores a checkpoint. An empty one removes the stored one.
    fn store(&mut self, checkpoint: Option<&Vec<u8>>) {
        if let Some(checkpoint) = checkpoint {
            self.checkpoint = (!checkpoint.is_empty()).then(|| checkpoint.clone());
        }
    }

    fn enter(&mut self, state: State, now: Halves, due: Option<Halves>) {
        self.state = state;
        self.since = now;
        self.due = due;
    }
}
