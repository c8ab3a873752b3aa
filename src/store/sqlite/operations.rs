//! The rows of operations on many items, and their batches.

use std::sync::LazyLock;

use lease_broker_model::item_state::State;
use lease_broker_model::millis::millis_rounded_up;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql};
use uuid::Uuid;

use super::cancel;
use super::error::unchanged_row;
use super::left_out::LeftOut;
use super::queue_statements::QueueStatements;
use super::row_error::{RowError, change_row};
use super::statement::{Token, bind, bind_key};
use super::write_context::WriteContext;
use crate::adoption::with;
use crate::contract::{due_after, ready_after};
use crate::template::{Placeholders, plain, render};
use crate::{
    AppliedBatch, BrokerOrders, Cancelled, CancelledLease, Checkpoints, ItemChange,
    KEEP_OPERATIONS_FOR, LONGEST_HOLD, NewOperation, Operation, OperationBatch, OperationState,
    QueueIndex, Rejection, StartedOperation, StoreError,
};

const OPERATION: &str = lease_broker_sql::sqlite::OPERATION;

static READ: LazyLock<String> = LazyLock::new(|| section("read"));

fn section(name: &str) -> String {
    let parts = ["columns", "is_free"].map(|part| (part, plain(OPERATION, part)));
    render(OPERATION, name, &Placeholders::from(parts))
}

/// Stores an operation. See [`Operate::start_operation`](crate::Operate::start_operation).
pub(super) fn start(
    context: &WriteContext,
    queue: QueueIndex,
    new: &NewOperation,
) -> Result<StartedOperation, StoreError> {
    let queue = &context.queue(queue)?.spec.name;
    let (connection, now) = (&context.connection, context.now());
    let mut forget = connection.prepare_cached(&section("forget"))?;
    bind(
        &mut forget,
        4,
        &[&now.saturating_sub(millis_rounded_up(KEEP_OPERATIONS_FOR))],
    )?;
    forget.raw_execute()?;
    if let Some(found) = read(connection, new.id)? {
        let is_same = found.queue == *queue
            && found.kind == new.kind.name()
            && found.definition == new.definition;
        return Ok(if is_same {
            StartedOperation::Repeated(found)
        } else {
            StartedOperation::OtherDefinition
        });
    }
    let mut running = connection.prepare_cached(&section("running"))?;
    bind(&mut running, 3, &[queue, &new.kind.name()])?;
    if let Some(row) = running.raw_query().next()? {
        return Ok(StartedOperation::Running(read_row(row)?));
    }
    connection.prepare_cached(&section("start"))?.execute((
        Token(&new.id),
        now,
        queue,
        new.kind.name(),
        &new.definition,
        &new.actor,
        &new.reason,
    ))?;
    let stored = read(connection, new.id)?;
    let stored = stored.ok_or_else(|| StoreError::Bug("a new operation is gone".to_owned()))?;
    Ok(StartedOperation::Started(stored))
}

/// Reads an operation. See [`Browse::operation`](crate::Browse::operation).
pub(super) fn read(connection: &Connection, id: Uuid) -> Result<Option<Operation>, StoreError> {
    let mut statement = connection.prepare_cached(&READ)?;
    let found = statement.query_row([Token(&id)], |row| Ok(read_row(row)));
    found.optional()?.transpose()
}

/// Lists operations. See [`Browse::operations`](crate::Browse::operations).
pub(super) fn list(
    connection: &Connection,
    queues: &[String],
    only_running: bool,
    before: Option<Uuid>,
    limit: usize,
) -> Result<Vec<Operation>, StoreError> {
    let before = before.map(|id| read(connection, id)).transpose()?.flatten();
    let mut statement = connection.prepare_cached(&section("list"))?;
    if let Some(before) = &before {
        bind(&mut statement, 1, &[&Token(&before.id)])?;
    }
    let create_time = before.map(|before| before.create_time);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    bind(
        &mut statement,
        3,
        &[&json(queues), &only_running, &create_time, &limit],
    )?;
    statement.raw_query().and_then(read_row).collect()
}

/// Ends an operation. See [`Operate::cancel_operation`](crate::Operate::cancel_operation).
pub(super) fn cancel(
    context: &WriteContext,
    id: Uuid,
    actor: &str,
) -> Result<Option<Operation>, StoreError> {
    let mut statement = context.connection.prepare_cached(&section("cancel"))?;
    bind(&mut statement, 1, &[&Token(&id), &context.now()])?;
    bind(&mut statement, 6, &[&actor])?;
    statement.raw_execute()?;
    read(&context.connection, id)
}

/// Takes an operation. See [`Operate::take_operation`](crate::Operate::take_operation).
pub(super) fn take(
    context: &WriteContext,
    id: Uuid,
    broker: Uuid,
    until: i64,
) -> Result<Option<Operation>, StoreError> {
    let now = context.now();
    let mut take = context.connection.prepare_cached(&section("take"))?;
    bind(&mut take, 1, &[&Token(&id), &now])?;
    let longest = due_after(now, LONGEST_HOLD);
    bind(&mut take, 4, &[&Token(&broker), &longest, &until])?;
    if take.raw_execute()? == 0 {
        return Ok(None);
    }
    read(&context.connection, id)
}

/// Reads what the database asks of a broker. See [`Operate::read_orders`](crate::Operate::read_orders).
pub(super) fn read_orders(
    connection: &Connection,
    broker: Uuid,
    queues: &[String],
    now: i64,
) -> Result<BrokerOrders, StoreError> {
    let mut find = connection.prepare_cached(&section("find_free"))?;
    let longest = due_after(now, LONGEST_HOLD);
    bind(
        &mut find,
        2,
        &[&now, &json(queues), &Token(&broker), &longest],
    )?;
    Ok(BrokerOrders {
        drain: super::instance::is_told_to_drain(connection, &broker)?,
        operations: find
            .raw_query()
            .and_then(read_row)
            .collect::<Result<_, _>>()?,
    })
}

/// Applies a batch. See [`Operate::apply_batch`](crate::Operate::apply_batch).
pub(super) fn apply(
    context: &WriteContext,
    index: QueueIndex,
    batch: &OperationBatch,
) -> Result<AppliedBatch, StoreError> {
    let queue = context.queue(index)?;
    let (connection, now) = (&context.connection, context.now());
    let until = due_after(now, batch.hold_for);
    let mut begin = connection.prepare_cached(&section("begin_batch"))?;
    bind(&mut begin, 1, &[&Token(&batch.id)])?;
    bind(
        &mut begin,
        4,
        &[
            &Token(&batch.holder),
            &until,
            &batch.number,
            &batch.position,
            &batch.examined,
            &batch.refused,
            &batch.error,
        ],
    )?;
    if begin.raw_execute()? == 0 {
        return Ok(AppliedBatch::default());
    }
    let operation = read(connection, batch.id)?
        .ok_or_else(|| StoreError::Bug("an operation is gone".to_owned()))?;
    let mut applied = AppliedBatch::default();
    let changed = match &batch.change {
        ItemChange::Redrive {
            delay,
            keep_attempts,
            checkpoints,
        } => {
            let sql = render_redrive(queue, *keep_attempts, *checkpoints);
            let (state, delay) = ready_after(*delay);
            let due = delay.map(|delay| due_after(now, delay));
            let states = (State::Dead, state);
            change_items(context, queue, &sql, batch, &operation, states, due)?
        }
        ItemChange::Purge(state) => {
            let sql = render(queue.lease_sql.operation, "purge_item", &queue.placeholders);
            let states = (*state, *state);
            change_items(context, queue, &sql, batch, &operation, states, None)?
        }
        ItemChange::Cancel(cancellation) => {
            let items = batch.items.iter().cloned();
            let leases = items.map(|(key, fence)| CancelledLease {
                key,
                fence: Some(fence),
            });
            let leases: Vec<CancelledLease> = leases.collect();
            // A batch that a row refuses is not applied. The broker sends smaller ones until it knows the row.
            let left_out = LeftOut::none();
            let cancelled = cancel::cancel(
                context,
                index,
                &leases,
                cancellation,
                Some(&operation),
                &left_out,
            )?;
            let refused = cancelled.results.iter().find_map(|result| match result {
                Cancelled::Refused(refusal) => Some(refusal.problem.clone()),
                _ => None,
            });
            if let Some(problem) = refused {
                return Err(StoreError::Rejected(Rejection::of_list(None, problem)));
            }
            (applied.ended, applied.released) = (cancelled.ended, cancelled.released);
            applied.ended.len()
        }
    };
    let state = batch.end.map_or(0, OperationState::code);
    let changed_count = i64::try_from(changed).unwrap_or(i64::MAX);
    let mut end = connection.prepare_cached(&section("end_batch"))?;
    bind(&mut end, 1, &[&Token(&batch.id), &now])?;
    bind(&mut end, 4, &[&changed_count, &state])?;
    end.raw_execute()?;
    applied.changed = Some(changed);
    Ok(applied)
}

pub(super) fn render_redrive(
    queue: &QueueStatements,
    keep_attempts: bool,
    checkpoints: Checkpoints,
) -> String {
    let attempt = &queue.placeholders["lease_attempt"];
    let attempt = if keep_attempts {
        String::new()
    } else {
        format!(", {attempt} = 0")
    };
    let checkpoint = match checkpoints {
        Checkpoints::Keep => String::new(),
        Checkpoints::Clear => queue.placeholders["clear_checkpoint"].clone(),
    };
    let placeholders = with(
        &queue.placeholders,
        [
            ("redriven_attempt", attempt),
            ("redriven_checkpoint", checkpoint),
        ],
    );
    render(queue.lease_sql.operation, "redrive_item", &placeholders)
}

/// Runs a statement for each item of a batch. `states`: before and after the change. Returns the number of changed items.
///
/// # Errors
/// [`StoreError::Rejected`] if the table refuses or ignores the change of an item.
fn change_items(
    context: &WriteContext,
    queue: &QueueStatements,
    sql: &str,
    batch: &OperationBatch,
    operation: &Operation,
    (before, after): (State, State),
    due: Option<i64>,
) -> Result<usize, StoreError> {
    let create_time = operation.create_time;
    let mut statement = context.connection.prepare_cached(sql)?;
    let mut changed = 0;
    for (key, fence) in &batch.items {
        bind_key(&mut statement, key)?;
        let values: [&dyn ToSql; 6] = [
            &create_time,
            &context.now(),
            fence,
            &after.code(),
            &due,
            &before.code(),
        ];
        bind(&mut statement, 4, &values)?;
        if change_row(&context.connection, &mut statement)? > 0 {
            changed += 1;
            continue;
        }
        let sections = queue.lease_sql.operation;
        let find = render(sections, "find_unchanged", &queue.placeholders);
        let mut find = context.connection.prepare_cached(&find)?;
        bind_key(&mut find, key)?;
        bind(&mut find, 4, &values)?;
        if find.raw_query().next()?.is_some() {
            return Err(RowError::Refused(unchanged_row()).into());
        }
    }
    Ok(changed)
}

/// Returns a list of names as a JSON array.
fn json(names: &[String]) -> String {
    serde_json::to_string(names).unwrap_or_default()
}

fn read_row(row: &Row<'_>) -> Result<Operation, StoreError> {
    let code = row.get(7)?;
    let no_state = || StoreError::Bug(format!("no state of an operation has the number {code}"));
    let holder: Option<[u8; 16]> = row.get(15)?;
    Ok(Operation {
        id: Uuid::from_bytes(row.get(0)?),
        queue: row.get(1)?,
        kind: row.get(2)?,
        definition: row.get(3)?,
        actor: row.get(4)?,
        reason: row.get(5)?,
        create_time: row.get(6)?,
        state: OperationState::from_code(code).ok_or_else(no_state)?,
        end_time: row.get(8)?,
        batches: row.get(9)?,
        position: row.get(10)?,
        examined: row.get(11)?,
        changed: row.get(12)?,
        refused: row.get(13)?,
        error: row.get(14)?,
        holder: holder.map(Uuid::from_bytes),
        cancelled_by: row.get(16)?,
    })
}
