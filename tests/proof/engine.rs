//! A database that ignores lock hints.
//!
//! The other models take each operation for one transaction that nothing can disturb. On SQL Server the lock hints make it so. Other
//! engines, such as Babelfish, ignore them, and then other transactions run between the statements of a batch. Here the statements of
//! `settle.sql`, `reap.sql`, `cancel.sql` and `claim.sql` for T-SQL are steps of their own, and no locks hold between them. What is
//! left is the conditions of the updates and the comparison of counts, which rolls a batch back.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::{LeaseProof, LeaseRow, RowEnding, RowOperation, RowOutcome, step};
use stateright::{Model, Property};
use uuid::Uuid;

use crate::lease::queue;

const ROWS: usize = 2;
const TOKEN: Uuid = Uuid::from_u128(1);
const LEASE: LeaseProof = LeaseProof {
    token: TOKEN,
    fence: 1,
};
/// The time at which the leases of the model expire.
const EXPIRY: i64 = 1;

/// A batch of one broker. Both rows are leased by the same claim at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Batch {
    /// Completes the leases on both rows, with a follow-up each.
    CompleteBoth,
    /// Fails the lease on the first row.
    FailFirst,
    /// Releases the lease on the first row.
    ReleaseFirst,
    /// Ends expired leases, and makes delayed items ready.
    Reap,
    /// Cancels the lease on the first row.
    CancelFirst,
    /// Claims all ready rows.
    Claim,
}

/// What the engine and the batches do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether the rows that a batch has read are locked until it ends.
    pub obeys_hints: bool,
    /// Whether the batches compare the number of changed rows with that of the rows that they have read.
    pub compares_counts: bool,
    /// Whether the update of a claim compares the fencing token that it has read.
    pub compares_fences: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct EngineModel {
    queue: QueueSpec,
    batches: Vec<Batch>,
    rules: Rules,
}

impl EngineModel {
    /// Returns the model in which these batches run at the same time.
    pub fn new(batches: Vec<Batch>, rules: Rules) -> Self {
        Self {
            queue: queue(OnComplete::Keep),
            batches,
            rules,
        }
    }
}

type Row = LeaseRow<u8>;

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    rows: [Row; ROWS],
    now: i64,
    progress: Vec<Progress>,
    /// The number of operations that were told to have ended the first lease of a row.
    told: [u8; ROWS],
    /// The number of follow-ups of each row, and whether its completion was committed.
    follow_ups: [u8; ROWS],
    is_completed: [bool; ROWS],
    /// The claims that were told of a second lease, and the second leases that were made.
    claims_told: [u8; ROWS],
    claims_made: [u8; ROWS],
    was_rolled_back: bool,
}

/// How far a batch is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Progress {
    Waits,
    /// It has read these rows, at this time.
    HasRead([Option<Row>; ROWS], i64),
    /// It has also inserted the follow-ups of these rows.
    HasInserted([Option<Row>; ROWS], i64, [bool; ROWS]),
    Ended,
}

/// An action of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The leases expire.
    Expire,
    /// The next statement of this batch runs.
    Next(usize),
}

impl Batch {
    /// Returns the operation of this batch for a row. `None`: the batch does not name the row.
    fn operation(self, row: usize, at: usize) -> Option<RowOperation<u8>> {
        let worker = u8::try_from(at).unwrap_or_default();
        match self {
            Self::CompleteBoth => Some(RowOperation::Settle(LEASE, RowEnding::Complete)),
            Self::FailFirst => {
                let fail = RowEnding::Fail(Some(Duration::ZERO));
                (row == 0).then_some(RowOperation::Settle(LEASE, fail))
            }
            Self::ReleaseFirst => {
                let release = RowEnding::Release(Duration::ZERO);
                (row == 0).then_some(RowOperation::Settle(LEASE, release))
            }
            Self::Reap => Some(RowOperation::Reap { is_stepped: false }),
            Self::CancelFirst => (row == 0).then_some(RowOperation::Cancel {
                fence: None,
                delay: Duration::ZERO,
                dead_letter: false,
            }),
            Self::Claim => Some(RowOperation::Claim {
                token: Uuid::from_u128(10 + u128::from(worker)),
                owner: worker,
                duration: Duration::from_millis(EXPIRY.unsigned_abs()),
                epoch_fence: 0,
            }),
        }
    }

    /// Returns whether the batch passes over rows that another has locked, and does not wait for them.
    fn skips_locked(self) -> bool {
        matches!(self, Self::Reap | Self::Claim)
    }
}

impl Engine {
    fn is_locked(&self, model: &EngineModel, row: usize, by_others_than: usize) -> bool {
        let progress = self.progress.iter().enumerate();
        let mut others = progress.filter(|(at, _)| *at != by_others_than);
        model.rules.obeys_hints
            && others.any(|(_, progress)| match progress {
                Progress::HasRead(rows, _) | Progress::HasInserted(rows, ..) => rows[row].is_some(),
                Progress::Waits | Progress::Ended => false,
            })
    }

    /// Returns the row after the operation of a batch. `None`: the batch does not change it.
    fn after(&self, model: &EngineModel, at: usize, row: usize, now: i64) -> Option<Row> {
        let operation = model.batches[at].operation(row, at)?;
        let before = self.rows[row];
        let (after, _) = step(&model.queue, Some(&before), now, &operation);
        after.filter(|after| *after != before)
    }

    /// The first statement: reads the rows that the batch will change.
    fn read(&mut self, model: &EngineModel, at: usize) {
        let now = self.now;
        let batch = model.batches[at];
        let rows = std::array::from_fn(|row| {
            let is_taken = self.after(model, at, row, now).is_some();
            let is_skipped = batch.skips_locked() && self.is_locked(model, row, at);
            (is_taken && !is_skipped).then_some(self.rows[row])
        });
        self.progress[at] = Progress::HasRead(rows, now);
    }

    /// The last statement: changes the rows, compares the counts, and commits.
    fn write(
        &mut self,
        model: &EngineModel,
        at: usize,
        read: [Option<Row>; ROWS],
        now: i64,
        inserted: [bool; ROWS],
    ) {
        let batch = model.batches[at];
        let mut rows = self.rows;
        let mut changed = [false; ROWS];
        for row in 0..ROWS {
            let Some(seen) = read[row] else { continue };
            let checks_fence = batch != Batch::Claim || model.rules.compares_fences;
            let same =
                seen.state == rows[row].state && (!checks_fence || seen.fence == rows[row].fence);
            if let Some(after) = self.after(model, at, row, now).filter(|_| same) {
                rows[row] = after;
                changed[row] = true;
            }
        }
        let count = |rows: &[bool; ROWS]| rows.iter().filter(|is| **is).count();
        let read_count = count(&read.map(|row| row.is_some()));
        let changed_count = count(&changed);
        let must_agree = match batch {
            // A claim tells only of the leases that have its token.
            Batch::Claim => false,
            // A reaper that was late for all rows reports none.
            Batch::Reap => changed_count > 0,
            Batch::CompleteBoth | Batch::FailFirst | Batch::ReleaseFirst | Batch::CancelFirst => {
                true
            }
        };
        if model.rules.compares_counts && must_agree && read_count != changed_count {
            self.was_rolled_back = true;
            self.progress[at] = Progress::Waits;
            return;
        }
        for row in 0..ROWS {
            let had_first_lease = read[row]
                .is_some_and(|seen| seen.state == State::Leased && seen.fence == LEASE.fence);
            let is_reported = match batch {
                Batch::Claim => false,
                Batch::Reap => changed_count > 0 || !model.rules.compares_counts,
                _ => true,
            };
            self.told[row] += u8::from(had_first_lease && is_reported);
            self.follow_ups[row] += u8::from(inserted[row]);
            if batch == Batch::CompleteBoth {
                self.is_completed[row] |= changed[row];
            }
            if batch == Batch::Claim && changed[row] {
                let told = read[row].is_some_and(|seen| seen.fence + 1 == rows[row].fence);
                self.claims_made[row] += 1;
                self.claims_told[row] += u8::from(told);
            }
        }
        self.rows = rows;
        self.progress[at] = Progress::Ended;
    }
}

impl Model for EngineModel {
    type State = Engine;
    type Action = Action;

    fn init_states(&self) -> Vec<Engine> {
        let claim = RowOperation::Claim {
            token: TOKEN,
            owner: 0,
            duration: Duration::from_millis(EXPIRY.unsigned_abs()),
            epoch_fence: 0,
        };
        let (row, outcome) = step(&self.queue, Some(&LeaseRow::new()), 0, &claim);
        assert_eq!(outcome, RowOutcome::Leased);
        vec![Engine {
            rows: [row.unwrap_or_default(); ROWS],
            now: 0,
            progress: vec![Progress::Waits; self.batches.len()],
            told: [0; ROWS],
            follow_ups: [0; ROWS],
            is_completed: [false; ROWS],
            claims_told: [0; ROWS],
            claims_made: [0; ROWS],
            was_rolled_back: false,
        }]
    }

    fn actions(&self, engine: &Engine, actions: &mut Vec<Action>) {
        if engine.now < EXPIRY {
            actions.push(Action::Expire);
        }
        for (at, progress) in engine.progress.iter().enumerate() {
            let batch = self.batches[at];
            let names = |row: usize| batch.operation(row, at).is_some();
            let is_blocked = *progress == Progress::Waits
                && !batch.skips_locked()
                && (0..ROWS).any(|row| names(row) && engine.is_locked(self, row, at));
            if *progress != Progress::Ended && !is_blocked {
                actions.push(Action::Next(at));
            }
        }
    }

    fn next_state(&self, engine: &Engine, action: Action) -> Option<Engine> {
        let mut next = engine.clone();
        match action {
            Action::Expire => next.now = EXPIRY,
            Action::Next(at) => match engine.progress[at].clone() {
                Progress::Waits => next.read(self, at),
                Progress::HasRead(rows, now) if self.batches[at] == Batch::CompleteBoth => {
                    let inserted =
                        std::array::from_fn(|row| engine.after(self, at, row, now).is_some());
                    next.progress[at] = Progress::HasInserted(rows, now, inserted);
                }
                Progress::HasRead(rows, now) => next.write(self, at, rows, now, [false; ROWS]),
                Progress::HasInserted(rows, now, inserted) => {
                    next.write(self, at, rows, now, inserted);
                }
                Progress::Ended => return None,
            },
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one operation ends a lease", |_, engine: &Engine| {
                engine.told.iter().all(|told| *told <= 1)
            }),
            Property::always(
                "follow-ups are added by the completion",
                |_, engine: &Engine| {
                    let rows = engine.follow_ups.iter().zip(&engine.is_completed);
                    rows.into_iter()
                        .all(|(added, completed)| *added == u8::from(*completed))
                },
            ),
            Property::always("each lease has a worker", |_, engine: &Engine| {
                engine.claims_told == engine.claims_made
            }),
            Property::sometimes("all batches end", |_, engine: &Engine| {
                engine.progress.iter().all(|at| *at == Progress::Ended)
            }),
            Property::sometimes("a batch is rolled back", |model: &Self, engine: &Engine| {
                engine.was_rolled_back || model.rules.obeys_hints || !model.rules.compares_counts
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::shortest_first;

    const ALL: [Batch; 6] = [
        Batch::CompleteBoth,
        Batch::CompleteBoth,
        Batch::FailFirst,
        Batch::Reap,
        Batch::CancelFirst,
        Batch::Claim,
    ];
    const SHIPPED: Rules = Rules {
        obeys_hints: false,
        compares_counts: true,
        compares_fences: true,
    };

    #[test]
    fn batches_hold_on_an_engine_that_ignores_hints() {
        let model = EngineModel::new(ALL.to_vec(), SHIPPED);
        shortest_first(model).assert_holds("hints are ignored");
        let claims = vec![
            Batch::FailFirst,
            Batch::Reap,
            Batch::Reap,
            Batch::Claim,
            Batch::Claim,
        ];
        shortest_first(EngineModel::new(claims, SHIPPED)).assert_holds("claims, hints are ignored");
    }

    #[test]
    fn batches_hold_on_an_engine_that_obeys_hints() {
        let rules = Rules {
            obeys_hints: true,
            compares_counts: false,
            ..SHIPPED
        };
        let model = EngineModel::new(ALL.to_vec(), rules);
        shortest_first(model).assert_holds("hints are obeyed");
    }

    #[test]
    fn batches_that_compare_no_counts_end_a_lease_twice() {
        let rules = Rules {
            compares_counts: false,
            ..SHIPPED
        };
        let model = EngineModel::new(ALL.to_vec(), rules);
        let checked = shortest_first(model);
        checked.assert_breaks("no counts", "one operation ends a lease");
    }

    #[test]
    fn claims_that_compare_no_fences_make_a_lease_without_a_worker() {
        let rules = Rules {
            compares_fences: false,
            ..SHIPPED
        };
        let batches = vec![Batch::ReleaseFirst, Batch::Claim, Batch::Claim, Batch::Reap];
        let checked = shortest_first(EngineModel::new(batches, rules));
        checked.assert_breaks("no fences", "each lease has a worker");
    }
}
