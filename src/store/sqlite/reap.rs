//! Ends expired leases and makes delayed items ready.

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::millis::duration_between;
use lease_broker_model::queue::SoftLockColumn;

use super::held_lease::HELD_COLUMNS;
use super::left_out::LeftOut;
use super::queue_statements::QueueStatements;
use super::row_error::{RowError, change_fit_row};
use super::runs::{self, Run};
use super::statement::{bind, bind_key};
use super::suspects;
use super::undone_by::UndoneBy;
use super::write_context::WriteContext;
use crate::{
    EndedLease, LatestTime, Problem, ProblemKind, QueueIndex, Reaped, RowOperation, RowOutcome,
    StoreError, step,
};

/// The most rows that one run leaves as they are because a constraint or a trigger refuses their change.
pub(super) const MAX_REFUSED: usize = 1_000;

/// A row whose due time has passed.
enum DueRow {
    /// Its lease has expired.
    Leased(EndedLease),
    /// Its delay is over.
    Delayed(LeaseRef),
    /// Another program has written a fencing token that is not an integer.
    NoFence(Key),
}

impl DueRow {
    fn key(&self) -> &Key {
        match self {
            Self::Leased(ended) => &ended.lease.key,
            Self::Delayed(item) => &item.key,
            Self::NoFence(key) => key,
        }
    }
}

/// Reaps a queue. See [`Leases::reap`](crate::Leases::reap).
pub(super) fn reap(
    context: &WriteContext,
    queue: QueueIndex,
    limit: usize,
    latest: Option<LatestTime>,
    left_out: &LeftOut,
) -> Result<Reaped, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let run = ReaperRun {
        context,
        queue,
        now,
        is_stepped: latest.is_some_and(|latest| now > latest.now()),
    };
    let mut reaped = Reaped {
        time: Some(now),
        refused: left_out.rows().clone(),
        ..Reaped::default()
    };
    loop {
        let ended = reaped.expired.len() + reaped.released.len() + reaped.promoted;
        let refused = &mut reaped.refused;
        let mut due = run.find_due(limit.saturating_sub(ended) + refused.len())?;
        // The change of another row can have ended a row, in a trigger or as a part of its run.
        refused.retain(|(key, _)| due.iter().any(|row| row.key() == key));
        due.retain(|row| !refused.iter().any(|(key, _)| row.key() == key));
        let known = refused.len();
        for row in due {
            let key = row.key().clone();
            match left_out.change(context, &key, UndoneBy::Savepoint, || run.end(row))? {
                Ok(ended) => {
                    reaped.expired.extend(ended.expired);
                    reaped.released.extend(ended.released);
                    reaped.promoted += ended.promoted;
                }
                Err(problem) => reaped.refused.push((key, problem)),
            }
        }
        // The longest due rows come first, so that rows which are refused must not stand for those behind them.
        if reaped.refused.len() == known || known >= MAX_REFUSED {
            break;
        }
    }
    if suspects::has_any(&context.connection, queue)? {
        suspects::forget(&context.connection, queue)?;
    }
    let after = if reaped.refused.is_empty() {
        i64::MIN
    } else {
        now
    };
    let mut statement = context.connection.prepare_cached(&queue.sql.next_due)?;
    bind(&mut statement, 5, &[&after])?;
    let next_due: Option<i64> = match statement.raw_query().next()? {
        Some(row) => Some(row.get(0)?),
        None => None,
    };
    reaped.next_due = next_due.map(|due| duration_between(now, due));
    Ok(reaped)
}

/// A run of the reaper.
struct ReaperRun<'a> {
    context: &'a WriteContext,
    queue: &'a QueueStatements,
    now: i64,
    /// The clock was stepped forward.
    is_stepped: bool,
}

impl ReaperRun<'_> {
    /// Returns the rows whose due time has passed, those due longest first, up to `limit`.
    fn find_due(&self, limit: usize) -> Result<Vec<DueRow>, StoreError> {
        let queue = self.queue;
        let mut statement = (self.context.connection).prepare_cached(&queue.sql.find_due)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        bind(&mut statement, 4, &[&limit, &self.now])?;
        let state_column = queue.key.len() + HELD_COLUMNS;
        let found = statement.raw_query().and_then(|row| {
            let is_leased = row.get::<_, i64>(state_column)? == i64::from(State::Leased.code());
            let has_fence = row.get_ref(queue.key.len())?.as_i64().is_ok();
            Ok(if !has_fence {
                DueRow::NoFence(queue.read_key(row)?)
            } else if is_leased {
                DueRow::Leased(queue.read_ended(row, self.now, State::Ready)?)
            } else {
                DueRow::Delayed(queue.read_lease(row)?)
            })
        });
        found.collect()
    }

    /// Ends the lease or the delay of a row. If the row refuses, it can be half changed.
    fn end(&self, row: DueRow) -> Result<Reaped, RowError> {
        let mut reaped = Reaped::default();
        match row {
            DueRow::Leased(lease) => self.end_lease(lease, &mut reaped)?,
            DueRow::NoFence(_) => return Err(RowError::Refused(self.no_fence())),
            DueRow::Delayed(item) => {
                let mut statement =
                    (self.context.connection).prepare_cached(&self.queue.sql.promote)?;
                bind_key(&mut statement, &item.key)?;
                // The statement does not use ?6 and ?7, new state and error text.
                bind(&mut statement, 5, &[&self.now, &0, &"", &item.fence])?;
                change_fit_row(&self.context.connection, &mut statement)?;
                reaped.promoted = 1;
            }
        }
        Ok(reaped)
    }

    fn no_fence(&self) -> Problem {
        let column = self.queue.spec.soft_lock.name(SoftLockColumn::Fence);
        let text = format!(
            "{column} is not an integer; write one that is not lower than the fencing tokens that the item has had"
        );
        Problem::new(ProblemKind::ValueUnfit, text)
    }

    fn end_lease(&self, lease: EndedLease, reaped: &mut Reaped) -> Result<(), RowError> {
        let Self {
            context,
            queue,
            now,
            is_stepped,
            ..
        } = *self;
        let run = Run::find(context, queue, &lease.lease.key)?;
        if run.as_ref().is_some_and(|run| !run.is_first()) {
            let rest = run.map(Run::rest).unwrap_or_default();
            reaped.released = runs::release(context, queue, rest)?;
            return Ok(());
        }
        let row = lease.row(State::Leased);
        let reap = RowOperation::Reap { is_stepped };
        if let (Some(next), RowOutcome::Expired(state)) = step(&queue.spec, Some(&row), now, &reap)
        {
            let attempts_back = row.attempt - next.attempt;
            let lease = EndedLease { state, ..lease };
            self.expire(&lease, attempts_back)?;
            if let Some(run) = run {
                reaped.released = runs::release(context, queue, run.later())?;
            }
            if state == State::Ready && !is_stepped {
                let (key, fence) = (&lease.lease.key, lease.lease.fence);
                suspects::remember(&context.connection, queue, (key, fence), now)?;
            }
            reaped.expired.push(lease);
        }
        Ok(())
    }

    /// Ends an expired lease and gives this number of attempts back, 0 or 1.
    fn expire(&self, expired: &EndedLease, attempts_back: u32) -> Result<(), RowError> {
        let error = match &expired.owner {
            Some(owner) => format!("the lease of {owner} expired"),
            None => "the lease expired".to_owned(),
        };
        let mut statement = (self.context.connection).prepare_cached(&self.queue.sql.expire)?;
        bind_key(&mut statement, &expired.lease.key)?;
        let (state, fence) = (expired.state.code(), expired.lease.fence);
        bind(
            &mut statement,
            5,
            &[&expired.end_time, &state, &error, &fence, &attempts_back],
        )?;
        change_fit_row(&self.context.connection, &mut statement)
    }
}
