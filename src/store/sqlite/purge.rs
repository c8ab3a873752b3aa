//! Retention: deletes items that ended long ago.

use std::collections::HashMap;
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::millis::{duration_between, millis_rounded_up};
use lease_broker_value::Value;
use rusqlite::Connection;
use rusqlite::types::{Value as SqlValue, ValueRef};
use uuid::Uuid;

use super::error::unchanged_row;
use super::left_out::LeftOut;
use super::purge_statements::ArchiveStatements;
use super::queue_statements::QueueStatements;
use super::row_error::change_row;
use super::statement::{Token, bind, bind_key};
use super::undone_by::UndoneBy;
use super::write_context::WriteContext;
use crate::contract::due_after;
use crate::{
    ArchiveCutoff, LatestTime, Problem, PurgePosition, PurgeStep, QueueIndex, RetentionTurn,
    StoreError,
};

/// The most old rows of an archive that a step keeps because their deletion is refused. Rows behind more of them wait.
const MAX_REFUSED: usize = 1_000;

/// The times before which an item is old, in milliseconds since 1970. `None`: never.
#[derive(Clone, Copy)]
pub(super) struct Cutoffs {
    completed: Option<i64>,
    dead: Option<i64>,
}

impl Cutoffs {
    pub(super) fn new(step: &PurgeStep, now: i64) -> Self {
        let now = LatestTime::limit(step.latest, now);
        let before = |age: Option<Duration>| Some(now.saturating_sub(millis_rounded_up(age?)));
        Self {
            completed: before(step.completed),
            dead: before(step.dead),
        }
    }
}

/// Visits the next rows. Returns the keys of the old ones, and the last row.
pub(super) fn visit(
    connection: &Connection,
    queue: &QueueStatements,
    step: &PurgeStep,
    cutoffs: Cutoffs,
) -> Result<(Vec<Key>, Option<PurgePosition>), StoreError> {
    let purge = &queue.sql.purge;
    let sql = match &step.after {
        None => &purge.visit_first,
        Some(_) => &purge.visit_next,
    };
    let mut statement = connection.prepare_cached(sql)?;
    if let Some(position) = &step.after {
        bind_key(&mut statement, &position.key)?;
    }
    let after = step.after.as_ref();
    let time = after.and_then(|position| position.state_time.as_deref());
    // The digits of an integer are not those of a `Value::Double`, which has a point or an exponent.
    let time = time.and_then(|time| {
        let integer = time.parse().map(SqlValue::Integer);
        integer.or_else(|_| time.parse().map(SqlValue::Real)).ok()
    });
    let limit = i64::try_from(step.limit).unwrap_or(i64::MAX);
    bind(
        &mut statement,
        4,
        &[&limit, &cutoffs.completed, &cutoffs.dead, &time],
    )?;
    let has_time = statement.column_count() > queue.key.len() + 1;
    let mut rows = statement.raw_query();
    let (mut old, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let key = queue.read_key(row)?;
        // NULL: the state's age is unlimited.
        if row.get::<_, Option<bool>>(queue.key.len())? == Some(true) {
            old.push(key.clone());
        }
        let state_time = if has_time {
            match row.get_ref(queue.key.len() + 1)? {
                // Another program wrote it.
                ValueRef::Real(time) => Some(format!("{time:?}")),
                time => time.as_i64().ok().map(|time| time.to_string()),
            }
        } else {
            None
        };
        last = Some(PurgePosition { key, state_time });
    }
    Ok((old, last))
}

/// Deletes these items, except those that are not old any more. Returns the number of deleted items.
pub(super) fn delete(
    context: &WriteContext,
    queue: QueueIndex,
    keys: &[Key],
    cutoffs: Cutoffs,
) -> Result<usize, StoreError> {
    let queue = context.queue(queue)?;
    let mut statement = context
        .connection
        .prepare_cached(&queue.sql.purge.delete_old)?;
    let mut deleted = 0;
    for key in keys {
        bind_key(&mut statement, key)?;
        bind(&mut statement, 5, &[&cutoffs.completed, &cutoffs.dead])?;
        deleted += change_row(&context.connection, &mut statement)?;
    }
    Ok(deleted)
}

/// Deletes old rows of the archive. See [`Upkeep::purge_archive`](crate::Upkeep::purge_archive).
pub(super) fn delete_archived(
    context: &WriteContext,
    queue: QueueIndex,
    cutoff: ArchiveCutoff,
    limit: usize,
    left_out: &LeftOut,
) -> Result<usize, StoreError> {
    let queue = context.queue(queue)?;
    let connection = &context.connection;
    let before = match cutoff {
        ArchiveCutoff::Age { age, latest } => {
            let now = LatestTime::limit(latest, context.now());
            now.saturating_sub(millis_rounded_up(age))
        }
        ArchiveCutoff::Time(time) => time,
    };
    let archive = queue.sql.purge.archive(&queue.spec)?;
    let mut delete = connection.prepare_cached(&archive.delete)?;
    let mut deleted = 0;
    let mut refused: HashMap<i64, Problem> = HashMap::new();
    loop {
        let limit = limit.saturating_sub(deleted) + refused.len();
        let mut found = find_archived(connection, archive, before, limit)?;
        found.retain(|row| !refused.contains_key(row));
        let known = refused.len();
        for row in found {
            let key = Key(Box::new([Value::Int(row)]));
            let changed = left_out.change(context, &key, UndoneBy::Savepoint, || {
                delete.raw_bind_parameter(1, row)?;
                change_row(connection, &mut delete)
            })?;
            match changed {
                Ok(0) => drop(refused.insert(row, unchanged_row())),
                Ok(rows) => deleted += rows,
                Err(problem) => drop(refused.insert(row, problem)),
            }
        }
        // Refused rows come first again. They must not stand for those behind them.
        if refused.len() == known || known >= MAX_REFUSED {
            break;
        }
    }
    if let Some((row, problem)) = refused.iter().min_by_key(|(row, _)| **row) {
        tracing::warn!(
            queue = queue.spec.name,
            count = refused.len(),
            row,
            problem = problem.text,
            "old rows of the archive kept: the database refuses their deletion"
        );
    }
    Ok(deleted)
}

/// Returns the row ids of old rows.
fn find_archived(
    connection: &Connection,
    archive: &ArchiveStatements,
    before: i64,
    limit: usize,
) -> Result<Vec<i64>, StoreError> {
    let mut find = connection.prepare_cached(&archive.find)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    bind(&mut find, 4, &[&limit, &before])?;
    let found = find.raw_query().mapped(|row| row.get(0));
    Ok(found.collect::<Result<_, _>>()?)
}

/// Counts old rows of the archive. See [`Upkeep::count_archived`](crate::Upkeep::count_archived).
pub(super) fn count_archived(
    connection: &Connection,
    queue: &QueueStatements,
    before: i64,
) -> Result<u64, StoreError> {
    let sql = &queue.sql.purge.archive(&queue.spec)?.count;
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, 5, &[&before])?;
    let mut rows = statement.raw_query();
    let count: i64 = rows.next()?.map_or(Ok(0), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Takes the turn. See [`Upkeep::take_retention_turn`](crate::Upkeep::take_retention_turn).
pub(super) fn take_turn(
    context: &WriteContext,
    queue: QueueIndex,
    broker: Uuid,
    duration: Duration,
) -> Result<RetentionTurn, StoreError> {
    let queue = context.queue(queue)?;
    let (name, now) = (&queue.spec.name, context.now());
    let end_of = |duration| due_after(now, duration);
    let (until, latest) = (end_of(duration), end_of(RetentionTurn::LONGEST));
    let take = context
        .connection
        .prepare_cached(&queue.sql.purge.take_turn)?
        .execute((name, Token(&broker), until, now, latest))?;
    if take > 0 {
        return Ok(RetentionTurn::Taken);
    }
    let until: i64 = context
        .connection
        .prepare_cached(&queue.sql.purge.read_turn)?
        .query_row([name], |row| row.get(1))?;
    Ok(RetentionTurn::Busy(duration_between(now, until)))
}
