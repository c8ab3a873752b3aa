//! Settlements: completes, fails and releases items, and adds the items that follow completions.

use std::borrow::Cow;
use std::collections::HashSet;

use lease_broker_model::item_state::State;
use serde_json::json;

use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::new_item::insert_delay;
use super::operations::MssqlOperations;
use super::parts::{LeftOut, Parts};
use super::queue_statements::QueueStatements;
use super::statement_parts::{COMMIT, roll_back_on_error};
use super::utf16::cut;
use crate::contract::wants_owner;
use crate::follow_ups;
use crate::{
    EndedLease, Ending, FollowUp, NewItem, QueueIndex, Refusal, RowEnding, SettleResults, Settled,
    Settlement, StoreError,
};

/// The results of one batch.
#[derive(Default)]
pub(super) struct BatchResults {
    /// The server's time. `None`: no lease ended.
    time: Option<i64>,
    /// The results by the index of the settlement. Those of lost leases are missing.
    pub(super) results: Vec<(usize, Settled)>,
    /// The workers of ended leases that ask for it, by the same index.
    owners: Vec<(usize, Option<String>)>,
    /// The leases of later items of runs that the batch released.
    released: Vec<EndedLease>,
}

/// The follow-ups that one INSERT adds. They go to the same queue, follow each other among those of that queue, name the same columns, and
/// all of them are ready or all are delayed.
struct FollowUpInsert<'a> {
    queue: QueueIndex,
    first: Cow<'a, NewItem>,
    list: Vec<ListEntry>,
}

impl MssqlOperations {
    pub(super) async fn settle(
        &self,
        queue: QueueIndex,
        settlements: &[Settlement],
    ) -> Result<SettleResults, StoreError> {
        let queue = self.queue(queue)?;
        let mut settled = SettleResults {
            time: None,
            results: vec![Settled::Lost; settlements.len()],
            owners: vec![None; settlements.len()],
            released: Vec::new(),
        };
        let mut remaining = Vec::with_capacity(settlements.len());
        for (index, settlement) in settlements.iter().enumerate() {
            if !queue.can_have_key(&settlement.lease.key) {
                continue;
            }
            let refused_follow_up = || {
                follow_ups::refusal(settlement, |queue, item| {
                    Ok::<_, StoreError>(self.queue(queue)?.encode_item(item).map(drop))
                })
            };
            let refusal = match queue.refused_column_of(settlement) {
                None => refused_follow_up()?,
                refusal => refusal,
            };
            match refusal {
                Some(refusal) => settled.results[index] = Settled::Refused(refusal),
                None => remaining.push(index),
            }
        }
        // A batch may settle a key only once. Further settlements of the same key go into later batches.
        while !remaining.is_empty() {
            let mut keys = HashSet::new();
            let (batch, later): (Vec<usize>, Vec<usize>) = remaining
                .into_iter()
                .partition(|index| keys.insert(settlements[*index].lease.key.to_string()));
            self.settle_keys(queue, settlements, batch, &mut settled)
                .await?;
            remaining = later;
        }
        Ok(settled)
    }

    /// Settles the settlements at `indexes`, each of another key, and sets their results.
    async fn settle_keys(
        &self,
        queue: &QueueStatements,
        settlements: &[Settlement],
        indexes: Vec<usize>,
        settled: &mut SettleResults,
    ) -> Result<(), StoreError> {
        let mut parts = Parts::of(indexes);
        while let Some(part) = parts.next() {
            let batch = self.run_batch(queue, settlements, &part, COMMIT);
            let outcome = match batch.await {
                Ok(outcome) => outcome,
                Err(error) => {
                    let left_out = match parts.divide(part, error) {
                        // Earlier batches may have ended leases.
                        Err(error) if settled.time.is_some() => return Err(error.maybe_applied()),
                        left_out => left_out?,
                    };
                    if let Some(left_out) = left_out {
                        self.refuse(queue, settlements, left_out, settled).await;
                    }
                    continue;
                }
            };
            parts.note_success();
            settled.time = outcome.time.or(settled.time);
            for (index, result) in outcome.results {
                settled.results[index] = result;
            }
            for (index, owner) in outcome.owners {
                settled.owners[index] = owner;
            }
            settled.released.extend(outcome.released);
        }
        Ok(())
    }

    /// Sets the results of settlements that are left out.
    async fn refuse(
        &self,
        queue: &QueueStatements,
        settlements: &[Settlement],
        left_out: LeftOut,
        settled: &mut SettleResults,
    ) {
        let refusals = match left_out {
            LeftOut::Refused(index, rejection) => {
                let settlement = &settlements[index];
                let refusal = self.find_refused_part(queue, settlement, rejection).await;
                vec![(index, refusal)]
            }
            locked @ LeftOut::Locked(_) => locked.refusals(),
        };
        for (index, refusal) in refusals {
            settled.results[index] = Settled::Refused(refusal);
        }
    }

    /// Settles the settlements at `indexes` in one batch. No two of them have the same key. `end` is its last statement.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if a constraint or a trigger refuses one of them. The batch has changed nothing then.
    pub(super) async fn run_batch(
        &self,
        queue: &QueueStatements,
        settlements: &[Settlement],
        indexes: &[usize],
        end: &str,
    ) -> Result<BatchResults, StoreError> {
        let (sql, lists) = self.render_settlement(queue, settlements, indexes, end)?;
        let mut tries = self.pool.tries().with_one_lock_wait();
        let batch = (&*sql, RetrySafety::Idempotent);
        let answer = self.run_lists(&mut tries, batch, &lists).await?;
        // The first result set has the leases that this batch ended. A second one has those that an earlier settlement
        // ended, and the completions without a row.
        let mut settled = BatchResults::default();
        for row in decode::result_set(&answer, 0)? {
            let index = decode::request_index(row, 0, settlements.len())?;
            let result = Settled::Ended(decode::state(row, 1)?);
            settled.results.push((index, result));
            settled.time = Some(decode::time(row, 2)?);
            if wants_owner(&settlements[index]) {
                settled.owners.push((index, decode::optional_text(row, 3)?));
            }
        }
        for row in answer.iter().skip(1).flatten() {
            if let Some(released) = queue.read_later(row)? {
                settled.released.push(released);
                continue;
            }
            let index = decode::request_index(row, 0, settlements.len())?;
            let result = match decode::optional_integer(row, 1)?.map(State::from_code) {
                None => Settled::Gone,
                Some(None) => Settled::Lost,
                Some(Some(State::Leased)) => Settled::Refused(Refusal::out_of_order()),
                // The earlier settlement is a try of this operation, whose answer was lost.
                Some(Some(state)) if tries.may_have_been_applied() => Settled::Ended(state),
                Some(Some(state)) => Settled::Repeated(state),
            };
            settled.results.push((index, result));
        }
        Ok(settled)
    }

    /// Renders the batch that settles the settlements at `indexes`, and its parameters. `end` is its last statement.
    pub(super) fn render_settlement(
        &self,
        queue: &QueueStatements,
        settlements: &[Settlement],
        indexes: &[usize],
        end: &str,
    ) -> Result<(String, ListParameters), StoreError> {
        let written = queue.columns_written_by(indexes.iter().map(|index| &settlements[*index]));
        let mut leases = Vec::with_capacity(indexes.len());
        for index in indexes {
            let settlement = &settlements[*index];
            let mut entry = QueueStatements::lease_entry(*index, &settlement.lease);
            insert_ending(queue, &settlement.ending, &mut entry);
            queue.insert_columns(&written, settlement, &mut entry)?;
            leases.push(entry);
        }
        let mut lists = vec![leases];
        let inserts = self.follow_up_inserts(settlements, indexes)?;
        let sections = &queue.sql.settle;
        let update_writing = (!written.is_empty()).then(|| queue.render_update_writing(&written));
        let mut batch = vec![&*sections.begin];
        if !inserts.is_empty() {
            batch.push(&sections.remember_ended);
        }
        let completes =
            |index: &usize| matches!(settlements[*index].ending, Ending::Complete { .. });
        let any_completes = indexes.iter().any(completes);
        if sections.delete_completed.is_none() || !indexes.iter().all(completes) {
            batch.push(update_writing.as_deref().unwrap_or(&sections.update_ended));
        }
        if any_completes {
            batch.extend(sections.delete_completed.as_deref());
        }
        batch.push(&sections.verify_count);
        if any_completes {
            batch.extend(sections.move_to_archive.as_deref());
        }
        let mut has_triggers = queue.has_triggers;
        let mut add_follow_ups = Vec::with_capacity(inserts.len());
        // List 0 is the list of leases.
        for (list_number, insert) in (1..).zip(&inserts) {
            let target = self.queue(insert.queue)?;
            has_triggers |= target.has_triggers;
            add_follow_ups.push(target.render_insert(
                &["insert_follow_ups"],
                &insert.first,
                list_number,
            ));
        }
        batch.extend(add_follow_ups.iter().map(String::as_str));
        batch.push(end);
        let sql = roll_back_on_error(batch.join("\n"), has_triggers);
        lists.extend(inserts.into_iter().map(|insert| insert.list));
        Ok((sql, ListParameters::new(lists)))
    }

    fn follow_up_inserts<'a>(
        &self,
        settlements: &'a [Settlement],
        indexes: &[usize],
    ) -> Result<Vec<FollowUpInsert<'a>>, StoreError> {
        // By the queues in the order in which the follow-ups name them: an item can refer to one of an earlier queue.
        let mut of_queues: Vec<(QueueIndex, Vec<(usize, &'a NewItem)>)> = Vec::new();
        for index in indexes {
            if let Ending::Complete { follow_ups } = &settlements[*index].ending {
                for FollowUp { queue, item } in follow_ups {
                    match of_queues.iter_mut().find(|(other, _)| other == queue) {
                        Some((_, items)) => items.push((*index, item)),
                        None => of_queues.push((*queue, vec![(*index, item)])),
                    }
                }
            }
        }
        let mut inserts: Vec<FollowUpInsert<'a>> = Vec::new();
        for (queue, follow_ups) in of_queues {
            let target = self.queue(queue)?;
            let items = target.with_same_columns(follow_ups.iter().map(|(_, item)| *item));
            let start = inserts.len();
            for ((index, _), item) in follow_ups.iter().zip(items) {
                let mut entry = target
                    .encode_item(&item)
                    .map_err(|(_, problem)| StoreError::Bug(problem.text))?;
                let firsts = inserts[start..].iter().map(|insert| &*insert.first);
                let place = target.insert_for(firsts, &item).map(|place| start + place);
                let place = place.unwrap_or_else(|| {
                    inserts.push(FollowUpInsert {
                        queue,
                        first: item,
                        list: Vec::new(),
                    });
                    inserts.len() - 1
                });
                let list = &mut inserts[place].list;
                entry.insert("i", json!(index));
                entry.insert("o", json!(list.len()));
                list.push(entry);
            }
        }
        Ok(inserts)
    }
}

/// The length of the column `lease_error`, in UTF-16 units.
pub(super) const MAX_ERROR_UNITS: usize = 1_024;

/// Adds to the entry of a lease how the lease ends (settle.sql names the fields).
fn insert_ending(queue: &QueueStatements, ending: &Ending, entry: &mut ListEntry) {
    let (kind, error) = match ending {
        Ending::Complete { .. } => (0, None),
        Ending::Fail { error, .. } => (1, Some(error)),
        Ending::Release { .. } => (2, None),
    };
    let (state, delay) = RowEnding::from(ending).next_state(&queue.spec);
    entry.insert("k", json!(kind));
    entry.insert("n", json!(state.code()));
    insert_delay(entry, delay);
    let error = error.map(|error| cut(error, MAX_ERROR_UNITS));
    entry.insert("e", json!(error));
}
