//! Ends leases: completes, fails or releases their items, and adds the follow-up items of completions.

use std::time::Duration;

use rusqlite::ToSql;
use rusqlite::types::Null;

use super::enqueue::{self, ItemError};
use super::queue_statements::QueueStatements;
use super::statement::{LastStatement, Token, bind, bind_key};
use super::writer::WriteContext;
use crate::item_state::State;
use crate::lease_id::LeaseRef;
use crate::queue::OnComplete;
use crate::store::millis::millis_rounded_up;
use crate::store::{Ending, FollowUp, QueueIndex, Settled, Settlement, StoreError, follow_ups};
use crate::value::Value;

/// Ends leases. See [`Store::settle`](crate::store::Store::settle).
pub(super) fn settle(
    context: &WriteContext,
    queue: QueueIndex,
    settlements: &[Settlement],
) -> Result<Vec<Settled>, StoreError> {
    let queue = context.queue(queue)?;
    follow_ups::check(settlements, |queue, item| {
        Ok(context.queue(queue)?.encode_item(item).map(drop))
    })?;
    let mut settler = Settler {
        queue,
        now: context.now(),
        statement: LastStatement::new(&context.connection),
    };
    settlements
        .iter()
        .enumerate()
        .map(|(index, Settlement { lease, ending })| {
            if lease.key.0.len() != queue.key_len || lease.key.0.contains(&Value::Null) {
                return Ok(Settled::Lost);
            }
            let ended = settler
                .end_lease(lease, ending)
                .map_err(|error| error.of_request(index, None))?;
            let Some(state) = ended else {
                return settler.find_earlier_settlement(lease, ending);
            };
            if let Ending::Complete { follow_ups } = ending {
                add_follow_ups(context, index, follow_ups, settler.now)?;
            }
            Ok(Settled::Ended(state))
        })
        .collect()
}

fn add_follow_ups(
    context: &WriteContext,
    item: usize,
    follow_ups: &[FollowUp],
    now: i64,
) -> Result<(), StoreError> {
    for (index, follow_up) in follow_ups.iter().enumerate() {
        enqueue::insert(context, follow_up.queue, &follow_up.item, now)
            .map_err(|error| error.of_request(item, Some(index)))?;
    }
    Ok(())
}

/// Settles the leases of one list.
struct Settler<'a> {
    queue: &'a QueueStatements,
    now: i64,
    statement: LastStatement<'a>,
}

impl<'a> Settler<'a> {
    /// Ends the lease and returns the new state of its item, or `None` if the lease is not held.
    fn end_lease(&mut self, lease: &LeaseRef, ending: &Ending) -> Result<Option<State>, ItemError> {
        let sql = &self.queue.sql;
        match ending {
            Ending::Complete { .. } => self.complete(lease),
            Ending::Fail { error, retry } => match retry {
                Some(delay) => self.delay(&sql.fail, lease, *delay, error),
                None => self.run(&sql.fail, lease, State::Dead, None, error),
            },
            Ending::Release { delay } if delay.is_zero() => {
                self.run(&sql.release, lease, State::Ready, None, "")
            }
            Ending::Release { delay } => self.delay(&sql.release, lease, *delay, ""),
        }
    }

    /// Completes the item in the way that the queue is configured for.
    fn complete(&mut self, lease: &LeaseRef) -> Result<Option<State>, ItemError> {
        let sql = &self.queue.sql;
        match &self.queue.spec.on_complete {
            OnComplete::Keep => self.run(&sql.complete, lease, State::Completed, None, ""),
            OnComplete::Delete => self.run(&sql.delete, lease, State::Completed, None, ""),
            OnComplete::Recur(interval) => self.delay(&sql.complete, lease, *interval, ""),
            OnComplete::Archive(_) => {
                let ended = self.run(&sql.complete, lease, State::Completed, None, "")?;
                if let (Some(_), Some(copy_to_archive)) = (ended, &sql.copy_to_archive) {
                    for sql in [copy_to_archive, &sql.delete_archived] {
                        let statement = self.statement.get(sql)?;
                        bind_key(statement, &lease.key)?;
                        statement.raw_execute()?;
                    }
                }
                Ok(ended)
            }
        }
    }

    /// Ends the lease with a statement that makes its item ready again after `delay`.
    fn delay(
        &mut self,
        sql: &'a str,
        lease: &LeaseRef,
        delay: Duration,
        error: &str,
    ) -> Result<Option<State>, ItemError> {
        let due = self.now.saturating_add(millis_rounded_up(delay));
        self.run(sql, lease, State::Delayed, Some(due), error)
    }

    /// Runs a statement that ends the lease. Returns `state` if it changed the row.
    fn run(
        &mut self,
        sql: &'a str,
        lease: &LeaseRef,
        state: State,
        due: Option<i64>,
        error: &str,
    ) -> Result<Option<State>, ItemError> {
        let statement = self.statement.get(sql)?;
        bind_key(statement, &lease.key)?;
        let values: [&dyn ToSql; 6] = [
            &Token(&lease.token),
            &self.now,
            &due,
            &lease.fence,
            &state.code(),
            &error,
        ];
        bind(statement, 4, &values)?;
        Ok((statement.raw_execute()? > 0).then_some(state))
    }

    /// Returns the result for a lease that is not held. It depends on whether the row exists, and on whether an earlier
    /// settlement of the same kind ended this lease.
    fn find_earlier_settlement(
        &mut self,
        lease: &LeaseRef,
        ending: &Ending,
    ) -> Result<Settled, StoreError> {
        let is_completion = matches!(ending, Ending::Complete { .. });
        let statement = self
            .statement
            .get(&self.queue.sql.find_earlier_settlement)?;
        bind_key(statement, &lease.key)?;
        // The statement does not use ?5 and ?6, time and due time.
        bind(
            statement,
            4,
            &[&Token(&lease.token), &Null, &Null, &lease.fence],
        )?;
        let mut rows = statement.raw_query();
        let Some(row) = rows.next()? else {
            return Ok(if is_completion {
                Settled::Gone
            } else {
                Settled::Lost
            });
        };
        let has_ended: Option<bool> = row.get(0)?;
        let code: Option<i64> = row.get(1)?;
        let (Some(true), Some(state)) = (has_ended, code.and_then(State::from_code)) else {
            return Ok(Settled::Lost);
        };
        let attempts: i64 = row.get(2)?;
        let was_released: bool = row.get(3)?;
        let is_unfinished = matches!(state, State::Ready | State::Delayed);
        let is_same_kind = match ending {
            Ending::Complete { .. } => {
                state == State::Completed || (is_unfinished && attempts == 0 && !was_released)
            }
            Ending::Fail { .. } => {
                state == State::Dead || (is_unfinished && attempts > 0 && !was_released)
            }
            Ending::Release { .. } => is_unfinished && was_released,
        };
        Ok(if is_same_kind {
            Settled::Ended(state)
        } else {
            Settled::Lost
        })
    }
}
