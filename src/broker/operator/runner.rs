//! The task that obeys what the database asks of this broker: it runs operations on many items, and drains when it is told to.
//!
//! An operation is a row in the database. A broker takes it for [`HOLD`], and each batch of items renews that. So if the broker is
//! killed, another one continues after this time, at the place that the last batch has stored with its changes.
//!
//! A queue runs one operation at a time here. Operations of different queues run beside each other, so that an urgent one does not wait
//! for a slow one of another queue. The looks at the database wait for none of them.

use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_store::{
    AppliedBatch, ItemSearch, Operation, OperationBatch, OperationState, QueueIndex,
    SearchPosition, Store, StoreError,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Operator;
use super::definition::{Definition, OperationChange, Position, StoredPlace};
use crate::broker::error::Error;

/// The time between two looks at the database.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time for which a broker keeps an operation. It is longer than a batch takes.
const HOLD: Duration = Duration::from_secs(5);
/// The maximum number of items in a batch. On SQL Server a changed row takes one lock per index, and about 5,000 locks become a
/// lock of the table.
const MAX_BATCH: usize = 500;
/// The maximum number of rows that are looked at for a batch.
const MAX_EXAMINED: usize = 5_000;
/// After this many refused items an operation fails: it would otherwise try each item of a table whose rows are all refused.
const MAX_REFUSED: i64 = 100;
/// The maximum number of batches that run at the same moment.
const MAX_BATCHES: usize = 4;
/// The shortest rest between two batches.
const MIN_REST: Duration = Duration::from_millis(2);

/// The state of the task.
pub(in crate::broker) struct OperationRunner {
    operator: Arc<Operator>,
    store: Arc<dyn Store>,
    /// The id of this broker.
    broker: Uuid,
    /// Cancelled when an operator tells this broker to drain.
    drain: CancellationToken,
    /// [`MAX_BATCHES`] places for batches that run, which bound the load of all operations together. An operation that rests needs no
    /// place.
    batches: Semaphore,
    /// The operations that were logged as left to a newer broker.
    left: Mutex<HashSet<Uuid>>,
}

/// An operation that this broker holds.
struct Taken {
    operation: Operation,
    queue: QueueIndex,
    definition: Definition,
}

impl Definition {
    /// Returns the search for the items of an operation.
    pub(super) fn search(
        &self,
        after: Option<SearchPosition>,
        limit: usize,
        max_examined: usize,
    ) -> ItemSearch {
        ItemSearch {
            state: self.change.state(),
            filter: self.selection.filter.clone(),
            not_since: None,
            after,
            newest_first: false,
            limit,
            max_examined,
        }
    }
}

/// The items of the next batch.
struct NextBatch {
    items: Vec<(Key, i64)>,
    examined: usize,
    /// The place at which the batch after it begins.
    position: Position,
    /// Whether the search has reached its end.
    is_last: bool,
    /// Whether the search begins again after this batch.
    is_repeated: bool,
}

/// Items that the operation does not change again. Without them, an operation whose search begins again would never end if the table
/// refuses a change, or if a trigger takes it back.
#[derive(Default)]
struct Visited {
    /// Whether the search has begun again. The first search visits each lease once, so its items need no memory.
    is_repeated: bool,
    /// Keys and fencing tokens: items that the table has refused, and all items of repeated searches.
    items: HashSet<(String, i64)>,
}

impl Visited {
    fn name((key, fence): &(Key, i64)) -> (String, i64) {
        (key.to_string(), *fence)
    }

    fn has(&self, item: &(Key, i64)) -> bool {
        !self.items.is_empty() && self.items.contains(&Self::name(item))
    }
}

impl OperationRunner {
    /// Creates the task of a broker with this id. `drain` is cancelled when an operator tells it to drain.
    pub(in crate::broker) fn new(
        operator: Arc<Operator>,
        store: Arc<dyn Store>,
        broker: Uuid,
        drain: CancellationToken,
    ) -> Self {
        Self {
            operator,
            store,
            broker,
            drain,
            batches: Semaphore::new(MAX_BATCHES),
            left: Mutex::default(),
        }
    }

    /// Runs the task until `stop` is cancelled.
    pub(in crate::broker) async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.obey()).await;
    }

    /// Looks at the database at intervals, and runs the operations that it finds.
    async fn obey(&self) -> Infallible {
        let mut idle: Vec<String> = self.operator.queue_names().map(str::to_owned).collect();
        let mut running = FuturesUnordered::new();
        let mut look = pin!(self.look(Duration::ZERO, idle.clone()));
        loop {
            tokio::select! {
                taken = &mut look => {
                    for taken in taken {
                        idle.retain(|queue| *queue != taken.operation.queue);
                        running.push(self.run_and_report(taken));
                    }
                    look.set(self.look(INTERVAL, idle.clone()));
                }
                // A look that is dropped can have taken an operation. The next look takes it again, because this broker holds it.
                Some(queue) = running.next() => {
                    idle.push(queue);
                    look.set(self.look(Duration::ZERO, idle.clone()));
                }
            }
        }
    }

    /// Waits for `rest`, obeys an order to drain, and takes one operation of each of these queues, the oldest one that no other broker
    /// runs and that this version understands.
    async fn look(&self, rest: Duration, mut idle: Vec<String>) -> Vec<Taken> {
        sleep(rest).await;
        let mut taken = Vec::new();
        let orders = match self.store.read_orders(self.broker, &idle).await {
            Ok(orders) => orders,
            // The probe of the store reports outages.
            Err(StoreError::Unavailable(_)) => return taken,
            Err(error) => {
                tracing::warn!(%error, "operations cannot be read");
                return taken;
            }
        };
        if orders.drain {
            self.drain.cancel();
        }
        for waiting in orders.operations {
            if !idle.contains(&waiting.queue) {
                continue;
            }
            let Some((queue, definition)) = self.understand(&waiting) else {
                self.leave(&waiting);
                continue;
            };
            let took = self.store.take_operation(waiting.id, self.broker, HOLD);
            if let Ok(Some(operation)) = took.await {
                idle.retain(|queue| *queue != operation.queue);
                taken.push(Taken {
                    operation,
                    queue,
                    definition,
                });
            }
        }
        taken
    }

    /// Leaves an operation to a newer broker, and logs it once.
    fn leave(&self, operation: &Operation) {
        if self.left.lock().insert(operation.id) {
            tracing::warn!(
                operation = %operation.id,
                queue = operation.queue,
                kind = operation.kind,
                reason = "this version does not know its kind or its filter; `lease-broker operations cancel` ends it",
                "operation left to a newer broker"
            );
        }
    }

    /// Runs an operation to its end, or until another broker has it, or until an error interrupts it. Returns its queue.
    async fn run_and_report(&self, taken: Taken) -> String {
        let (id, queue) = (taken.operation.id, taken.operation.queue.clone());
        if let Err(error) = self.run_operation(taken).await {
            let bug = matches!(error, StoreError::Bug(_));
            tracing::warn!(operation = %id, %error, bug, "operation interrupted; a broker continues it");
            sleep(INTERVAL).await;
        }
        queue
    }

    /// Runs an operation to its end, or until another broker has it.
    async fn run_operation(&self, taken: Taken) -> Result<(), StoreError> {
        let Taken {
            mut operation,
            queue,
            definition,
        } = taken;
        let mut max_batch = MAX_BATCH;
        let mut visited = Visited::default();
        loop {
            let start = Instant::now();
            let changed = match self
                .run_batch(queue, &operation, &definition, max_batch, &mut visited)
                .await
            {
                Ok(applied) => {
                    max_batch = (max_batch * 2).min(MAX_BATCH);
                    applied.changed
                }
                Err(StoreError::Rejected(_)) if max_batch > 1 => {
                    max_batch /= 2;
                    Some(0)
                }
                Err(StoreError::Misconfigured(problem)) => {
                    self.end(queue, &operation, OperationState::Failed, Some(problem))
                        .await?;
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let now = self.store.reads().operation(operation.id).await?;
            let Some(now) = now.filter(|now| now.state == OperationState::Running) else {
                return Ok(());
            };
            if now.holder != Some(self.broker) {
                return Ok(());
            }
            operation = now;
            let took = start.elapsed();
            let rest = match (definition.max_per_second, changed) {
                (Some(rate), Some(changed)) => {
                    let changed = u32::try_from(changed).unwrap_or(u32::MAX);
                    let wanted = Duration::from_secs(1) * changed / rate;
                    wanted.saturating_sub(took)
                }
                _ => Duration::ZERO,
            };
            let rest = rest.max(took).max(MIN_REST);
            self.rest(queue, &mut operation, rest).await?;
        }
    }

    /// Rests between two batches. A long rest renews the hold.
    async fn rest(
        &self,
        queue: QueueIndex,
        operation: &mut Operation,
        rest: Duration,
    ) -> Result<(), StoreError> {
        let end = Instant::now() + rest;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            sleep(left.min(HOLD / 3)).await;
            if left <= HOLD / 3 {
                return Ok(());
            }
            let kept = self
                .store
                .apply_batch(queue, empty(operation, self.broker))
                .await?;
            if kept.changed.is_none() {
                return Ok(());
            }
            operation.batches += 1;
        }
    }

    /// Returns the queue and the definition of an operation. `None`: a newer broker has stored it.
    fn understand(&self, operation: &Operation) -> Option<(QueueIndex, Definition)> {
        let definition = Definition::parse(&operation.definition)?;
        let (queue, _) = self.operator.queue(&operation.queue).ok()?;
        Some((queue, definition))
    }

    async fn run_batch(
        &self,
        queue: QueueIndex,
        operation: &Operation,
        definition: &Definition,
        max_batch: usize,
        visited: &mut Visited,
    ) -> Result<AppliedBatch, StoreError> {
        let limit = definition.limit.map_or(usize::MAX, |limit| {
            let left = limit.saturating_sub(operation.changed.unsigned_abs());
            usize::try_from(left).unwrap_or(usize::MAX)
        });
        let rate = definition
            .max_per_second
            .map_or(usize::MAX, |rate| rate as usize);
        let wanted = max_batch.min(limit).min(rate.max(1));
        if wanted == 0 {
            return self.end(queue, operation, OperationState::Done, None).await;
        }
        if operation.refused >= MAX_REFUSED {
            let reason = format!("the database refused {} items", operation.refused);
            return self
                .end(queue, operation, OperationState::Failed, Some(reason))
                .await;
        }
        // The semaphore is never closed.
        let _place = self.batches.acquire().await;
        let next = self
            .next_batch(queue, operation, definition, wanted, visited)
            .await?;
        let mut batch = OperationBatch {
            id: operation.id,
            holder: self.broker,
            number: operation.batches,
            hold_for: HOLD,
            change: definition.change.for_store(&operation.reason),
            position: Some(next.position.to_json()),
            examined: i64::try_from(next.examined).unwrap_or(i64::MAX),
            refused: 0,
            error: None,
            end: next.is_last.then_some(OperationState::Done),
            items: next.items,
        };
        let is_alone = batch.items.len() == 1;
        let items: Vec<_> = batch.items.iter().map(Visited::name).collect();
        let applied = match self.store.apply_batch(queue, batch.clone()).await {
            Err(StoreError::Rejected(rejection)) if is_alone || max_batch == 1 => {
                batch.items.clear();
                visited.items.extend(items);
                batch.refused = 1;
                batch.error = Some(rejection.problem.text);
                self.store.apply_batch(queue, batch).await?
            }
            outcome => {
                let applied = outcome?;
                if visited.is_repeated {
                    visited.items.extend(items);
                }
                applied
            }
        };
        visited.is_repeated |= next.is_repeated;
        self.report(queue, definition.change, &applied);
        Ok(applied)
    }

    /// Finds the items of the next batch.
    async fn next_batch(
        &self,
        queue: QueueIndex,
        operation: &Operation,
        definition: &Definition,
        wanted: usize,
        visited: &Visited,
    ) -> Result<NextBatch, StoreError> {
        let mut position = Position::parse(operation.position.as_deref());
        let state = definition.change.state();
        let keys = &definition.selection.keys;
        if !keys.is_empty() {
            let next: Vec<String> = keys
                .iter()
                .skip(position.keys)
                .take(wanted)
                .cloned()
                .collect();
            position.keys += next.len();
            let parsed = self.operator.parse_keys(queue, &next);
            let parsed = parsed.map_err(|error| StoreError::Misconfigured(error.to_string()))?;
            let found = self.store.reads().find_keys(queue, parsed).await?;
            let fits = |item: &&lease_broker_store::FoundItem| {
                let time = item.listed.state_time;
                item.state == Some(state)
                    && !time.is_some_and(|time| operation.was_stored_before(time, found.now))
            };
            let items = found.items.iter().filter(fits);
            return Ok(NextBatch {
                items: items
                    .map(|item| (item.listed.key.clone(), item.listed.fence))
                    .collect(),
                examined: found.examined,
                is_last: position.keys >= keys.len(),
                is_repeated: false,
                position,
            });
        }
        let after = position.after.as_ref();
        let after = after.map(|place| self.operator.search_position(queue, place));
        let after = after.transpose().map_err(StoreError::Misconfigured)?;
        let search = ItemSearch {
            not_since: Some(operation.create_time),
            ..definition.search(after, wanted, MAX_EXAMINED)
        };
        let found = self.store.reads().find_items(queue, search).await?;
        let items = found.items.into_iter();
        let items = items.map(|item| (item.listed.key, item.listed.fence));
        let items: Vec<_> = items.filter(|item| !visited.has(item)).collect();
        position.has_changed |= !items.is_empty();
        position.after = found.end.as_ref().map(StoredPlace::from);
        let mut is_last = found.end.is_none();
        // A heartbeat moves a lease in the order of the search. So the leases are searched until there is none left.
        let is_repeated = is_last && state == State::Leased && position.has_changed;
        if is_repeated {
            is_last = false;
            position = Position::default();
        }
        Ok(NextBatch {
            items,
            is_repeated,
            examined: found.examined,
            position,
            is_last,
        })
    }

    /// Ends an operation.
    async fn end(
        &self,
        queue: QueueIndex,
        operation: &Operation,
        state: OperationState,
        error: Option<String>,
    ) -> Result<AppliedBatch, StoreError> {
        let batch = OperationBatch {
            error,
            end: Some(state),
            ..empty(operation, self.broker)
        };
        self.store.apply_batch(queue, batch).await
    }

    /// Wakes the tasks that the changed items need, and counts cancelled leases.
    fn report(&self, queue: QueueIndex, change: OperationChange, applied: &AppliedBatch) {
        let delay = match change {
            OperationChange::Redrive { delay, .. }
            | OperationChange::CancelLeases {
                delay,
                dead_letter: false,
            } => Some(delay),
            _ => None,
        };
        let has_changed = applied.changed.is_some_and(|changed| changed > 0);
        if let (Some(delay), true) = (delay, has_changed) {
            self.operator.wake(queue, delay);
        }
        if !applied.released.is_empty() {
            self.operator.wake(queue, Duration::ZERO);
        }
        if let Some(recorded) = &self.operator.recorded {
            recorded.ended_by_operation(queue, applied);
        }
    }
}

/// Returns a batch without items, which only renews the hold.
fn empty(operation: &Operation, broker: Uuid) -> OperationBatch {
    OperationBatch {
        id: operation.id,
        holder: broker,
        number: operation.batches,
        hold_for: HOLD,
        change: OperationChange::PurgeDead.for_store(""),
        items: Vec::new(),
        position: operation.position.clone(),
        examined: 0,
        refused: 0,
        error: None,
        end: None,
    }
}

impl Operator {
    /// Runs the operations on these queues in this process, as a broker with a random id. It never ends.
    ///
    /// # Errors
    /// [`Error::StoreMisconfigured`] if the store can only be read.
    pub async fn run_operations(self: &Arc<Self>) -> Result<Infallible, Error> {
        let (store, drain) = (self.store()?.clone(), CancellationToken::new());
        let runner = OperationRunner::new(self.clone(), store, Uuid::new_v4(), drain);
        Ok(runner.obey().await)
    }
}
