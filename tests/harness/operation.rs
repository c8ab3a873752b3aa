//! Operations on many items: a test starts one, takes it as a broker does, and applies its batches.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_store::{
    AppliedBatch, Checkpoints, ItemChange, ItemFilter, ItemSearch, LONGEST_HOLD, NewOperation,
    OperationBatch, OperationKind, OperationState, StartedOperation,
};
use uuid::Uuid;

use super::fixture::{Broker, MINUTE};

/// The maximum number of items in a batch.
const MAX_BATCH: usize = 500;

/// An operation that a broker has taken.
pub(crate) struct Running {
    pub(crate) id: Uuid,
    pub(crate) holder: Uuid,
}

impl Running {
    /// Starts an operation on the broker's queue, and takes it.
    pub(crate) async fn start(broker: &Broker, kind: OperationKind) -> Self {
        let (id, holder) = (Uuid::new_v4(), Uuid::new_v4());
        let new = NewOperation {
            id,
            kind,
            definition: "{}".to_owned(),
            actor: String::new(),
            reason: String::new(),
        };
        let started = broker.store.start_operation(broker.queue, new).await;
        let StartedOperation::Started(_) = started.expect("an answer") else {
            panic!("another operation of this kind runs");
        };
        let taken = broker.store.take_operation(id, holder, LONGEST_HOLD).await;
        let taken = taken.expect("an answer").expect("the operation");
        assert_eq!((taken.id, taken.holder), (id, Some(holder)));
        Self { id, holder }
    }

    /// Returns the batch with this number, for items with their fencing tokens.
    pub(crate) fn batch(
        &self,
        number: i64,
        change: ItemChange,
        items: Vec<(Key, i64)>,
    ) -> OperationBatch {
        OperationBatch {
            id: self.id,
            holder: self.holder,
            number,
            hold_for: MINUTE,
            change,
            items,
            position: None,
            examined: 0,
            refused: 0,
            error: None,
            end: None,
        }
    }
}

/// Returns the change that makes dead items ready, after a delay, with all their attempts.
pub(crate) const fn redrive(delay: Duration, checkpoints: Checkpoints) -> ItemChange {
    ItemChange::Redrive {
        delay,
        keep_attempts: false,
        checkpoints,
    }
}

impl Broker {
    pub(crate) async fn apply_batch(&self, batch: OperationBatch) -> AppliedBatch {
        let applied = self.store.apply_batch(self.queue, batch).await;
        applied.expect("applied")
    }

    /// Makes at most `limit` dead items ready, by one operation. Returns their number.
    pub(crate) async fn redrive(&self, limit: usize) -> usize {
        self.redrive_with(limit, Checkpoints::Keep).await
    }

    pub(crate) async fn redrive_with(&self, limit: usize, checkpoints: Checkpoints) -> usize {
        let running = Running::start(self, OperationKind::Redrive).await;
        let (mut after, mut left, mut changed) = (None, limit, 0);
        for number in 0.. {
            let page = ItemSearch {
                state: State::Dead,
                filter: ItemFilter::default(),
                not_since: None,
                after: after.take(),
                newest_first: false,
                limit: left.min(MAX_BATCH),
                max_examined: 10 * MAX_BATCH,
            };
            let found = self.reads.find_items(self.queue, page).await;
            let found = found.expect("a page");
            let items = found.items.into_iter().map(|item| item.listed);
            let items: Vec<_> = items.map(|item| (item.key, item.fence)).collect();
            left -= items.len();
            after = found.end;
            let is_last = after.is_none() || left == 0;
            let batch = running.batch(number, redrive(Duration::ZERO, checkpoints), items);
            let end = is_last.then_some(OperationState::Done);
            let applied = self.apply_batch(OperationBatch { end, ..batch }).await;
            changed += applied.changed.expect("the batch counts");
            if is_last {
                break;
            }
        }
        changed
    }
}
