//! Every operation on every kind of row, through the traits of a store. The store must do what the function `step` says, which the
//! models in `tests/proof` check.

mod database;
mod mutation;
mod mutations_of_mssql;
mod mutations_of_sqlite;

use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_proof::domain::{DURATION, Due, FENCE, MAX_ATTEMPTS, RowKind, on_row, operations};
use lease_broker_store::{
    Cancellation, CancelledLease, Checkpoints, ClaimCall, Ending, LatestTime, LeaseProof, LeaseRow,
    OperationKind, QueueIndex, Renewal, Renewed, RowEnding, RowOperation, RowOutcome, Settlement,
    Store, StoreError, step,
};
use lease_broker_value::Value;
use tokio::time::Instant;
use uuid::Uuid;

use self::database::Database;
use crate::harness::Harness as _;
use crate::harness::fixture::{Broker, item_table, queue};
use crate::harness::operation::{Running, redrive};

const QUEUE: QueueIndex = QueueIndex(0);
const WORKER: &str = "next worker";

/// A row of the replay.
struct Case {
    id: i64,
    row: LeaseRow,
    /// The token of the row, or the one that it would have.
    token: Uuid,
}

/// The result of an operation for each row, by its id.
type Outcomes = Vec<(i64, RowOutcome)>;

struct Replay<D> {
    database: D,
    store: Arc<dyn Store>,
    queue: QueueSpec,
    differences: Vec<String>,
    count: usize,
}

/// Replays the operations that `wanted` selects, with completions of this kind.
async fn replay<D: Database>(on_complete: OnComplete, wanted: fn(&RowOperation<()>) -> bool) {
    if !crate::harness::can_run::<D::Harness>() {
        return;
    }
    let mut replay = Replay::<D>::start(on_complete).await;
    for operation in operations().into_iter().filter(wanted) {
        replay.run(operation).await;
    }
    replay.find_retried_claims().await;
    eprintln!("{} steps were replayed", replay.count);
    let differences = &replay.differences;
    assert!(
        differences.is_empty(),
        "{} differences, the first:\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
}

impl<D: Database> Replay<D> {
    /// Starts with the broker's statements.
    async fn start(on_complete: OnComplete) -> Self {
        let mut queue = queue("item");
        queue.retry.max_attempts = Some(MAX_ATTEMPTS);
        queue.on_complete = on_complete;
        let database = D::start(&item_table("item"), &queue).await;
        let store = database.open(&queue, &D::LEASE_SQL).await;
        Self {
            database,
            store,
            queue,
            differences: Vec::new(),
            count: 0,
        }
    }

    /// Inserts one row of each kind.
    async fn insert_all(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let kinds = RowKind::all().into_iter();
        for (id, kind) in (1..).zip(kinds.filter(|kind| D::CAN_BE_EXACT || kind.due != Due::Now)) {
            let token = Uuid::from_u128(0xabc_0000 + u128::try_from(id).expect("positive"));
            let row = kind.row(self.database.now(), token);
            cases.push(Case { id, row, token });
        }
        let rows = cases.iter().map(|case| (case.id, &case.row));
        self.database.replace(&rows.collect::<Vec<_>>()).await;
        cases
    }

    async fn run(&mut self, operation: RowOperation<()>) {
        let cases = self.insert_all().await;
        let now = self.database.now();
        let outcomes = match self.apply(operation, &cases).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                let difference = format!("{operation:?}\n  store: {error}");
                self.differences.push(difference);
                return;
            }
        };
        let mut after = self.database.rows().await;
        for case in &cases {
            self.count += 1;
            let on_row = on_row(operation, case.token, &WORKER.to_owned());
            let (expected, outcome) = step(&self.queue, Some(&case.row), now, &on_row);
            let got = after.remove(&case.id);
            let result = outcomes.iter().find(|(id, _)| *id == case.id);
            let result = result.map_or(RowOutcome::Unchanged, |(_, result)| result.clone());
            let is_same = match (&expected, &got) {
                (Some(expected), Some(got)) => D::is_same(expected, got),
                (None, None) => true,
                _ => false,
            };
            if !is_same || outcome != result {
                self.differences.push(format!(
                    "{:?}\n  {operation:?}\n  step:  {expected:?} {outcome:?}\n  store: {got:?} {result:?}",
                    case.row
                ));
            }
        }
    }

    /// Checks that a claim that is sent again finds its leases, and only those in force. A claim without such leases gets new ones.
    async fn find_retried_claims(&mut self) {
        for max_items in [0, 1] {
            let mut cases = self.insert_all().await;
            // Claims of leases that have ended come first, so that they get the ready items.
            cases.sort_by_key(|case| case.row.state != State::Leased);
            let now = self.database.now();
            let call = |case: &Case| ClaimCall {
                has_request_id: true,
                max_items,
                ..claim_call(case.token)
            };
            let calls: Vec<ClaimCall> = cases.iter().map(call).collect();
            let claimed = match self.store.claim(QUEUE, calls.into(), usize::MAX).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    let difference = format!("claims that are sent again: {error}");
                    self.differences.push(difference);
                    return;
                }
            };
            let ready = cases.iter().filter(|case| case.row.state == State::Ready);
            let mut ready: Vec<i64> = ready.map(|case| case.id).collect();
            ready.truncate(ready.len() * max_items);
            for (case, claimed) in cases.iter().zip(claimed) {
                self.count += 1;
                let items = claimed.items.iter();
                let found: Vec<i64> = items.map(|item| id(&item.lease.key)).collect();
                let expected = if case.row.is_leased_by(case.token, now) {
                    vec![case.id]
                } else {
                    ready.drain(..ready.len().min(1)).collect()
                };
                if found != expected {
                    let row = &case.row;
                    let difference = format!("{row:?}, a retry: {found:?}, not {expected:?}");
                    self.differences.push(difference);
                }
            }
        }
    }

    /// Runs an operation of the store on all rows.
    ///
    /// # Errors
    /// The text of the store's error, or a count that does not agree with the rows.
    async fn apply(&self, operation: RowOperation<()>, cases: &[Case]) -> Result<Outcomes, String> {
        let ids = cases.iter().map(|case| case.id);
        let failed = |error: StoreError| error.to_string();
        let outcomes = match operation {
            RowOperation::Claim { epoch_fence, .. } => {
                let raise = format!("UPDATE lease_broker_epoch SET fence = {epoch_fence}");
                let harness = self.database.harness();
                harness.run_sql(&raise).await.expect("an epoch");
                let RowOperation::Claim { token, .. } = on_row(operation, Uuid::nil(), &()) else {
                    return Ok(Vec::new());
                };
                let claimed = self
                    .store
                    .claim(QUEUE, [claim_call(token)].into(), usize::MAX);
                let claimed = claimed.await.map_err(failed)?.remove(0).items.into_iter();
                claimed
                    .map(|item| (id(&item.lease.key), RowOutcome::Leased))
                    .collect()
            }
            RowOperation::Heartbeat(..) => {
                let renewal = |case: &Case| match on_row(operation, case.token, &()) {
                    RowOperation::Heartbeat(lease, duration) => {
                        Renewal::new(lease_ref(case.id, lease), duration)
                    }
                    other => panic!("{other:?}"),
                };
                let renewals = cases.iter().map(renewal).collect();
                let renewed = self.store.heartbeat(QUEUE, renewals).await;
                let renewed = renewed.map_err(failed)?.into_iter();
                ids.zip(renewed.map(heartbeat_outcome)).collect()
            }
            RowOperation::Settle(..) => {
                let settlement = |case: &Case| match on_row(operation, case.token, &()) {
                    RowOperation::Settle(lease, ending) => {
                        Settlement::new(lease_ref(case.id, lease), ending_of(ending))
                    }
                    other => panic!("{other:?}"),
                };
                let settlements = cases.iter().map(settlement).collect();
                let settled = self.store.settle(QUEUE, settlements).await;
                let settled = settled.map_err(failed)?.results.into_iter();
                ids.zip(settled.map(RowOutcome::Settled)).collect()
            }
            RowOperation::ReleaseClaim(_) => {
                let token = |case: &Case| match on_row(operation, case.token, &()) {
                    RowOperation::ReleaseClaim(token) => token,
                    other => panic!("{other:?}"),
                };
                let mut tokens: Vec<Uuid> = cases.iter().map(token).collect();
                tokens.dedup();
                let released = self.store.release_claims(QUEUE, tokens.into()).await;
                let ended = released.map_err(failed)?.ended.into_iter();
                ended
                    .map(|ended| (id(&ended.lease.key), RowOutcome::Released))
                    .collect()
            }
            RowOperation::Cancel {
                fence,
                delay,
                dead_letter,
            } => {
                let leases = ids.clone().map(|id| CancelledLease {
                    key: key(id),
                    fence,
                });
                let cancellation = Cancellation {
                    delay,
                    dead_letter,
                    reason: "cancelled".to_owned(),
                    call: None,
                };
                let cancelled = self
                    .store
                    .cancel(QUEUE, leases.collect(), cancellation)
                    .await;
                let results = cancelled.map_err(failed)?.results.into_iter();
                ids.zip(results.map(RowOutcome::Cancelled)).collect()
            }
            RowOperation::Reap { is_stepped } => {
                // A clock that can show at most the year 1970 has been stepped.
                let latest = is_stepped.then(|| LatestTime::new(0, Instant::now()));
                let reaped = self.store.reap(QUEUE, 10_000, latest).await;
                let reaped = reaped.map_err(failed)?;
                let expired = reaped.expired.into_iter().map(|ended| {
                    let outcome = RowOutcome::Expired(ended.state);
                    (id(&ended.lease.key), outcome)
                });
                let promoted =
                    self.counted(operation, cases, &RowOutcome::Promoted, reaped.promoted)?;
                expired.chain(promoted).collect()
            }
            RowOperation::Redrive => {
                let redriven = self.redrive(cases).await?;
                self.counted(operation, cases, &RowOutcome::Redriven, redriven)?
            }
            RowOperation::BeginEpoch(_) => self.begin_epoch(operation, cases).await?,
        };
        Ok(outcomes)
    }

    /// Redrives all rows, as if a search had found each of them. The first batch names other fencing tokens, and must change
    /// nothing. Returns the number of rows that the second has changed.
    async fn redrive(&self, cases: &[Case]) -> Result<usize, String> {
        let broker = Broker::new(self.store.clone());
        let running = Running::start(&broker, OperationKind::Redrive).await;
        let mut changed: Result<[usize; 2], StoreError> = Ok([0, 0]);
        for (number, ahead) in [1, 0].into_iter().enumerate() {
            let items = cases.iter();
            let items = items.map(|case| (key(case.id), case.row.fence + ahead));
            let change = redrive(Duration::ZERO, Checkpoints::Keep);
            let number_of_batch = i64::try_from(number).expect("0 or 1");
            let batch = running.batch(number_of_batch, change, items.collect());
            let applied = self.store.apply_batch(QUEUE, batch).await;
            changed = changed.and_then(|mut changed| {
                // A batch after one that failed does not count.
                changed[number] = applied?.changed.unwrap_or_default();
                Ok(changed)
            });
        }
        // The next replay starts another one.
        let cancelled = self.store.cancel_operation(running.id, "").await;
        cancelled.expect("an answer").expect("the operation");
        match changed {
            Ok([0, redriven]) => Ok(redriven),
            Ok([others, _]) => Err(format!("{others} rows with other fencing tokens changed")),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn begin_epoch(
        &self,
        operation: RowOperation<()>,
        cases: &[Case],
    ) -> Result<Outcomes, String> {
        let queues = std::slice::from_ref(&self.queue);
        let epoch = self.database.harness().begin_epoch(queues).await;
        let epoch = epoch.map_err(|error| error.to_string())?;
        let ended = epoch.ended_leases.first().map_or(0, |(_, ended)| *ended);
        let ended = usize::try_from(ended).map_err(|error| error.to_string())?;
        self.counted(operation, cases, &RowOutcome::OfEarlierEpoch, ended)
    }

    /// Returns the rows for which the operation must have this outcome. The store returns only their number, and the rows show
    /// which ones they are.
    fn counted(
        &self,
        operation: RowOperation<()>,
        cases: &[Case],
        outcome: &RowOutcome,
        count: usize,
    ) -> Result<Outcomes, String> {
        let now = self.database.now();
        let expected = cases.iter().filter(|case| {
            let on_row = on_row(operation, case.token, &WORKER.to_owned());
            step(&self.queue, Some(&case.row), now, &on_row).1 == *outcome
        });
        let expected: Outcomes = expected.map(|case| (case.id, outcome.clone())).collect();
        if expected.len() == count {
            Ok(expected)
        } else {
            let right = expected.len();
            Err(format!("{outcome:?} is told for {count} rows, not {right}"))
        }
    }
}

fn heartbeat_outcome(renewed: Renewed) -> RowOutcome {
    match renewed {
        Renewed::Extended(_) => RowOutcome::Extended,
        Renewed::Lost {
            state,
            cancel_reason,
        } => RowOutcome::Lost {
            state,
            is_cancelled: cancel_reason.is_some(),
        },
        Renewed::Refused(refusal) => panic!("{refusal}"),
    }
}

fn ending_of(ending: RowEnding) -> Ending {
    match ending {
        RowEnding::Complete => Ending::Complete {
            follow_ups: Vec::new(),
        },
        RowEnding::Fail(retry) => Ending::Fail {
            error: "no luck".to_owned(),
            retry,
        },
        RowEnding::Release(delay) => Ending::Release { delay },
    }
}

fn claim_call(token: Uuid) -> ClaimCall {
    ClaimCall {
        worker: WORKER.to_owned(),
        token,
        has_request_id: false,
        max_items: 1_000,
        max_bytes: 64 << 20,
        duration: DURATION,
        groups: Vec::new(),
        max_run: 1,
    }
}

fn key(id: i64) -> Key {
    Key([Value::Int(id)].into())
}

fn id(key: &Key) -> i64 {
    match *key.0 {
        [Value::Int(id)] => id,
        _ => panic!("{key:?} is not a key of this queue"),
    }
}

fn lease_ref(id: i64, lease: LeaseProof) -> LeaseRef {
    LeaseRef {
        key: key(id),
        token: lease.token,
        fence: lease.fence,
        // The store does not look at it.
        attempt: 1,
    }
}

fn every(_: &RowOperation<()>) -> bool {
    true
}

/// The kinds of completion differ only in settlements.
fn settlements(operation: &RowOperation<()>) -> bool {
    matches!(operation, RowOperation::Settle(LeaseProof { fence, .. }, _) if *fence == FENCE)
}

macro_rules! replays {
    ($store:ident, $database:ty) => {
        mod $store {
            use super::*;

            #[tokio::test]
            async fn each_step_on_each_kind_of_row_agrees() {
                replay::<$database>(OnComplete::Keep, every).await;
            }

            #[tokio::test]
            async fn settlements_agree_if_rows_are_deleted() {
                replay::<$database>(OnComplete::Delete, settlements).await;
            }

            #[tokio::test]
            async fn settlements_agree_if_rows_are_archived() {
                let archive = OnComplete::Archive("archive".to_owned());
                replay::<$database>(archive, settlements).await;
            }

            #[tokio::test]
            async fn settlements_agree_if_items_recur() {
                let hour = Duration::from_secs(3_600);
                replay::<$database>(OnComplete::Recur(hour), settlements).await;
            }
        }
    };
}

replays!(sqlite, database::Sqlite);
replays!(mssql, database::Mssql);
