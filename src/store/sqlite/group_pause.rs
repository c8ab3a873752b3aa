//! Pauses groups, ends their pauses, and reads them.

use lease_broker_model::key::Key;
use lease_broker_value::Value;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::cancel::kind_of;
use super::column_value::Stored;
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::types::ColumnType;
use super::write_context::WriteContext;
use crate::index_role::IndexRole;
use crate::key_text;
use crate::template::{Placeholders, plain, render};
use crate::{GroupPause, MAX_PAUSED_GROUPS, NewGroupPause, QueueIndex, StoreError};

const GROUP_PAUSE: &str = lease_broker_sql::sqlite::GROUP_PAUSE;
const GROUPS: &str = lease_broker_sql::sqlite::GROUPS;

impl QueueStatements {
    /// Parses the name of a group. See [`Browse::parse_group`](crate::Browse::parse_group).
    pub(super) fn parse_group(&self, text: &str) -> Result<Key, String> {
        let column = self.group.as_ref().ok_or("the queue has no groups")?;
        key_text::parse(text, &[kind_of(column.kind)])
    }

    /// Checks that a group has the type of its column. See [`Browse::check_group_type`](crate::Browse::check_group_type).
    pub(super) fn check_group_type(&self, group: &Key) -> Result<(), String> {
        let (Some(column), [Value::Text(text)]) = (&self.group, &*group.0) else {
            return Ok(());
        };
        match column.kind {
            ColumnType::Integer
            | ColumnType::RowNumber
            | ColumnType::Real
            | ColumnType::Bool
            | ColumnType::Decimal { .. } => Err(format!("{text:?} is not a number")),
            ColumnType::Timestamp | ColumnType::Date | ColumnType::Time | ColumnType::Uuid
                if text.is_empty() =>
            {
                Err("must not be empty".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Pauses a group. See [`Operate::pause_group`](crate::Operate::pause_group).
pub(super) fn pause_group(
    context: &WriteContext,
    queue: QueueIndex,
    group: &Key,
    pause: &NewGroupPause,
) -> Result<Option<GroupPause>, StoreError> {
    let queue = context.queue(queue)?;
    let change = Change::begin(context, queue, group)?;
    change.remove()?;
    if change.count()? >= MAX_PAUSED_GROUPS {
        change.end()?;
        return Ok(None);
    }
    let mut add = change.prepare("pause")?;
    add.execute((
        &queue.spec.name,
        Stored::new(&change.value),
        change.now,
        pause.until,
        &pause.actor,
        &pause.reason,
    ))?;
    change.end()?;
    Ok(Some(GroupPause {
        group: group.clone(),
        reason: pause.reason.clone(),
        actor: pause.actor.clone(),
        pause_time: change.now,
        until: pause.until,
    }))
}

/// Ends the pause of a group. See [`Operate::resume_group`](crate::Operate::resume_group).
pub(super) fn resume_group(
    context: &WriteContext,
    queue: QueueIndex,
    group: &Key,
) -> Result<Option<GroupPause>, StoreError> {
    let change = Change::begin(context, context.queue(queue)?, group)?;
    let ended = find_pause(
        &context.connection,
        &change.queue.spec.name,
        (&change.value, group),
        &change.collation,
        change.now,
    )?;
    change.remove()?;
    change.end()?;
    Ok(ended)
}

/// A change of the pause of one group.
struct Change<'a> {
    connection: &'a Connection,
    queue: &'a QueueStatements,
    value: Value,
    now: i64,
    collation: String,
}

impl<'a> Change<'a> {
    fn begin(
        context: &'a WriteContext,
        queue: &'a QueueStatements,
        group: &Key,
    ) -> Result<Self, StoreError> {
        let connection = &context.connection;
        let add_row = plain(GROUP_PAUSE, "add_row");
        connection
            .prepare_cached(&add_row)?
            .execute([&queue.spec.name])?;
        let collation = find_collation(connection, queue)?;
        Ok(Self {
            connection,
            queue,
            value: group_value(group),
            now: context.now(),
            collation,
        })
    }

    fn prepare(&self, section: &str) -> Result<rusqlite::CachedStatement<'a>, StoreError> {
        Ok(prepare(self.connection, section, &self.collation)?)
    }

    /// Removes the pause of the group, and pauses that have ended.
    fn remove(&self) -> Result<(), StoreError> {
        let mut remove = self.prepare("remove")?;
        remove.execute((&self.queue.spec.name, Stored::new(&self.value), self.now))?;
        Ok(())
    }

    fn count(&self) -> Result<usize, StoreError> {
        let mut count = self.prepare("count")?;
        let count: i64 = count.query_row([&self.queue.spec.name], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Stores the number of paused groups in the row of the queue.
    fn end(&self) -> Result<(), StoreError> {
        let count = plain(GROUPS, "count_paused");
        let mut count = self.connection.prepare_cached(&count)?;
        count.execute([&self.queue.spec.name])?;
        Ok(())
    }
}

/// Returns the value of the column that names groups.
pub(super) fn group_value(group: &Key) -> Value {
    group.0.first().cloned().unwrap_or(Value::Null)
}

/// Returns the collation of the column that names groups.
pub(super) fn find_collation(
    connection: &Connection,
    queue: &QueueStatements,
) -> Result<String, StoreError> {
    let column = queue
        .group
        .as_ref()
        .ok_or_else(|| StoreError::Bug("a group in a queue without groups".to_owned()))?;
    let index = IndexRole::Group.index_name(&queue.spec, &queue.spec.table);
    let find = plain(GROUP_PAUSE, "find_collation");
    let mut find = connection.prepare_cached(&find)?;
    let collation = find.query_row((index, &column.name), |row| row.get(0));
    Ok(collation.optional()?.unwrap_or_else(|| "BINARY".to_owned()))
}

/// Returns the pause of a group: of the value that the column has, which the key shows.
pub(super) fn find_pause(
    connection: &Connection,
    queue: &str,
    (value, group): (&Value, &Key),
    collation: &str,
    now: i64,
) -> Result<Option<GroupPause>, StoreError> {
    let read = |row: &Row<'_>| read_pause(row, group.clone());
    let mut find = prepare(connection, "find", collation)?;
    Ok(find
        .query_row((queue, Stored::new(value), now), read)
        .optional()?)
}

fn prepare<'a>(
    connection: &'a Connection,
    section: &str,
    collation: &str,
) -> rusqlite::Result<rusqlite::CachedStatement<'a>> {
    let collation = Placeholders::from([("collation", quote(collation))]);
    connection.prepare_cached(&render(GROUP_PAUSE, section, &collation))
}

fn read_pause(row: &Row<'_>, group: Key) -> rusqlite::Result<GroupPause> {
    Ok(GroupPause {
        group,
        pause_time: row.get(0)?,
        until: row.get(1)?,
        actor: row.get(2)?,
        reason: row.get(3)?,
    })
}
