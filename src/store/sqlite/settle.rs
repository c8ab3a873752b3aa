//! Settlements, and the items that completions add.

use rusqlite::{OptionalExtension as _, ToSql};

use super::claim::millis;
use super::enqueue::{self, Refusal};
use super::statement::{Token, bind, bind_key};
use super::table::QueueTable;
use super::writer::Session;
use crate::lease::State;
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
    let now = session.now();
    settlements
        .iter()
        .enumerate()
        .map(|(item, settlement)| {
            if settlement.lease.key.0.len() != table.key_len {
                return Ok(None);
            }
            let settle = Settle {
                session,
                table,
                lease: &settlement.lease,
                now,
            };
            settle
                .run(&settlement.ending)
                .map_err(|refusal| refusal.at(item, None))
                .and_then(|ended| match (ended, &settlement.ending) {
                    (Some(state), Ending::Complete { follow_ups }) => {
                        add_follow_ups(session, item, follow_ups, now)?;
                        Ok(Some(state))
                    }
                    (Some(state), _) => Ok(Some(state)),
                    (None, ending) => settle.repeated(ending),
                })
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
    session: &'a Session,
    table: &'a QueueTable,
    lease: &'a LeaseRef,
    now: i64,
}

impl Settle<'_> {
    /// Ends the lease if it is held; none if it is not.
    fn run(&self, ending: &Ending) -> Result<Option<State>, Refusal> {
        let sql = &self.table.sql;
        match ending {
            Ending::Complete { .. } => self.complete(),
            Ending::Fail { error, retry } => match retry {
                Some(delay) => self.end(&sql.fail, State::Delayed, Some(self.after(*delay)), error),
                None => self.end(&sql.fail, State::Dead, None, error),
            },
            Ending::Release { delay } if delay.is_zero() => {
                self.end(&sql.release, State::Ready, None, "")
            }
            Ending::Release { delay } => {
                self.end(&sql.release, State::Delayed, Some(self.after(*delay)), "")
            }
        }
    }

    fn complete(&self) -> Result<Option<State>, Refusal> {
        let sql = &self.table.sql;
        match &self.table.spec.on_complete {
            OnComplete::Keep => self.end(&sql.complete, State::Completed, None, ""),
            OnComplete::Delete => self.end(&sql.delete, State::Completed, None, ""),
            OnComplete::Recur(every) => {
                self.end(&sql.complete, State::Delayed, Some(self.after(*every)), "")
            }
            OnComplete::Archive(_) => {
                let ended = self.end(&sql.complete, State::Completed, None, "")?;
                if let (Some(_), Some(archive)) = (ended, &sql.archive) {
                    for move_on in [archive, &sql.archived] {
                        let mut statement = self.session.connection.prepare_cached(move_on)?;
                        bind_key(&mut statement, &self.lease.key)?;
                        statement.raw_execute()?;
                    }
                }
                Ok(ended)
            }
        }
    }

    fn after(&self, delay: std::time::Duration) -> i64 {
        self.now.saturating_add(millis(delay))
    }

    fn end(
        &self,
        sql: &str,
        state: State,
        due: Option<i64>,
        error: &str,
    ) -> Result<Option<State>, Refusal> {
        let mut statement = self.session.connection.prepare_cached(sql)?;
        bind_key(&mut statement, &self.lease.key)?;
        let values: [&dyn ToSql; 6] = [
            &Token(&self.lease.token),
            &self.now,
            &due,
            &self.lease.fence,
            &state.code(),
            &error,
        ];
        bind(&mut statement, 4, &values)?;
        Ok((statement.raw_execute()? > 0).then_some(state))
    }

    /// Returns where the item is, if an earlier settlement of the same kind ended this lease.
    fn repeated(&self, ending: &Ending) -> Result<Option<State>, StoreError> {
        let mut statement = self
            .session
            .connection
            .prepare_cached(&self.table.sql.settled)?;
        bind_key(&mut statement, &self.lease.key)?;
        let unused = rusqlite::types::Null;
        bind(
            &mut statement,
            4,
            &[
                &Token(&self.lease.token),
                &unused,
                &unused,
                &self.lease.fence,
            ],
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
