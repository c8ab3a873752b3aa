//! Retention: deletes items that ended long ago.

use std::time::Duration;

use lease_broker_model::millis::duration_between;
use tiberius::ToSql;
use uuid::Uuid;

use super::decode;
use super::error::into_rejection;
use super::latest_now::LatestNow;
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::types::sql_time;
use crate::{
    ArchiveCutoff, PurgePosition, PurgeStep, Purged, QueueIndex, RetentionTurn, StoreError,
};

/// Returns a duration in whole seconds, rounded up. The configuration limits durations to 10,000 days.
pub(super) fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(i32::MAX)
}

impl MssqlOperations {
    pub(super) async fn purge(
        &self,
        queue: QueueIndex,
        step: &PurgeStep,
    ) -> Result<Purged, StoreError> {
        let queue = self.queue(queue)?;
        let sql = match &step.after {
            None => &queue.sql.purge.first,
            Some(_) => &queue.sql.purge.next,
        };
        let lists = QueueStatements::position_list(
            step.after.as_ref().map(|after| &after.key),
            step.after
                .as_ref()
                .and_then(|after| after.state_time.as_deref()),
        );
        let limit = i32::try_from(step.limit).unwrap_or(i32::MAX);
        let (completed, dead) = (step.completed.map(seconds), step.dead.map(seconds));
        let delete = i32::from(step.delete);
        let latest = LatestNow(step.latest);
        let parameters = lists.and(&[&limit, &completed, &dead, &delete, &latest]);
        let results = self
            .query_idempotent(sql, &parameters)
            .await
            .map_err(into_rejection)?;
        let Some(row) = decode::result_set(&results, 0)?.first() else {
            return Ok(Purged::default());
        };
        let key = queue.read_key(row, 2)?;
        let state_time = decode::optional_text(row, 2 + key.0.len())?;
        Ok(Purged {
            old: decode::integer_as(row, 1)?,
            last: Some(PurgePosition { key, state_time }),
        })
    }

    pub(super) async fn purge_archive(
        &self,
        queue: QueueIndex,
        cutoff: ArchiveCutoff,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let queue = self.queue(queue)?;
        let sql = &queue.sql.purge.archive(&queue.spec)?.delete_archived;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let (age, latest, time) = match cutoff {
            ArchiveCutoff::Age { age, latest } => (Some(seconds(age)), latest, String::new()),
            ArchiveCutoff::Time(time) => (None, None, sql_time(time)),
        };
        let parameters: [&dyn ToSql; 4] = [&age, &limit, &LatestNow(latest), &time];
        let results = self.query_idempotent(sql, &parameters).await?;
        decode::integer_as(decode::single_row(&results, 0)?, 0)
    }

    pub(super) async fn count_archived(
        &self,
        queue: QueueIndex,
        before: i64,
    ) -> Result<u64, StoreError> {
        let queue = self.queue(queue)?;
        let sql = &queue.sql.purge.archive(&queue.spec)?.count_archived;
        let results = self.query_idempotent(sql, &[&sql_time(before)]).await?;
        decode::integer_as(decode::single_row(&results, 0)?, 0)
    }

    pub(super) async fn take_retention_turn(
        &self,
        queue: QueueIndex,
        broker: Uuid,
        duration: Duration,
    ) -> Result<RetentionTurn, StoreError> {
        let queue: &QueueStatements = self.queue(queue)?;
        let millis = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
        let (millis, longest) = (millis(duration), millis(RetentionTurn::LONGEST));
        let broker = broker.to_string();
        let parameters: [&dyn ToSql; 4] = [&queue.spec.name, &broker, &millis, &longest];
        let results = self
            .query_idempotent(&queue.sql.purge.take_turn, &parameters)
            .await?;
        let row = decode::single_row(&results, 0)?;
        if decode::integer(row, 2)? == 1 {
            return Ok(RetentionTurn::Taken);
        }
        let (now, until) = (decode::time(row, 0)?, decode::time(row, 1)?);
        Ok(RetentionTurn::Busy(duration_between(now, until)))
    }
}
