//! The calls about operations on many items: start, look, cancel. `runner.rs` runs them.

use lease_broker_store::{MAX_PAGE_BYTES, NewOperation, Operation, QueueIndex, StartedOperation};
use uuid::Uuid;

use super::definition::{Definition, ItemSelection, OperationChange};
use super::items::{MAX_EXAMINED, MAX_PAGE, check_selection, page_size};
use super::{Actor, Operator, filter_error, page_token};
use crate::broker::error::Error;
use crate::broker::limits::{check_cancel_delay, check_delay, stored_text};

/// The maximum number of rows that a dry run looks at.
const MAX_DRY_RUN: usize = 1_000_000;

/// The maximum number of keys that a list shows of an operation.
const MAX_LISTED_KEYS: usize = 10;

/// A request to start an operation, or to count the items that it would change.
#[derive(Clone, Debug)]
pub struct StartOperation {
    /// The name of the queue.
    pub queue: String,
    /// The items.
    pub selection: ItemSelection,
    /// The change.
    pub change: OperationChange,
    /// The maximum number of items. 0: no maximum.
    pub limit: i64,
    /// The maximum number of items per second. 0: no maximum.
    pub max_per_second: i32,
    /// The reason.
    pub reason: String,
}

/// An operation with its definition.
#[derive(Clone, Debug)]
pub struct OperationView {
    /// The row.
    pub operation: Operation,
    /// The change. `None`: a newer broker has stored the operation.
    pub change: Option<OperationChange>,
    /// The items.
    pub selection: ItemSelection,
    /// The maximum number of items.
    pub limit: Option<u64>,
    /// The maximum number of items per second.
    pub max_per_second: Option<u32>,
}

impl From<Operation> for OperationView {
    fn from(operation: Operation) -> Self {
        let definition = Definition::parse(&operation.definition);
        let change = definition.as_ref().map(|definition| definition.change);
        let (limit, max_per_second) = definition.as_ref().map_or((None, None), |definition| {
            (definition.limit, definition.max_per_second)
        });
        Self {
            operation,
            change,
            selection: definition.map(|found| found.selection).unwrap_or_default(),
            limit,
            max_per_second,
        }
    }
}

impl OperationView {
    /// Converts an operation of a list, which shows the first keys only.
    fn listed(operation: Operation) -> Self {
        let mut view = Self::from(operation);
        view.selection.keys.truncate(MAX_LISTED_KEYS);
        view
    }
}

/// The result of a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DryRun {
    /// The number of items that fit.
    pub matched: u64,
    /// The number of rows that were looked at.
    pub examined: u64,
    /// True: the count was ended by its bound.
    pub at_least: bool,
}

/// A page of operations.
#[derive(Clone, Debug)]
pub struct OperationList {
    /// The operations.
    pub operations: Vec<OperationView>,
    /// The token of the next page. Empty: there is none.
    pub next_page_token: String,
}

impl Operator {
    /// Starts an operation with this id, which any broker then runs.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`], [`Error::LimitExceeded`], [`Error::OperationRunning`],
    /// [`Error::PurgeNotAllowed`], and those of the store.
    pub async fn start_operation(
        &self,
        actor: &Actor,
        id: Uuid,
        start: StartOperation,
    ) -> Result<OperationView, Error> {
        let (queue, definition) = self.checked(&start)?;
        // A filter that the table does not accept is an error of this call, and not of the operation.
        self.count(queue, &definition, 1).await?;
        let new = NewOperation {
            id,
            kind: definition.change.kind(),
            definition: definition.to_json(),
            actor: actor.name.clone(),
            reason: stored_text(&start.reason),
        };
        match self.store()?.start_operation(queue, new).await? {
            StartedOperation::Started(operation) | StartedOperation::Repeated(operation) => {
                Ok(operation.into())
            }
            StartedOperation::OtherDefinition => Err(Error::invalid(
                "request_id",
                "an earlier operation with this id was another one",
            )),
            StartedOperation::Running(running) => Err(Error::OperationRunning(running.id)),
        }
    }

    /// Counts the items that an operation would change.
    ///
    /// # Errors
    /// Those of [`Self::start_operation`], except [`Error::OperationRunning`].
    pub async fn dry_run(&self, start: &StartOperation) -> Result<DryRun, Error> {
        let (queue, definition) = self.checked(start)?;
        self.count(queue, &definition, MAX_DRY_RUN).await
    }

    fn checked(&self, start: &StartOperation) -> Result<(QueueIndex, Definition), Error> {
        let (queue, spec) = self.queue(&start.queue)?;
        check_selection(&start.selection, &spec.filterable)?;
        let limit = u64::try_from(start.limit)
            .map_err(|_| Error::invalid("limit", "must not be negative"))?;
        let max_per_second = u32::try_from(start.max_per_second)
            .map_err(|_| Error::invalid("max_per_second", "must not be negative"))?;
        match start.change {
            OperationChange::Redrive { delay, .. } => {
                check_delay(|| "redrive.delay".to_owned(), delay)?;
            }
            OperationChange::CancelLeases { delay, dead_letter } => {
                check_cancel_delay("cancel_leases.delay", delay, dead_letter)?;
            }
            OperationChange::PurgeDead | OperationChange::PurgeCompleted => {
                if !spec.allows_purge {
                    return Err(Error::PurgeNotAllowed(spec.name.clone()));
                }
            }
        }
        self.parse_keys(queue, &start.selection.keys)?;
        let definition = Definition {
            selection: start.selection.clone(),
            change: start.change,
            limit: Some(limit).filter(|limit| *limit > 0),
            max_per_second: Some(max_per_second).filter(|rate| *rate > 0),
        };
        Ok((queue, definition))
    }

    /// Counts the items that an operation would change, among at most `max_examined` rows.
    async fn count(
        &self,
        queue: QueueIndex,
        definition: &Definition,
        max_examined: usize,
    ) -> Result<DryRun, Error> {
        let mut counted = DryRun::default();
        let has_keys = !definition.selection.keys.is_empty();
        if has_keys {
            let keys = self.parse_keys(queue, &definition.selection.keys)?;
            let found = self.inspect.find_keys(queue, keys).await?;
            let state = definition.change.state();
            let items = found.items.iter().filter(|item| item.state == Some(state));
            counted.matched = items.count() as u64;
            counted.examined = found.examined as u64;
        } else {
            let mut after = None;
            loop {
                let left = max_examined
                    .saturating_sub(usize::try_from(counted.examined).unwrap_or(usize::MAX));
                if left == 0 {
                    counted.at_least = true;
                    break;
                }
                let search = definition.search(after, usize::MAX, left.min(MAX_EXAMINED));
                let found = self.inspect.find_items(queue, search).await;
                let found = found.map_err(filter_error)?;
                counted.examined += found.examined as u64;
                counted.matched += found.items.len() as u64;
                after = found.end;
                if after.is_none() {
                    break;
                }
            }
        }
        if let Some(limit) = definition.limit {
            counted.at_least &= counted.matched < limit;
            counted.matched = counted.matched.min(limit);
        }
        Ok(counted)
    }

    /// Returns an operation.
    ///
    /// # Errors
    /// [`Error::OperationNotFound`], and those of the store.
    pub async fn get_operation(&self, id: Uuid) -> Result<OperationView, Error> {
        let found = self.inspect.operation(id).await?;
        found
            .map(OperationView::from)
            .ok_or(Error::OperationNotFound(id))
    }

    /// Lists operations on these queues, the latest first.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`], [`Error::LimitExceeded`], and those of the store.
    pub async fn list_operations(
        &self,
        queues: Vec<String>,
        running_only: bool,
        size: i32,
        token: &str,
    ) -> Result<OperationList, Error> {
        for queue in &queues {
            self.queue(queue)?;
        }
        let limit = page_size(size)?;
        let identity = format!("{:?}", (&queues, running_only));
        let before = page_token::read(&identity, token, |id: String| id.parse::<Uuid>().ok())?;
        let found = self
            .inspect
            .operations(queues.into(), running_only, before, limit);
        let mut found = found.await?;
        let mut is_full = found.len() == limit;
        let mut bytes = 0;
        let last = found.iter().position(|operation| {
            bytes += operation.definition.len();
            bytes >= MAX_PAGE_BYTES
        });
        if let Some(last) = last.filter(|last| last + 1 < found.len()) {
            found.truncate(last + 1);
            is_full = true;
        }
        let next_page_token = match found.last() {
            Some(last) if is_full => page_token::write(&identity, &last.id.to_string()),
            _ => String::new(),
        };
        Ok(OperationList {
            operations: found.into_iter().map(OperationView::listed).collect(),
            next_page_token,
        })
    }

    /// Returns the operations that run on these queues.
    pub(super) async fn running_operations(
        &self,
        queues: Vec<String>,
    ) -> Result<Vec<OperationView>, Error> {
        let running = self.inspect.operations(queues.into(), true, None, MAX_PAGE);
        Ok(running
            .await?
            .into_iter()
            .map(OperationView::listed)
            .collect())
    }

    /// Stops an operation.
    ///
    /// # Errors
    /// [`Error::OperationNotFound`], and those of the store.
    pub async fn cancel_operation(&self, actor: &Actor, id: Uuid) -> Result<OperationView, Error> {
        let cancelled = self.store()?.cancel_operation(id, &actor.name).await?;
        cancelled
            .map(OperationView::from)
            .ok_or(Error::OperationNotFound(id))
    }
}
