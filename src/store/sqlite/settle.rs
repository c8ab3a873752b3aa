//! Ends leases: completes, fails or releases their items, and adds the follow-up items of completions.

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::OnComplete;
use rusqlite::ToSql;
use rusqlite::types::Null;

use super::enqueue::{self, ItemError};
use super::ignored_change::refusal_of_held;
use super::queue_statements::QueueStatements;
use super::row_error::{RowError, change_row};
use super::runs::{self, Run};
use super::soft_lock_value::{integer, text};
use super::statement::{LastStatement, Token, bind, bind_key, borrowed};
use super::write_context::WriteContext;
use super::written_columns::FIRST_COLUMN_PARAMETER;
use crate::contract::{due_after, wants_owner};
use crate::{
    Ending, FollowUp, NewItem, Problem, ProblemKind, QueueIndex, Refusal, Rejection, RowEnding,
    SettleResults, Settled, Settlement, StoreError, follow_ups,
};

/// The changes that are undone if the database refuses one settlement of a list.
#[derive(Clone, Copy)]
pub(super) enum UndoScope {
    /// Those of the whole list: the operation fails with [`StoreError::Rejected`]. This costs nothing if no settlement is
    /// refused.
    List,
    /// Those of the refused settlement. Each settlement runs in its own savepoint.
    Settlement,
}

/// Ends leases. See [`Leases::settle`](crate::Leases::settle).
///
/// # Errors
/// [`StoreError::Rejected`] if the database refuses a settlement and the scope is the list, or if the refusal has rolled
/// back the whole transaction, as a trigger can.
pub(super) fn settle(
    context: &WriteContext,
    queue: QueueIndex,
    settlements: &[Settlement],
    undo_scope: UndoScope,
) -> Result<SettleResults, StoreError> {
    let queue = context.queue(queue)?;
    let mut settler = Settler {
        context,
        queue,
        now: context.now(),
        statement: LastStatement::new(&context.connection),
    };
    let check_item = |queue, item: &NewItem| Ok(context.queue(queue)?.encode_item(item).map(drop));
    let mut released = Vec::new();
    let mut settle = |settler: &mut Settler<'_>, settlement: &Settlement| {
        if !queue.can_have_key(&settlement.lease.key) {
            return Ok(Settled::Lost);
        }
        let refusal = match queue.refused_column_of(settlement) {
            None => follow_ups::refusal(settlement, check_item)?,
            refusal => refusal,
        };
        if let Some(refusal) = refusal {
            return Ok(Settled::Refused(refusal));
        }
        let is_release = matches!(settlement.ending, Ending::Release { .. });
        if !is_release && runs::has_earlier(context, queue, &settlement.lease)? {
            return Ok(Settled::Refused(Refusal::out_of_order()));
        }
        let run = settler.find_run(settlement)?;
        let settled = match undo_scope {
            UndoScope::List => match settler.settle(settlement)? {
                Settled::Refused(refusal) => return Err(rejected(&refusal)),
                settled => settled,
            },
            UndoScope::Settlement => settler.settle_in_savepoint(settlement)?,
        };
        if let (Some(run), Settled::Ended(_)) = (run, &settled) {
            released.extend(runs::release(context, queue, run.later())?);
        }
        Ok(settled)
    };
    let mut settled = SettleResults {
        time: Some(context.now()),
        results: Vec::with_capacity(settlements.len()),
        owners: Vec::with_capacity(settlements.len()),
        released: Vec::new(),
    };
    for settlement in settlements {
        let owner = settler.find_owner(settlement)?;
        let result = settle(&mut settler, settlement)?;
        let has_ended = matches!(result, Settled::Ended(_));
        settled.owners.push(owner.filter(|_| has_ended));
        settled.results.push(result);
    }
    settled.released = released;
    Ok(settled)
}

/// Returns the error for a refused settlement whose operation is undone.
fn rejected(refusal: &Refusal) -> StoreError {
    let text = refusal.to_string();
    let problem = refusal.problem.clone();
    StoreError::Rejected(Rejection::of_list(None, Problem { text, ..problem }))
}

/// Settles the leases of one list.
struct Settler<'a> {
    context: &'a WriteContext,
    queue: &'a QueueStatements,
    now: i64,
    statement: LastStatement<'a>,
}

impl<'a> Settler<'a> {
    /// Returns the worker of the row, if the settlement asks for it.
    fn find_owner(&mut self, settlement: &Settlement) -> Result<Option<String>, StoreError> {
        let key = &settlement.lease.key;
        if !wants_owner(settlement) || !self.queue.can_have_key(key) {
            return Ok(None);
        }
        let statement = self.statement.get(&self.queue.sql.find_owner)?;
        bind_key(statement, key)?;
        let mut rows = statement.raw_query();
        let owner = rows.next()?.map(|row| text(row, 0)).transpose()?;
        Ok(owner.flatten())
    }

    /// Returns the run of the lease, if the settlement ends the rest of it.
    fn find_run(&self, settlement: &Settlement) -> Result<Option<Run>, StoreError> {
        let lease = &settlement.lease;
        if matches!(settlement.ending, Ending::Complete { .. }) {
            return Ok(None);
        }
        let run = Run::find(self.context, self.queue, &lease.key)?;
        Ok(run.filter(|run| run.holds(lease, self.now)))
    }

    /// Settles one lease. If the result is a refusal, the caller has to undo the changes.
    fn settle(&mut self, settlement: &Settlement) -> Result<Settled, StoreError> {
        let state = match self.end_lease(settlement) {
            Ok(Some(state)) => state,
            Ok(None) => {
                let (lease, ending) = (&settlement.lease, &settlement.ending);
                let ignored = refusal_of_held(self.context, self.queue, lease)?;
                return match ignored {
                    Some(problem) => {
                        let error = ItemError::from(RowError::Refused(problem));
                        error.refused(&self.queue.spec.table, None)
                    }
                    None => self.find_earlier_settlement(lease, ending),
                };
            }
            Err(error) => {
                let refused = error.refused(&self.queue.spec.table, None)?;
                return Ok(self.queue.name_written_column(refused, settlement));
            }
        };
        if let Ending::Complete { follow_ups } = &settlement.ending {
            for (index, follow_up) in follow_ups.iter().enumerate() {
                let FollowUp { queue, item } = follow_up;
                if let Err(error) = enqueue::insert(self.context, *queue, item, self.now) {
                    let table = &self.context.queue(*queue)?.spec.table;
                    return error.refused(table, Some(index));
                }
            }
        }
        Ok(Settled::Ended(state))
    }

    /// Settles one lease and undoes its changes if it is refused.
    fn settle_in_savepoint(&mut self, settlement: &Settlement) -> Result<Settled, StoreError> {
        self.context.execute("SAVEPOINT settlement")?;
        let result = self.settle(settlement)?;
        if let Settled::Refused(refusal) = &result {
            // The savepoint is gone with the transaction. Further statements would be committed one by one.
            if self.context.connection.is_autocommit() {
                return Err(rejected(refusal));
            }
            self.context.execute("ROLLBACK TO settlement")?;
        }
        self.context.execute("RELEASE settlement")?;
        Ok(result)
    }

    /// Ends the lease and returns the new state of its item, or `None` if the lease is not held.
    fn end_lease(&mut self, settlement: &Settlement) -> Result<Option<State>, ItemError> {
        let (state, delay) = RowEnding::from(&settlement.ending).next_state(&self.queue.spec);
        let due = delay.map(|delay| due_after(self.now, delay));
        let on_complete = &self.queue.spec.on_complete;
        let sql = &self.queue.sql;
        let section = match (&settlement.ending, on_complete) {
            (Ending::Complete { .. }, OnComplete::Delete) => ("delete", &*sql.delete),
            (Ending::Complete { .. }, _) => ("complete", &*sql.complete),
            (Ending::Fail { .. }, _) => ("fail", &*sql.fail),
            (Ending::Release { .. }, _) => ("release", &*sql.release),
        };
        let ended = self.run(section, settlement, state, due)?;
        if let (Ending::Complete { .. }, Some(_), Some(copy_to_archive)) =
            (&settlement.ending, ended, &sql.copy_to_archive)
        {
            // A row that was only deleted is lost, and one that was only copied is not moved.
            for (sql, problem) in [
                (copy_to_archive, "its archive ignores the insert of the row"),
                (&sql.delete_archived, "it ignores the deletion of the row"),
            ] {
                let statement = self.statement.get(sql)?;
                bind_key(statement, &settlement.lease.key)?;
                if change_row(&self.context.connection, statement)? == 0 {
                    return Err(ItemError::Rejected {
                        column: None,
                        problem: Problem::new(ProblemKind::Other, problem),
                    });
                }
            }
        }
        Ok(ended)
    }

    /// Runs a section of `settle.sql` that ends the lease: `sql`, if the settlement writes no columns. Returns `state` if it changed
    /// the row.
    fn run(
        &mut self,
        (section, sql): (&str, &'a str),
        settlement: &Settlement,
        state: State,
        due: Option<i64>,
    ) -> Result<Option<State>, ItemError> {
        let lease = &settlement.lease;
        let error = match &settlement.ending {
            Ending::Fail { error, .. } => error,
            Ending::Complete { .. } | Ending::Release { .. } => "",
        };
        let values: [&dyn ToSql; 6] = [
            &Token(&lease.token),
            &self.now,
            &due,
            &lease.fence,
            &state.code(),
            &error,
        ];
        let changed = if settlement.columns.is_empty() && settlement.checkpoint.is_none() {
            let statement = self.statement.get(sql)?;
            bind_key(statement, &lease.key)?;
            bind(statement, 4, &values)?;
            change_row(&self.context.connection, statement)?
        } else {
            let sql = self.queue.render_writing(section, settlement);
            let mut statement = self.context.connection.prepare_cached(&sql)?;
            bind_key(&mut statement, &lease.key)?;
            bind(&mut statement, 4, &values)?;
            let written = self.queue.encode_written(settlement)?;
            for (parameter, value) in (FIRST_COLUMN_PARAMETER..).zip(&written) {
                statement.raw_bind_parameter(parameter, borrowed(value))?;
            }
            change_row(&self.context.connection, &mut statement)?
        };
        Ok((changed > 0).then_some(state))
    }

    /// Returns the result for a lease that is not held. It depends on whether the row exists, and on whether an earlier
    /// settlement of the same kind ended this lease.
    fn find_earlier_settlement(
        &mut self,
        lease: &LeaseRef,
        ending: &Ending,
    ) -> Result<Settled, StoreError> {
        let ending = RowEnding::from(ending);
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
            return Ok(ending.without_row());
        };
        let has_ended: Option<bool> = row.get(0)?;
        let state = integer(row, 1)?.and_then(State::from_code);
        let (Some(true), Some(state)) = (has_ended, state) else {
            return Ok(Settled::Lost);
        };
        let attempts = integer(row, 2)?.unwrap_or(0);
        let was_released: bool = row.get(3)?;
        Ok(ending.after_end(state, attempts, !was_released))
    }
}
