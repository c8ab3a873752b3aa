//! The database of a run: rows that follow the function `step`, a clock, faults, and the checks of what workers are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_proof::suspects::SuspectList;
use lease_broker_store::{LeaseRow, RowEnding, RowOperation, RowOutcome, Settled, step};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;

use super::plan::Plan;

/// A deliberate mistake, to show that the simulation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    None,
    /// The store gives two calls of one group each other's results.
    SwapsResults,
    /// An operation that was applied fails with an error that says it was not.
    DeniesCommits,
    /// A claim takes leased rows.
    LeasesTwice,
    /// A release has no effect, and says it had.
    KeepsReleased,
}

impl Sabotage {
    pub(super) const ALL: [Self; 4] = [
        Self::SwapsResults,
        Self::DeniesCommits,
        Self::LeasesTwice,
        Self::KeepsReleased,
    ];
}

/// A worker's belief that it holds a lease.
#[derive(Clone, Debug)]
struct Belief {
    worker: String,
    fence: i64,
    until: Instant,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) queue: QueueSpec,
    pub(super) sabotage: Sabotage,
    pub(super) rows: BTreeMap<i64, LeaseRow>,
    pub(super) suspects: SuspectList,
    pub(super) random: StdRng,
    /// Milliseconds by which the clock was stepped.
    offset: i64,
    was_stepped: bool,
    /// The step in milliseconds that the clock makes when the next purge begins.
    pub(super) step_at_purge: i64,
    /// The times until which purges have counted ages.
    pub(super) purged_until: Vec<i64>,
    pub(super) out_until: Instant,
    started: Instant,
    /// The kind of settlement that ended a lease.
    ended: BTreeMap<(i64, i64), RowEnding>,
    /// Leases that were cancelled.
    taken_away: BTreeSet<(i64, i64)>,
    beliefs: BTreeMap<i64, Vec<Belief>>,
    history: Vec<String>,
    pub(super) problem: Option<String>,
}

/// The database, shared by the brokers and the workers.
#[derive(Clone)]
pub(super) struct Database(Arc<Mutex<Inner>>);

const EPOCH: i64 = 1_700_000_000_000;

impl Database {
    pub(super) fn new(plan: &Plan, queue: QueueSpec) -> Self {
        let now = Instant::now();
        let rows = (1..=plan.items).map(|id| (id, LeaseRow::new())).collect();
        Self(Arc::new(Mutex::new(Inner {
            queue,
            sabotage: plan.sabotage,
            rows,
            suspects: SuspectList::default(),
            random: StdRng::seed_from_u64(plan.seed.wrapping_mul(31)),
            offset: 0,
            was_stepped: false,
            step_at_purge: 0,
            purged_until: Vec::new(),
            out_until: now,
            started: now,
            ended: BTreeMap::new(),
            taken_away: BTreeSet::new(),
            beliefs: BTreeMap::new(),
            history: Vec::new(),
            problem: None,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, event: impl Into<String>) {
        self.lock().note(event);
    }

    pub(super) fn take_history(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().history)
    }
}

impl Inner {
    pub(super) fn now(&self) -> i64 {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        EPOCH + elapsed + self.offset
    }

    pub(super) fn step_clock(&mut self, millis: i64) {
        self.offset += millis;
        self.was_stepped |= millis > 0;
    }

    pub(super) fn note(&mut self, event: impl Into<String>) {
        let at = self.started.elapsed().as_millis();
        self.history.push(format!("{at:>7} {}", event.into()));
    }

    pub(super) fn breaks(&mut self, problem: String) {
        self.note(&problem);
        self.problem.get_or_insert(problem);
    }

    pub(super) fn is_out(&self) -> bool {
        Instant::now() < self.out_until
    }

    /// Returns whether an outage keeps an operation from running. In an outage, half of the operations run and lose their answers.
    pub(super) fn refuses(&mut self) -> bool {
        self.is_out() && self.random.random_bool(0.5)
    }

    /// Returns the time until an operation runs, and the time until its answer arrives.
    pub(super) fn latency(&mut self) -> (Duration, Duration) {
        let mut millis = |most| Duration::from_millis(self.random.random_range(0..=most));
        (millis(30), millis(10))
    }

    /// Runs an operation on a row.
    pub(super) fn step(&mut self, id: i64, operation: &RowOperation<String>) -> RowOutcome {
        let now = self.now();
        let before = self.rows.get(&id).cloned();
        let mut taken = before.clone();
        if let (Sabotage::LeasesTwice, RowOperation::Claim { .. }, Some(row)) =
            (self.sabotage, operation, &mut taken)
            && row.state == State::Leased
        {
            row.state = State::Ready;
        }
        let (after, outcome) = step(&self.queue, taken.as_ref(), now, operation);
        let is_release = matches!(operation, RowOperation::Settle(_, RowEnding::Release(_)));
        let is_undone = self.sabotage == Sabotage::KeepsReleased && is_release;
        match after {
            Some(after) if !is_undone => drop(self.rows.insert(id, after)),
            Some(_) => {}
            None => drop(self.rows.remove(&id)),
        }
        if let Some(before) = &before {
            match (operation, &outcome) {
                (RowOperation::Settle(_, ending), RowOutcome::Settled(Settled::Ended(_))) => {
                    self.ended.insert((id, before.fence), *ending);
                }
                (RowOperation::ReleaseClaim(_), RowOutcome::Released) => {
                    let release = RowEnding::Release(Duration::ZERO);
                    self.ended.insert((id, before.fence), release);
                    self.taken_away.insert((id, before.fence));
                }
                (RowOperation::Cancel { .. }, RowOutcome::Cancelled(_))
                    if self.rows.get(&id) != Some(before) =>
                {
                    self.taken_away.insert((id, before.fence));
                }
                _ => {}
            }
        }
        outcome
    }

    /// Returns whether the store ended the lease by a settlement of this kind.
    pub(super) fn was_ended(&self, id: i64, fence: i64, ending: RowEnding) -> bool {
        let ended = self.ended.get(&(id, fence));
        ended.is_some_and(|ended| std::mem::discriminant(ended) == std::mem::discriminant(&ending))
    }

    /// A worker begins to believe that it holds a lease, or that its lease lasts longer.
    pub(super) fn believe(&mut self, worker: &str, id: i64, fence: i64, until: Instant) {
        let now = Instant::now();
        let taken_away = &self.taken_away;
        let beliefs = self.beliefs.entry(id).or_default();
        beliefs.retain(|belief| belief.fence != fence || belief.worker != worker);
        let overlaps = beliefs
            .iter()
            .find(|belief| belief.until > now && !taken_away.contains(&(id, belief.fence)))
            .map(|belief| format!("{} with fence {}", belief.worker, belief.fence));
        beliefs.push(Belief {
            worker: worker.to_owned(),
            fence,
            until,
        });
        let Some(other) = overlaps.filter(|_| until > now && !self.was_stepped) else {
            return;
        };
        self.breaks(format!(
            "{worker} with fence {fence} and {other} hold item {id}"
        ));
    }

    /// A worker stops working on an item.
    pub(super) fn forget(&mut self, worker: &str, id: i64, fence: i64) {
        if let Some(beliefs) = self.beliefs.get_mut(&id) {
            beliefs.retain(|belief| belief.fence != fence || belief.worker != worker);
        }
    }

    /// Returns the number of items that are neither completed nor dead.
    pub(super) fn unfinished(&self) -> usize {
        let is_unfinished = |row: &&LeaseRow| !matches!(row.state, State::Completed | State::Dead);
        self.rows.values().filter(is_unfinished).count()
    }

    pub(super) fn insert(&mut self, row: LeaseRow) -> i64 {
        let id = self.rows.keys().next_back().map_or(1, |last| last + 1);
        self.rows.insert(id, row);
        id
    }
}
