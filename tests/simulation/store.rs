//! A store on the database of a run. Each operation takes the time that the seed says, and is applied at one moment of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{LeaseRef, Secret, SigningSecrets};
use lease_broker_model::millis::duration_between;
use lease_broker_proof::suspects::SuspectList;
use lease_broker_store::{
    ArchiveCutoff, BrokerList, Browse, CancelResults, Cancellation, CancelledLease, ClaimCall,
    Claimed, ClaimedItem, Concurrency, EndedLease, EnqueueOnce, EnqueuedOnce, Facts, FoundGroups,
    FoundItems, GroupSearch, Instance, ItemFacts, ItemRecord, ItemSearch, LatestTime, LeaseExpiry,
    LeaseProof, LeaseRow, Leases, ListedItem, NewItem, Operation, OutageCause, PoolStatus, Problem,
    ProblemKind, PurgeStep, Purged, QueueIndex, QueuePause, Reaped, Rejection, ReleasedClaims,
    Renewal, Renewed, RetentionTurn, RowEnding, RowOperation, RowOutcome, SettleResults,
    Settlement, Share, Stats, Store, StoreError, Upkeep,
};
use lease_broker_value::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::database::{Database, Inner, Sabotage};

/// The column that makes the table refuse an item.
pub(super) const REFUSED: &str = "refused";

/// Answers a claim in the place of the database.
type ClaimScript = Box<
    dyn Fn(Arc<[ClaimCall]>) -> BoxFuture<'static, Result<Vec<Claimed>, StoreError>> + Send + Sync,
>;

/// The store of one broker.
pub(super) struct SimulatedStore {
    /// `None`: claims read the database.
    pub(super) claims: Option<ClaimScript>,
    database: Database,
    /// Cancelled when the broker is killed. No operation goes on then.
    killed: CancellationToken,
    concurrency: Concurrency,
    running: Running,
    secret: Secret,
    secrets: Arc<SigningSecrets>,
    reads: Arc<dyn Browse>,
}

/// The number of operations that run, by name.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl Running {
    /// Counts one more operation. Returns how many of this name run now.
    fn begin(&self, name: &'static str) -> usize {
        self.change(name, |count| count + 1)
    }

    fn end(&self, name: &'static str) {
        self.change(name, |count| count - 1);
    }

    fn change(&self, name: &'static str, change: impl FnOnce(usize) -> usize) -> usize {
        let mut counts = self.0.lock().expect("not poisoned");
        let count = counts.entry(name).or_default();
        *count = change(*count);
        *count
    }
}

impl SimulatedStore {
    pub(super) fn new(
        database: Database,
        killed: CancellationToken,
        concurrency: Concurrency,
    ) -> Self {
        let secret = Secret::new([7; 16]);
        Self {
            claims: None,
            database,
            killed,
            concurrency,
            running: Running::default(),
            secret,
            secrets: Arc::new(SigningSecrets::only(secret)),
            reads: Arc::new(NoReads),
        }
    }

    /// Runs an operation to its end, also if the caller is gone.
    async fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        operation: impl FnOnce(&mut Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (database, killed) = (self.database.clone(), self.killed.clone());
        if self.running.begin(name) > 1 {
            database.note(format!("{name} beside another one"));
        }
        let running = async move {
            let (before, after) = database.lock().latency();
            tokio::time::sleep(before).await;
            if database.lock().refuses() {
                return Err(StoreError::not_begun(
                    OutageCause::NoConnection,
                    "an outage",
                ));
            }
            let result = {
                let mut database = database.lock();
                database.note(name);
                operation(&mut database)
            };
            tokio::time::sleep(after).await;
            let database = database.lock();
            if database.is_out() {
                let error = StoreError::unavailable("an outage");
                return Err(match database.sabotage {
                    Sabotage::DeniesCommits => error.not_applied(),
                    _ => error,
                });
            }
            result
        };
        let task = tokio::spawn(async move {
            match killed.run_until_cancelled(running).await {
                Some(result) => result,
                None => std::future::pending().await,
            }
        });
        let outcome = task.await;
        self.running.end(name);
        outcome.unwrap_or_else(|error| Err(StoreError::Bug(error.to_string())))
    }
}

fn key(id: i64) -> Key {
    Key([Value::Int(id)].into())
}

pub(super) fn id(key: &Key) -> i64 {
    match *key.0 {
        [Value::Int(id)] => id,
        _ => 0,
    }
}

fn proof(lease: &LeaseRef) -> LeaseProof {
    LeaseProof {
        token: lease.token,
        fence: lease.fence,
    }
}

pub(super) fn claimed_item(id: i64, row: &LeaseRow, now: i64) -> ClaimedItem {
    let expire_time = row.due.unwrap_or(now);
    ClaimedItem {
        lease: LeaseRef {
            key: key(id),
            token: row.token.unwrap_or_default(),
            fence: row.fence,
            attempt: row.attempt,
        },
        expiry: LeaseExpiry {
            expire_time,
            time_left: duration_between(now, expire_time),
        },
        ready_time: None,
        columns: Vec::new(),
        trace_parent: None,
        checkpoint: None,
        run: 0,
    }
}

fn ended(id: i64, row: &LeaseRow, state: State, now: i64) -> EndedLease {
    EndedLease {
        lease: claimed_item(id, row, now).lease,
        owner: row.owner.clone(),
        state,
        trace_parent: None,
        claim_time: now,
        expire_time: row.due.unwrap_or(now),
        end_time: now,
    }
}

impl Inner {
    fn claim(&mut self, call: &ClaimCall) -> Claimed {
        let now = self.now();
        let held_by_call = |(id, row): (&i64, &LeaseRow)| {
            let is_held = call.has_request_id && row.is_leased_by(call.token, now);
            is_held.then_some(*id)
        };
        let mut ids: Vec<i64> = self.rows.iter().filter_map(held_by_call).collect();
        let mut share = (Share::All, None);
        if ids.is_empty() {
            let takes = |row: &LeaseRow| {
                row.state == State::Ready
                    || self.sabotage == Sabotage::LeasesTwice && row.state == State::Leased
            };
            let patience = i64::try_from(self.queue.lease.default.as_millis()).unwrap_or(i64::MAX);
            let row = |id| self.rows.get(&id);
            let times = (patience, now);
            share = self
                .suspects
                .choose(row, self.rows.values(), &call.worker, times);
            let ready = self.rows.iter().filter(|(_, row)| takes(row));
            let ready = ready.map(|(id, row)| (*id, row));
            ids = SuspectList::pick(share, ready, call.max_items);
            for id in &ids {
                let claim = RowOperation::Claim {
                    token: call.token,
                    owner: call.worker.clone(),
                    duration: call.duration,
                    epoch_fence: 0,
                };
                self.step(*id, &claim);
                if share.0 == Share::Suspect {
                    let row = self.rows[id].clone();
                    self.suspects.note_lease(*id, &call.worker, &row);
                }
            }
        }
        let items = ids.iter().filter_map(|id| {
            let row = self.rows.get(id)?;
            Some(claimed_item(*id, row, now))
        });
        Claimed {
            items: items.collect(),
            is_held_back: share.0 != Share::All,
            ..Claimed::default()
        }
    }

    fn enqueue(&mut self, items: &[NewItem]) -> Result<Vec<Key>, StoreError> {
        let is_refused = |item: &NewItem| item.columns.iter().any(|(name, _)| name == REFUSED);
        if let Some(at) = items.iter().position(is_refused) {
            let problem = Problem::new(ProblemKind::Check, "refused");
            return Err(StoreError::Rejected(Rejection::of_item(at, None, problem)));
        }
        let add = |_| key(self.insert(LeaseRow::new()));
        Ok(items.iter().map(add).collect())
    }

    fn reap(&mut self, limit: usize, latest: Option<i64>) -> Reaped {
        let now = self.now();
        let is_stepped = latest.is_some_and(|latest| now > latest);
        let mut due: Vec<(i64, i64)> = self
            .rows
            .iter()
            .filter_map(|(id, row)| Some((row.due?, *id)))
            .collect();
        due.sort_unstable();
        let mut reaped = Reaped {
            time: Some(now),
            ..Reaped::default()
        };
        for (_, id) in due.into_iter().filter(|(due, _)| *due <= now).take(limit) {
            let before = self.rows[&id].clone();
            match self.step(id, &RowOperation::Reap { is_stepped }) {
                RowOutcome::Expired(state) => {
                    reaped.expired.push(ended(id, &before, state, now));
                    if state == State::Ready && !is_stepped {
                        self.suspects.remember(id, &self.rows[&id], now);
                    }
                }
                RowOutcome::Promoted => reaped.promoted += 1,
                _ => {}
            }
        }
        self.suspects.forget(|id| self.rows.get(&id));
        let next = self.rows.values().filter_map(|row| row.due).min();
        reaped.next_due = next.map(|next| duration_between(now, next));
        reaped
    }
}

#[async_trait]
impl Leases for SimulatedStore {
    fn concurrency(&self) -> Concurrency {
        self.concurrency
    }

    fn withdraw_waiting(&self) {}

    async fn claim(
        &self,
        _: QueueIndex,
        calls: Arc<[ClaimCall]>,
        _: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        if let Some(answer) = &self.claims {
            return answer(calls).await;
        }
        self.run("claim", move |database| {
            let mut results: Vec<Claimed> = calls.iter().map(|call| database.claim(call)).collect();
            if database.sabotage == Sabotage::SwapsResults {
                results.reverse();
            }
            Ok(results)
        })
        .await
    }

    async fn heartbeat(
        &self,
        _: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Renewed>, StoreError> {
        self.run("heartbeat", move |database| {
            let now = database.now();
            let renew = |renewal: &Renewal| {
                let id = id(&renewal.lease.key);
                let heartbeat = RowOperation::Heartbeat(proof(&renewal.lease), renewal.duration);
                match database.step(id, &heartbeat) {
                    RowOutcome::Extended => {
                        let row = &database.rows[&id];
                        Renewed::Extended(claimed_item(id, row, now).expiry)
                    }
                    RowOutcome::Lost {
                        state,
                        is_cancelled,
                    } => Renewed::Lost {
                        state,
                        cancel_reason: is_cancelled.then(|| "cancelled".to_owned()),
                    },
                    _ => Renewed::UNKNOWN,
                }
            };
            Ok(renewals.iter().map(renew).collect())
        })
        .await
    }

    async fn settle(
        &self,
        _: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError> {
        self.run("settle", move |database| {
            let mut results = Vec::new();
            for settlement in settlements.iter() {
                let ending = RowEnding::from(&settlement.ending);
                let operation = RowOperation::Settle(proof(&settlement.lease), ending);
                if let RowOutcome::Settled(settled) =
                    database.step(id(&settlement.lease.key), &operation)
                {
                    results.push(settled);
                }
            }
            if database.sabotage == Sabotage::SwapsResults {
                results.reverse();
            }
            Ok(SettleResults {
                released: Vec::new(),
                time: Some(database.now()),
                owners: vec![None; results.len()],
                results,
            })
        })
        .await
    }

    async fn release_claims(
        &self,
        _: QueueIndex,
        tokens: Arc<[Uuid]>,
    ) -> Result<ReleasedClaims, StoreError> {
        self.run("release claims", move |database| {
            let now = database.now();
            let mut released = ReleasedClaims::default();
            for token in tokens.iter() {
                let held = database.rows.iter();
                let held = held.filter(|(_, row)| row.is_leased_by(*token, now));
                let held: Vec<(i64, LeaseRow)> = held.map(|(id, row)| (*id, row.clone())).collect();
                released.counts.push(held.len());
                for (id, row) in held {
                    database.step(id, &RowOperation::ReleaseClaim(*token));
                    released.ended.push(ended(id, &row, State::Ready, now));
                }
            }
            Ok(released)
        })
        .await
    }

    async fn cancel(
        &self,
        _: QueueIndex,
        leases: Arc<[CancelledLease]>,
        cancellation: Cancellation,
    ) -> Result<CancelResults, StoreError> {
        self.run("cancel", move |database| {
            let mut cancelled = CancelResults::default();
            for lease in leases.iter() {
                let cancel = RowOperation::Cancel {
                    fence: lease.fence,
                    delay: cancellation.delay,
                    dead_letter: cancellation.dead_letter,
                };
                if let RowOutcome::Cancelled(result) = database.step(id(&lease.key), &cancel) {
                    cancelled.results.push(result);
                }
            }
            Ok(cancelled)
        })
        .await
    }

    async fn reap(
        &self,
        _: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError> {
        self.run("reap", move |database| {
            Ok(database.reap(limit, latest.map(LatestTime::now)))
        })
        .await
    }

    async fn enqueue(&self, _: QueueIndex, items: Arc<[NewItem]>) -> Result<Vec<Key>, StoreError> {
        self.run("enqueue", move |database| database.enqueue(&items))
            .await
    }

    async fn enqueue_once(
        &self,
        _: QueueIndex,
        request: Arc<EnqueueOnce>,
    ) -> Result<EnqueuedOnce, StoreError> {
        self.run("enqueue once", move |database| {
            database.enqueue(&request.items).map(EnqueuedOnce::Added)
        })
        .await
    }
}

#[async_trait]
impl Facts for SimulatedStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn signing_secrets(&self) -> &Arc<SigningSecrets> {
        &self.secrets
    }

    fn location(&self) -> String {
        "a simulation".to_owned()
    }

    fn database(&self) -> lease_broker_store::Database {
        lease_broker_store::Database::default()
    }

    fn pool_status(&self) -> PoolStatus {
        PoolStatus::default()
    }

    fn columns(&self, _: QueueIndex) -> Arc<[String]> {
        Arc::new([])
    }

    async fn example_item(
        &self,
        _: QueueIndex,
    ) -> Result<Option<Vec<(String, String)>>, StoreError> {
        Ok(None)
    }
}

impl Store for SimulatedStore {
    fn reads(&self) -> &Arc<dyn Browse> {
        &self.reads
    }
}

/// The reads of a store. No task of the simulated brokers reads items.
struct NoReads;

#[async_trait]
impl Browse for NoReads {
    fn parse_key(&self, _: QueueIndex, text: &str) -> Result<Key, String> {
        let id: Result<i64, _> = text.parse();
        id.map(key).map_err(|error| error.to_string())
    }

    fn parse_group(&self, _: QueueIndex, _: &str) -> Result<Key, String> {
        Err("the queue has no groups".to_owned())
    }

    async fn timed_stats(
        &self,
        _: QueueIndex,
        _: Option<Duration>,
    ) -> Result<(Stats, Duration), StoreError> {
        Ok((Stats::default(), Duration::ZERO))
    }

    async fn exact_stats(&self, _: QueueIndex) -> Result<Stats, StoreError> {
        Ok(Stats::default())
    }

    async fn list(&self, _: QueueIndex, _: State, _: usize) -> Result<Vec<ListedItem>, StoreError> {
        Ok(Vec::new())
    }

    async fn item_facts(&self, _: QueueIndex, _: Key) -> Result<ItemFacts, StoreError> {
        Err(unsupported())
    }

    async fn find_items(&self, _: QueueIndex, _: ItemSearch) -> Result<FoundItems, StoreError> {
        Err(unsupported())
    }

    async fn find_keys(&self, _: QueueIndex, _: Arc<[Key]>) -> Result<FoundItems, StoreError> {
        Err(unsupported())
    }

    async fn read_item(&self, _: QueueIndex, _: Key) -> Result<Option<ItemRecord>, StoreError> {
        Err(unsupported())
    }

    async fn find_groups(&self, _: QueueIndex, _: GroupSearch) -> Result<FoundGroups, StoreError> {
        Err(unsupported())
    }

    async fn pauses(&self) -> Result<Vec<QueuePause>, StoreError> {
        Err(unsupported())
    }

    async fn operation(&self, _: Uuid) -> Result<Option<Operation>, StoreError> {
        Err(unsupported())
    }

    async fn operations(
        &self,
        _: Arc<[String]>,
        _: bool,
        _: Option<Uuid>,
        _: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        Err(unsupported())
    }

    async fn brokers(&self) -> Result<BrokerList, StoreError> {
        Err(unsupported())
    }
}

#[async_trait]
impl Upkeep for SimulatedStore {
    async fn read_secrets(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn rotate_secrets(&self, _: Duration) -> Result<u8, StoreError> {
        Err(unsupported())
    }

    async fn forget_requests(&self, _: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Finds no old item. Notes the time until which ages are counted.
    async fn purge(&self, _: QueueIndex, step: PurgeStep) -> Result<Purged, StoreError> {
        self.run("purge", move |database| {
            let clock_step = std::mem::take(&mut database.step_at_purge);
            database.step_clock(clock_step);
            let now = LatestTime::limit(step.latest, database.now());
            database.purged_until.push(now);
            Ok(Purged::default())
        })
        .await
    }

    async fn purge_archive(
        &self,
        _: QueueIndex,
        _: ArchiveCutoff,
        _: usize,
    ) -> Result<usize, StoreError> {
        Err(unsupported())
    }

    async fn count_archived(&self, _: QueueIndex, _: i64) -> Result<u64, StoreError> {
        Err(unsupported())
    }

    async fn take_retention_turn(
        &self,
        _: QueueIndex,
        _: Uuid,
        _: Duration,
    ) -> Result<RetentionTurn, StoreError> {
        self.run("take turn", |_| Ok(RetentionTurn::Taken)).await
    }

    async fn announce(&self, _: Arc<Instance>) -> Result<Vec<Instance>, StoreError> {
        Ok(Vec::new())
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.run("probe", |_| Ok(())).await
    }
}

/// The error of an operation that no task of the simulated brokers runs.
pub(super) fn unsupported() -> StoreError {
    StoreError::Bug("the simulation does not do this".to_owned())
}
