//! Pauses groups, ends their pauses, and reads them.

use lease_broker_model::key::Key;
use tiberius::{Row, ToSql};

use super::cancel::parse_values;
use super::operations::MssqlOperations;
use super::pause::MAX_TEXT_UNITS;
use super::queue_statements::QueueStatements;
use super::types::{ColumnType, sql_time};
use super::utf16::cut;
use super::{decode, types};
use crate::template::{Placeholders, render};
use crate::{GroupPause, MAX_PAUSED_GROUPS, NewGroupPause, QueueIndex, StoreError};

const GROUP_PAUSE: &str = lease_broker_sql::mssql::GROUP_PAUSE;

impl QueueStatements {
    /// Parses the name of a group. See [`Browse::parse_group`](crate::Browse::parse_group).
    pub(super) fn parse_group(&self, text: &str) -> Result<Key, String> {
        let column = self.group.as_ref().ok_or("the queue has no groups")?;
        // Babelfish cannot convert hexadecimal digits.
        if column.kind == ColumnType::Binary {
            return Err("groups of a binary column cannot be named by a text".to_owned());
        }
        parse_values(text, std::slice::from_ref(column))
    }
}

impl MssqlOperations {
    pub(super) async fn pause_group(
        &self,
        queue: QueueIndex,
        group: Key,
        pause: NewGroupPause,
    ) -> Result<Option<GroupPause>, StoreError> {
        let queue = self.queue(queue)?;
        let text = types::group_text(&group);
        let until = pause.until.map(sql_time).unwrap_or_default();
        let [actor, reason] =
            [&pause.actor, &pause.reason].map(|text| cut(text, MAX_TEXT_UNITS).to_owned());
        let parameters: [&dyn ToSql; 5] = [&queue.spec.name, &text, &until, &actor, &reason];
        let results = self
            .query_twice(&batch("pause", &queue.placeholders), &parameters)
            .await?;
        let row = decode::single_row(&results, 0)?;
        let pause_time = decode::time(row, 1)?;
        Ok((decode::integer(row, 0)? == 1).then_some(GroupPause {
            group,
            reason,
            actor,
            pause_time,
            until: pause.until,
        }))
    }

    pub(super) async fn resume_group(
        &self,
        queue: QueueIndex,
        group: Key,
    ) -> Result<Option<GroupPause>, StoreError> {
        let queue = self.queue(queue)?;
        let text = types::group_text(&group);
        let parameters: [&dyn ToSql; 2] = [&queue.spec.name, &text];
        let results = self
            .query_twice(&batch("resume", &queue.placeholders), &parameters)
            .await?;
        let row = decode::result_set(&results, 0)?.first();
        row.map(|row| read_pause(row, 0, group)).transpose()
    }
}

/// Reads a pause: its time, end, caller and reason are in the columns from `first` on.
pub(super) fn read_pause(row: &Row, first: usize, group: Key) -> Result<GroupPause, StoreError> {
    Ok(GroupPause {
        group,
        pause_time: decode::time(row, first)?,
        until: decode::optional_time(row, first + 1)?,
        actor: decode::text(row, first + 2)?,
        reason: decode::text(row, first + 3)?,
    })
}

/// Renders the batch in a section of `group_pause.sql`.
pub(super) fn batch(section: &str, placeholders: &Placeholders) -> String {
    let mut placeholders = placeholders.clone();
    for part in ["take_row", "remove", "count"] {
        placeholders.insert(part, render(GROUP_PAUSE, part, &placeholders));
    }
    placeholders.insert("max_paused", MAX_PAUSED_GROUPS.to_string());
    render(GROUP_PAUSE, section, &placeholders)
}
