//! The reaper's operation: ends expired leases, makes delayed items ready, and reads the next due time.

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_value::Value;
use tiberius::ToSql;

use super::decode;
use super::error::RetrySafety;
use super::latest_now::{LatestNow, ReaperClock};
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::types;
use crate::{LatestTime, QueueIndex, Reaped, StoreError};

/// The most rows that one run leaves as they are because a constraint or a trigger refuses their change. Each costs a batch.
const MAX_REFUSED: usize = 50;
/// The maximum number of batches of one run that end no lease because the server's clock may have been stepped. If the duration of each
/// explains the time of the clock, the clock counts as correct.
const MAX_SLOW: usize = 3;

impl MssqlOperations {
    pub(super) async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError> {
        let queue = self.queue(queue)?;
        match self.reap_rows(queue, limit, None, latest).await {
            Err(StoreError::Rejected(_)) => self.reap_in_parts(queue, limit, latest).await,
            reaped => reaped,
        }
    }

    /// Reaps although a constraint or a trigger refuses rows. The server does not tell which, so batches of fewer and fewer rows find
    /// them. They stay, and are the first of the due rows then.
    async fn reap_in_parts(
        &self,
        queue: &QueueStatements,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError> {
        let mut reaped = Reaped::default();
        let mut problems = Vec::new();
        let (mut ended, mut tried) = (0, 1);
        while ended < limit && problems.len() < MAX_REFUSED {
            let refused = Some(problems.len());
            match self.reap_rows(queue, tried, refused, latest).await {
                Ok(part) => {
                    let count = part.expired.len() + part.released.len() + part.promoted;
                    reaped.expired.extend(part.expired);
                    reaped.released.extend(part.released);
                    reaped.promoted += part.promoted;
                    reaped.next_due = part.next_due;
                    reaped.time = part.time.or(reaped.time);
                    if count == 0 {
                        break;
                    }
                    ended += count;
                    tried = (2 * tried).min(limit);
                }
                Err(StoreError::Rejected(rejection)) if tried == 1 => {
                    problems.push(rejection.problem);
                }
                Err(StoreError::Rejected(_)) => tried /= 2,
                // The leases that were ended have to be reported.
                Err(_) if ended > 0 => break,
                Err(error) => return Err(error),
            }
        }
        // If another program changes rows meanwhile, a problem can have the key of another row. The next run corrects this.
        let keys = match self.read_first_due(queue, problems.len()).await {
            Err(_) if ended > 0 => Vec::new(),
            keys => keys?,
        };
        reaped.refused = keys.into_iter().zip(problems).collect();
        Ok(reaped)
    }

    /// Reaps up to `limit` rows. `refused`: the number of due rows before them that stay as they are.
    ///
    /// A batch for which the server's clock shows a later time than `latest` ends no lease. The clock was stepped forward if it shows
    /// a later time than is possible even at the end of the batch. Otherwise the server can have taken long until it read the clock.
    /// The batch is then sent again, which takes less time, since the server has compiled it.
    async fn reap_rows(
        &self,
        queue: &QueueStatements,
        limit: usize,
        refused: Option<usize>,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError> {
        let mut clock = ReaperClock::Latest(latest);
        let (mut promoted, mut batches) = (0, 0);
        loop {
            batches += 1;
            let (mut reaped, is_unsure) = self.reap_batch(queue, limit, refused, &clock).await?;
            promoted += reaped.promoted;
            if !is_unsure {
                reaped.promoted = promoted;
                return Ok(reaped);
            }
            let is_explained = |time| latest.is_none_or(|latest| time <= latest.now());
            clock = match reaped.time {
                Some(time) if !is_explained(time) => ReaperClock::Stepped,
                // The batch can have taken as long each time.
                _ if batches >= MAX_SLOW => ReaperClock::Latest(None),
                _ => ReaperClock::Latest(latest),
            };
        }
    }

    /// Runs the batch of [`Self::reap_rows`] once. Returns also whether it left due leases as they are because of the clock.
    async fn reap_batch(
        &self,
        queue: &QueueStatements,
        limit: usize,
        refused: Option<usize>,
        clock: &ReaperClock,
    ) -> Result<(Reaped, bool), StoreError> {
        let limit = to_sql(limit.saturating_add(refused.unwrap_or(0)));
        // 0: an item never becomes dead.
        let max_attempts = queue.spec.retry.max_attempts.unwrap_or(0);
        let max_attempts = i32::try_from(max_attempts).unwrap_or(i32::MAX);
        let mut parameters: Vec<&dyn ToSql> = vec![&limit, &max_attempts, clock];
        let refused = refused.map(to_sql);
        let sql = match &refused {
            None => &queue.sql.reap,
            Some(refused) => {
                parameters.push(refused);
                &queue.sql.reap_behind
            }
        };
        let batch = (&**sql, RetrySafety::Idempotent);
        let mut tries = self.pool.tries();
        let results = match tries.query(batch.0, &parameters, batch.1).await {
            Ok(results) => results,
            Err(failure) => {
                let mut without_entries = parameters.clone();
                without_entries[0] = &0;
                let both = (&*parameters, &*without_entries);
                self.after_failure(&mut tries, failure, batch, both).await?
            }
        };
        let mut reaped = Reaped::default();
        let mut is_unsure = false;
        // The lease, the state before and the state after.
        let states = queue.held_columns();
        for row in decode::result_set(&results, 0)? {
            if decode::state(row, states)? != State::Leased {
                reaped.promoted += 1;
                continue;
            }
            let state = decode::state(row, states + 1)?;
            let expired = queue.read_ended(row, 0, state)?;
            reaped.time = Some(expired.end_time);
            reaped.expired.push(expired);
        }
        if let Some(row) = decode::result_set(&results, 1)?.first() {
            reaped.time = Some(decode::time(row, 0)?);
            is_unsure = decode::integer(row, 2)? > 0;
            if types::decode(row.get_column_data(1)?)? != Value::Null {
                reaped.next_due = Some(decode::lease_expiry(row, 0, 1)?.time_left);
            }
        }
        for row in results.iter().skip(2).flatten() {
            let released = queue.read_later(row)?;
            reaped.time = released.as_ref().map(|one| one.end_time).or(reaped.time);
            reaped.released.extend(released);
        }
        Ok((reaped, is_unsure))
    }

    /// Returns the keys of the rows that are due longest.
    async fn read_first_due(
        &self,
        queue: &QueueStatements,
        count: usize,
    ) -> Result<Vec<Key>, StoreError> {
        let parameters: [&dyn ToSql; 4] = [&to_sql(count), &0, &LatestNow(None), &None::<i64>];
        let results = self
            .query_idempotent(&queue.sql.read_due, &parameters)
            .await?;
        let rows = decode::result_set(&results, 0)?.iter();
        rows.map(|row| queue.read_key(row, 0)).collect()
    }
}

fn to_sql(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
