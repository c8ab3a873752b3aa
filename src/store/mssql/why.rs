//! Collects the facts from which an operator learns why an item is not being claimed.

use std::slice;
use std::time::Duration;

use deadpool::managed::Object;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_value::Value;
use tiberius::Row;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::error::is_lock_timeout;
use super::list_parameters::ListParameters;
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::{decode, instance, types};
use crate::instance::LIVE_TIME;
use crate::template::plain;
use crate::turn::{Allowance, StoredLimits, StoredRate};
use crate::{
    Ahead, BlockingSession, ForeignLock, ItemFacts, ItemRow, Limited, QueueIndex, StoreError,
};

/// The time between two questions who holds a lock.
const BLOCKER_PAUSE: Duration = Duration::from_millis(100);
/// Maximum time for the answer to such a question.
const BLOCKER_TIMEOUT: Duration = Duration::from_secs(2);

impl MssqlOperations {
    pub(super) async fn item_facts(
        &self,
        queue: QueueIndex,
        key: &Key,
    ) -> Result<ItemFacts, StoreError> {
        let queue = self.queue(queue)?;
        let lists = ListParameters::new(vec![queue.key_entries(slice::from_ref(key))]);
        let limit = i32::try_from(ItemFacts::AHEAD_LIMIT + 1).unwrap_or(i32::MAX);
        let live = i32::try_from(LIVE_TIME.as_secs()).unwrap_or(i32::MAX);
        let parameters = lists.and(&[&limit, &live]);
        let results = self
            .query_idempotent(&queue.sql.why.facts, &parameters)
            .await?;
        let head = decode::single_row(&results, 0)?;
        let has_groups = queue.group.is_some();
        let mut facts = ItemFacts {
            now: decode::time(head, 0)?,
            row: None,
            has_null_keys: decode::integer(head, 1)? == 1,
            lock: None,
            pause: None,
            limited: None,
            group: None,
            brokers: results
                .get(if has_groups { 5 } else { 4 })
                .map(|rows| rows.iter().map(instance::read).collect())
                .transpose()?,
        };
        if let Some(row) = decode::result_set(&results, 1)?.first() {
            let row = read_row(row, decode::single_row(&results, 3)?)?;
            if row.state == Some(State::Ready) {
                let name = &queue.spec.name;
                let mut pauses = self.pauses().await?.into_iter();
                facts.pause =
                    pauses.find(|pause| pause.queue == *name && pause.mode.holds_claims());
                facts.limited = self.reached_limit(queue).await?;
                let group = results.get(4).filter(|_| has_groups);
                if let Some(group) = group.and_then(|rows| rows.first()) {
                    let value = types::decode(group.get_column_data(0)?)?;
                    // The text of a binary name cannot be converted.
                    if !matches!(value, Value::Null | Value::Bytes(_)) {
                        facts.group = self.find_group(queue, Key([value].into())).await?;
                    }
                }
            }
            facts.row = Some(row);
            let is_free = !decode::result_set(&results, 2)?.is_empty();
            facts.lock = self.find_lock(queue, &lists, is_free).await?;
        }
        Ok(facts)
    }

    /// Returns the limit of the queue that gives no lease now.
    async fn reached_limit(&self, queue: &QueueStatements) -> Result<Option<Limited>, StoreError> {
        if !queue.spec.takes_turns() {
            return Ok(None);
        }
        let sql = &queue.sql.why.limits;
        let results = self.query_idempotent(sql, &[]).await?;
        let row = decode::single_row(&results, 0)?;
        let number = |column| decode::optional_integer(row, column);
        let limits = StoredLimits {
            max_leases: number(0)?,
            rate: StoredRate {
                items: number(1)?,
                micros: number(2)?,
                burst: number(3)?,
            },
            ..StoredLimits::default()
        };
        let (arrival, clock) = (number(4)?, decode::integer(row, 5)?);
        let leased = decode::integer_as(row, 6)?;
        Ok(Allowance::new(&limits, leased, arrival, clock).exhausted())
    }

    /// Finds out if a transaction holds a lock on the row for a second, and whose it is. `is_free`: the test of `facts` has found no
    /// lock.
    async fn find_lock(
        &self,
        queue: &QueueStatements,
        key: &ListParameters,
        is_free: bool,
    ) -> Result<Option<ForeignLock>, StoreError> {
        let mut waiting = self.pool.take().await?;
        let is_babelfish = waiting.server_info.babelfish;
        // An update would run the triggers of the table.
        if is_free && (!is_babelfish || queue.has_triggers) {
            return Ok(None);
        }
        let parameters = key.parameters();
        if is_babelfish {
            let sql = &queue.sql.why.wait_by_update;
            let outcome = waiting.query(sql, &parameters).await;
            let is_locked = outcome.is_err_and(|error| is_lock_timeout(&error));
            if is_locked || waiting.restore_options().await.is_err() {
                drop(Object::take(waiting));
            }
            return Ok(is_locked.then_some(ForeignLock::Row(None)));
        }
        // The session gets another lock timeout, so it does not return to the pool.
        let mut waiting = Object::take(waiting);
        let session = waiting.batch("SELECT @@SPID AS lb_n").await?;
        let session: i32 = decode::integer_as(decode::single_row(&session, 0)?, 0)?;
        let mut observer = self.pool.take().await?;
        let waited = waiting.query(&queue.sql.why.wait, &parameters);
        tokio::pin!(waited);
        let mut blocker = None;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut waited => break outcome,
                () = sleep(BLOCKER_PAUSE), if blocker.is_none() => {
                    let answer = read_blocker(&mut observer, session);
                    blocker = timeout(BLOCKER_TIMEOUT, answer).await.ok().flatten();
                }
            }
        };
        // Another error, such as a missing right, tells nothing about locks.
        let is_locked = outcome.is_err_and(|error| is_lock_timeout(&error));
        Ok(is_locked.then_some(ForeignLock::Row(blocker)))
    }
}

/// Returns the session that blocks another one. `None`: it is not blocked, or the login may not see other sessions.
async fn read_blocker(connection: &mut Connection, session: i32) -> Option<BlockingSession> {
    let find = plain(lease_broker_sql::mssql::WHY, "find_blocker");
    let results = connection.query(&find, &[&session]).await.ok()?;
    let row = results.first()?.first()?;
    let text = |column| decode::optional_text(row, column).ok().flatten();
    let id = decode::integer(row, 0).ok().filter(|id| *id > 0)?;
    let seconds = decode::integer_as::<u64>(row, 4).ok();
    Some(BlockingSession {
        id,
        login: text(1),
        host: text(2),
        program: text(3),
        since_request: seconds.map(Duration::from_secs),
    })
}

fn read_row(row: &Row, place: &Row) -> Result<ItemRow, StoreError> {
    let state = decode::stored_state(row, 0)?;
    let ahead = || -> Result<_, StoreError> {
        let position = decode::optional_integer(place, 0)?;
        let position = position.and_then(|position| usize::try_from(position - 1).ok());
        Ok(Ahead::new(position, decode::integer_as(place, 1)?))
    };
    Ok(ItemRow {
        state,
        owner: decode::optional_text(row, 1)?,
        state_time: decode::state_time(row, 2)?,
        due_time: decode::optional_time(row, 3)?,
        attempt: decode::optional_integer(row, 4)?.unwrap_or(0),
        fence: decode::optional_integer(row, 5)?.unwrap_or(0),
        error: decode::optional_text(row, 6)?,
        has_token: decode::optional_integer(row, 7)? == Some(0),
        ahead: match state {
            Some(State::Ready) => ahead()?,
            _ => None,
        },
    })
}
