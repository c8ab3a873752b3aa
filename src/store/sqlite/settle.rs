//! Settlements, and the items that completions add.

use std::time::Duration;

use rusqlite::{OptionalExtension as _, ToSql};

use super::claim::millis;
use super::enqueue::{self, Refusal};
use super::statement::{Latest, Token, bind, bind_key};
use super::table::QueueTable;
use super::writer::Session;
use crate::item_state::State;
use crate::lease_id::LeaseRef;
use crate::queue::OnComplete;
use crate::store::follow_ups;
use crate::store::{Ending, QueueIndex, Settlement, StoreError};

pub(super) fn settle(
    session: &Session,
    queue: QueueIndex,
    settlements: &[Settlement],
) -> Result<Vec<Option<State>>, StoreError> {
    let table = session.queue(queue)?;
    follow_ups::check(settlements, |queue, item| {
        Ok(session.queue(queue)?.accept(item).map(drop))
    })?;
    let mut settle = Settle {
        table,
        now: session.now(),
        latest: Latest::new(&session.connection),
    };
    settlements
        .iter()
        .enumerate()
        .map(|(item, Settlement { lease, ending })| {
            if lease.key.0.len() != table.key_len {
                return Ok(None);
            }
            let ended = settle.run(lease, ending);
            match (ended.map_err(|refusal| refusal.at(item, None))?, ending) {
                (Some(state), Ending::Complete { follow_ups }) => {
                    add_follow_ups(session, item, follow_ups, settle.now)?;
                    Ok(Some(state))
                }
                (Some(state), _) => Ok(Some(state)),
                (None, ending) => settle.repeated(lease, ending),
            }
        })
        .collect()
}

fn add_follow_ups(
    session: &Session,
    item: usize,
    follow_ups: &[crate::store::FollowUp],
    now: i64,
) -> Result<(), StoreError> {
    for (at, follow_up) in follow_ups.iter().enumerate() {
        enqueue::insert(session, follow_up.queue, &follow_up.item, now)
            .map_err(|refusal| refusal.at(item, Some(at)))?;
    }
    Ok(())
}

struct Settle<'a> {
    table: &'a QueueTable,
    now: i64,
    latest: Latest<'a>,
}

impl<'a> Settle<'a> {
    /// Ends the lease if it is held; none if it is not.
    fn run(&mut self, lease: &LeaseRef, ending: &Ending) -> Result<Option<State>, Refusal> {
        let sql = &self.table.sql;
        match ending {
            Ending::Complete { .. } => self.complete(lease),
            Ending::Fail { error, retry } => match retry {
                Some(delay) => self.delay(&sql.fail, lease, *delay, error),
                None => self.end(&sql.fail, lease, State::Dead, None, error),
            },
            Ending::Release { delay } if delay.is_zero() => {
                self.end(&sql.release, lease, State::Ready, None, "")
            }
            Ending::Release { delay } => self.delay(&sql.release, lease, *delay, ""),
        }
    }

    fn complete(&mut self, lease: &LeaseRef) -> Result<Option<State>, Refusal> {
        let sql = &self.table.sql;
        match &self.table.spec.on_complete {
            OnComplete::Keep => self.end(&sql.complete, lease, State::Completed, None, ""),
            OnComplete::Delete => self.end(&sql.delete, lease, State::Completed, None, ""),
            OnComplete::Recur(every) => self.delay(&sql.complete, lease, *every, ""),
            OnComplete::Archive(_) => {
                let ended = self.end(&sql.complete, lease, State::Completed, None, "")?;
                if let (Some(_), Some(archive)) = (ended, &sql.archive) {
                    for move_on in [archive, &sql.archived] {
                        let statement = self.latest.get(move_on)?;
                        bind_key(statement, &lease.key)?;
                        statement.raw_execute()?;
                    }
                }
                Ok(ended)
            }
        }
    }

    fn delay(
        &mut self,
        sql: &'a str,
        lease: &LeaseRef,
        delay: Duration,
        error: &str,
    ) -> Result<Option<State>, Refusal> {
        let due = self.now.saturating_add(millis(delay));
        self.end(sql, lease, State::Delayed, Some(due), error)
    }

    fn end(
        &mut self,
        sql: &'a str,
        lease: &LeaseRef,
        state: State,
        due: Option<i64>,
        error: &str,
    ) -> Result<Option<State>, Refusal> {
        let statement = self.latest.get(sql)?;
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

    /// Returns where the item is, if an earlier settlement of the same kind ended this lease.
    fn repeated(&mut self, lease: &LeaseRef, ending: &Ending) -> Result<Option<State>, StoreError> {
        let statement = self.latest.get(&self.table.sql.settled)?;
        bind_key(statement, &lease.key)?;
        let unused = rusqlite::types::Null;
        bind(
            statement,
            4,
            &[&Token(&lease.token), &unused, &unused, &lease.fence],
        )?;
        let mut rows = statement.raw_query();
        let Some(row) = rows.next().optional()?.flatten() else {
            return Ok(None);
        };
        let Some(state) = State::from_code(row.get(0)?) else {
            return Ok(None);
        };
        let attempts: i64 = row.get(1)?;
        let released: bool = row.get(2)?;
        let waiting = matches!(state, State::Ready | State::Delayed);
        let same = match ending {
            Ending::Complete { .. } => {
                state == State::Completed || (waiting && attempts == 0 && !released)
            }
            Ending::Fail { .. } => state == State::Dead || (waiting && attempts > 0 && !released),
            Ending::Release { .. } => waiting && released,
        };
        Ok(same.then_some(state))
    }
}
