//! Claims: leases ready items to one or several calls.

use std::collections::{HashMap, HashSet};

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::millis::millis_rounded_up;
use serde_json::json;
use tiberius::Row;
use uuid::Uuid;

use super::decode;
use super::error::{OperationFailure, RetrySafety, into_rejection};
use super::list_parameters::{ListEntry, ListParameters};
use super::operations::MssqlOperations;
use super::pause_parts::is_pause;
use super::queue_statements::{ClaimBatches, ClaimForms, QueueStatements};
use super::turn::{self, LimitAnswer};
use super::unread_claim::ClaimFailure;
use super::{suspects, types};
use crate::contract::restore_runs;
use crate::{
    ClaimCall, Claimed, ClaimedItem, Limited, QueueIndex, StoreError, TooLargeItem, TurnCost,
};

impl MssqlOperations {
    pub(super) async fn claim(
        &self,
        queue: QueueIndex,
        calls: &[ClaimCall],
        max_bytes: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        let queue = self.queue(queue)?;
        let mut claimed = vec![Claimed::default(); calls.len()];
        match self
            .claim_in_batches(queue, calls, max_bytes, &mut claimed)
            .await
        {
            Ok(()) => Ok(claimed),
            Err(error) => Err(self.release_given(queue, calls, &claimed, error).await),
        }
    }

    /// Sends the calls in as many batches as they need. After an error, `claimed` has the leases of the batches before it.
    async fn claim_in_batches(
        &self,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        max_bytes: usize,
        claimed: &mut [Claimed],
    ) -> Result<(), StoreError> {
        // Calls with the same token are the same request. Only the first of them is sent. The others get its leases.
        let mut first_index: HashMap<Uuid, usize> = HashMap::new();
        for (index, call) in calls.iter().enumerate() {
            first_index.entry(call.token).or_insert(index);
        }
        let is_first = |index: &usize| first_index[&calls[*index].token] == *index;
        let names_groups = |index: &usize| !calls[*index].groups.is_empty();
        let (of_groups, indexes): (Vec<usize>, Vec<usize>) =
            (0..calls.len()).filter(is_first).partition(names_groups);
        let mut room = max_bytes;
        if let Some(form) = &queue.sql.claim_of_groups {
            for index in of_groups {
                let Some(answer) = self
                    .serve_alone(form, queue, calls, (index, room), claimed)
                    .await?
                else {
                    continue;
                };
                claimed[index].is_paused = answer.is_paused && claimed[index].items.is_empty();
                answer.apply(&mut claimed[index], &calls[index]);
                // Other calls may get the items that this one may not have.
                claimed[index].is_held_back =
                    answer.is_held_back || claimed[index].items.len() < calls[index].max_items;
                room = room.saturating_sub(claimed[index].bytes);
            }
        }
        // A run belongs to one call.
        let gives_runs = queue.spec.max_run() > 1;
        let (of_runs, shared): (Vec<usize>, Vec<usize>) = indexes
            .into_iter()
            .partition(|index| gives_runs && calls[*index].max_run > 1);
        let batches = of_runs.into_iter().map(|index| vec![index]);
        for indexes in batches
            .chain([shared])
            .filter(|indexes| !indexes.is_empty())
        {
            self.claim_in_turn(queue, calls, (&indexes, &mut room), claimed)
                .await?;
        }
        let mut bytes = 0;
        for (index, call) in calls.iter().enumerate() {
            let first = first_index[&call.token];
            if call.has_request_id && bytes > 0 && bytes + claimed[first].bytes > max_bytes {
                // The next operation returns its leases.
                claimed[index] = Claimed {
                    has_more: true,
                    ..Claimed::default()
                };
                continue;
            }
            if first != index {
                claimed[index] = Claimed {
                    turn: TurnCost::default(),
                    made_dead: 0,
                    is_repeated: true,
                    ..claimed[first].clone()
                };
            }
            bytes += claimed[index].bytes;
        }
        self.try_left_out(queue, calls, max_bytes, claimed).await
    }

    /// Sends the call at `index` alone. `None`: it gets nothing, because rows refuse their leases. Other calls may have leases by now.
    async fn serve_alone(
        &self,
        form: &ClaimForms,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        (index, room): (usize, usize),
        claimed: &mut [Claimed],
    ) -> Result<Option<ClaimAnswer>, StoreError> {
        let answer = self
            .claim_alone(form, queue, calls, (index, room), claimed)
            .await;
        match answer {
            Err(StoreError::Rejected(_)) if calls.len() > 1 && !queue.spec.shows_worker() => {
                claimed[index].is_held_back = true;
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// Sends the calls at `indexes`, which name no groups, and then each by itself if there are suspects. Takes the bytes of their items
    /// from `room`.
    async fn claim_in_turn(
        &self,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        (indexes, room): (&[usize], &mut usize),
        claimed: &mut [Claimed],
    ) -> Result<(), StoreError> {
        let alone = ClaimAnswer {
            is_held_back: true,
            ..ClaimAnswer::default()
        };
        let answer = if queue.left_out.rows().is_empty() {
            let limits = (indexes, *room);
            match self
                .claim_by(&queue.sql.claim, queue, calls, limits, claimed)
                .await
            {
                Err(failure) if failure.is_of_row(&queue.spec) => alone,
                answer => answer?,
            }
        } else {
            alone
        };
        for &index in indexes {
            // There are suspects, or rows that refuse their leases. Each call may lease other items.
            if answer.is_held_back && claimed[index].items.is_empty() && calls[index].max_items > 0
            {
                let form = &queue.sql.claim_of_share;
                let Some(answer) = self
                    .serve_alone(form, queue, calls, (index, *room), claimed)
                    .await?
                else {
                    continue;
                };
                claimed[index].is_held_back = answer.is_held_back;
                claimed[index].is_paused = answer.is_paused;
                answer.apply(&mut claimed[index], &calls[index]);
            }
            *room = room.saturating_sub(claimed[index].bytes);
        }
        for &index in indexes {
            let (claimed, call) = (&mut claimed[index], &calls[index]);
            claimed.is_paused |= answer.is_paused;
            claimed.is_paused &= claimed.items.is_empty();
            if !answer.is_held_back {
                answer.apply(claimed, call);
            }
        }
        Ok(())
    }

    /// Sends the calls at `indexes` by one of the claims, and adds their leases to `claimed`.
    pub(super) async fn claim_by(
        &self,
        form: &ClaimForms,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        (indexes, max_bytes): (&[usize], usize),
        claimed: &mut [Claimed],
    ) -> Result<ClaimAnswer, ClaimFailure> {
        let sent: Vec<&ClaimCall> = indexes.iter().map(|index| &calls[*index]).collect();
        let with_token = indexes.iter().map(|index| (calls[*index].token, *index));
        let with_token: HashMap<Uuid, usize> = with_token.collect();
        let bytes = (!all_fit(queue, &sent, max_bytes)).then_some(max_bytes);
        let batches = match bytes {
            Some(_) => &form.within_bytes,
            None => &form.small,
        };
        let mut attempt = Attempt::First;
        let mut tries = self.pool.tries();
        let mut made_dead = 0;
        let mut may_hold_leases = false;
        let (is_first_attempt, results) = loop {
            let left_out = form.pick_one.as_ref().map(|_| queue.left_out_list());
            let parameters = attempt.parameters(calls, indexes, bytes, left_out);
            let sql = attempt.sql(batches, &sent);
            let failure = match tries.run(sql, &parameters.parameters()).await {
                Ok(results) => {
                    let is_first_attempt = matches!(attempt, Attempt::First);
                    break (is_first_attempt, attempt.check_answered(&sent, results)?);
                }
                Err(failure) => failure,
            };
            may_hold_leases |= failure.is_after_commit();
            // The calls hold no new leases if the batch was rolled back.
            if !may_hold_leases && failure.is_overflow() {
                let count = self.set_full_aside(queue, calls).await?;
                made_dead += count;
                if count > 0 {
                    continue;
                }
            }
            if !failure.may_run_again(RetrySafety::Idempotent)
                || !tries.wait_for_next(&failure).await
            {
                if may_hold_leases {
                    return Err(self.release_unread(queue, &sent, failure).await);
                }
                let error = turn::policy_error(&queue.spec, &failure)
                    .unwrap_or_else(|| into_rejection(failure));
                return Err(error.into());
            }
            attempt = attempt.after(failure);
        };
        // The batch returns at least one result set, even if that is empty.
        decode::result_set(&results, 0)?;
        // If calls already hold leases, the first result set has them. Then come the new leases, and the items that were
        // passed over.
        let mut answer = ClaimAnswer::default();
        let mut gives_suspect = false;
        for row in results.iter().flatten() {
            if decode::is_named(row, "lb_made_dead") {
                made_dead += decode::integer_as::<usize>(row, 0)?;
            } else if suspects::is_held_back(row) {
                let held_back = suspects::held_back(row)?;
                answer.is_held_back = true;
                answer.suspects = held_back.limit;
                gives_suspect = held_back.gives_suspect;
            } else if is_pause(row) {
                answer.is_paused = true;
            } else if let Some(limits) = turn::limit_answer(row) {
                answer.limits = limits?;
                if let Some(first) = indexes.first() {
                    claimed[*first].turn.add(answer.limits.cost);
                }
            } else if decode::is_named(row, "lb_o") {
                let index = decode::request_index(row, 0, calls.len())?;
                read_passed_over(queue, row, &mut claimed[index])?;
            } else if let Some(index) = with_token.get(&decode::token(row, 0)?) {
                // On Babelfish, which ignores the lock hints, a row can be a lease of another claim. Its token is not in
                // this list.
                let item = read_item(queue, &calls[*index], row)?;
                // After an error, no answer has told the leases of the first attempt.
                claimed[*index].is_repeated = is_first_attempt && is_again(row);
                claimed[*index].bytes += queue.item_size.of(&item);
                claimed[*index].items.push(item);
            }
        }
        if let Some(first) = indexes.first() {
            claimed[*first].made_dead += made_dead;
        }
        if queue.spec.max_run() > 1 {
            for index in indexes {
                restore_runs(&calls[*index], &mut claimed[*index].items);
                if gives_suspect {
                    // A suspect is leased alone and belongs to no run.
                    for item in &mut claimed[*index].items {
                        item.run = 0;
                    }
                }
            }
        }
        Ok(answer)
    }
}

/// The parts of the answer to a batch that concern no single call.
#[derive(Clone, Copy, Default)]
pub(super) struct ClaimAnswer {
    /// Suspects were kept from the calls.
    is_held_back: bool,
    /// The reason for a call that gets nothing, if suspects are the reason.
    suspects: Option<Limited>,
    /// The queue is paused.
    is_paused: bool,
    /// Groups and limits.
    limits: LimitAnswer,
}

impl ClaimAnswer {
    /// Tells a call why it got fewer items than it wanted.
    fn apply(&self, claimed: &mut Claimed, call: &ClaimCall) {
        if claimed.items.len() < call.max_items {
            claimed.has_more |= self.limits.cost.is_cut;
            let suspects = self.suspects.filter(|_| claimed.items.is_empty());
            claimed.limited = self.limits.limited.or(suspects);
        }
    }
}

/// Returns whether the items that the calls ask for always fit, because the types of the columns limit their size.
fn all_fit(queue: &QueueStatements, calls: &[&ClaimCall], max_bytes: usize) -> bool {
    let Some(row) = queue.max_row_bytes else {
        return false;
    };
    let all: usize = calls.iter().map(|call| call.max_items).sum();
    row <= queue.spec.max_leased_bytes()
        && row.saturating_mul(all) <= max_bytes
        && calls
            .iter()
            .all(|call| row.saturating_mul(call.max_items) <= call.max_bytes)
}

/// Returns whether a row is a lease that a call with the same request id has got before.
fn is_again(row: &Row) -> bool {
    let last = row.columns().last();
    last.is_some_and(|column| column.name() == "lb_again")
}

/// Reads an item that is too large for a call. Without a key, the row says that more items may be ready.
fn read_passed_over(
    queue: &QueueStatements,
    row: &Row,
    claimed: &mut Claimed,
) -> Result<(), StoreError> {
    match row.try_get::<i64, _>(1)? {
        None => claimed.has_more = true,
        Some(bytes) => claimed.too_large.push(TooLargeItem {
            key: queue.read_key(row, 2)?,
            size_bytes: usize::try_from(bytes).unwrap_or_default(),
        }),
    }
    Ok(())
}

/// The ways to send a claim. A batch commits before it reads the leases, so an error does not tell whether it has leased
/// items (`claim.sql`).
enum Attempt {
    /// Nothing was sent yet. Only the tokens of calls with a request id can hold leases.
    First,
    /// An error ended the batch, perhaps after its commit. Each call gets the leases of its token, or new ones if there are
    /// none.
    Again,
    /// The connection broke, and the server may still run the batch. Calls without a request id get the leases of their
    /// tokens, and no new ones. If there are none, the claim fails with this error.
    Ask(OperationFailure),
}

impl Attempt {
    /// Returns the next attempt after a failure that allows one.
    fn after(self, failure: OperationFailure) -> Self {
        match self {
            Self::First if !failure.was_sent() => Self::First,
            Self::First if failure.breaks_connection() => Self::Ask(failure),
            Self::First => Self::Again,
            // These batches lock their tokens, so they may run twice.
            locking => locking,
        }
    }

    fn sql<'a>(&self, batches: &'a ClaimBatches, calls: &[&ClaimCall]) -> &'a str {
        let may_hold_leases = |call: &&ClaimCall| call.has_request_id;
        match self {
            Self::First if !calls.iter().any(may_hold_leases) => &batches.new,
            _ => &batches.with_retries,
        }
    }

    /// Returns the parameters that send the calls at `indexes`. `max_bytes` is set if sizes are sent, and then bounds the
    /// items of all calls. `left_out`: the rows that the claim leaves out, if it takes a list of them.
    fn parameters(
        &self,
        calls: &[ClaimCall],
        indexes: &[usize],
        max_bytes: Option<usize>,
        left_out: Option<Vec<ListEntry>>,
    ) -> ListParameters {
        let list = indexes.iter().map(|index| {
            let call = &calls[*index];
            let (wanted, may_hold_leases) = match self {
                Self::First => (call.max_items, call.has_request_id),
                Self::Ask(_) if !call.has_request_id => (0, true),
                Self::Again | Self::Ask(_) => (call.max_items, true),
            };
            let mut entry = ListEntry::default();
            entry.insert("o", json!(index));
            entry.insert("n", json!(wanted));
            entry.insert("w", json!(call.worker));
            entry.insert("t", json!(call.token.to_string()));
            entry.insert("d", json!(millis_rounded_up(call.duration)));
            entry.insert("r", json!(may_hold_leases));
            if call.max_run > 1 {
                entry.insert("x", json!(i32::try_from(call.max_run).unwrap_or(i32::MAX)));
            }
            if let Some(max_bytes) = max_bytes {
                entry.insert("b", json!(to_sql_bytes(call.max_bytes)));
                entry.insert("m", json!(to_sql_bytes(max_bytes)));
            }
            entry
        });
        let mut lists = vec![list.collect()];
        if let [index] = indexes
            && !calls[*index].groups.is_empty()
        {
            lists.push(group_list(&calls[*index].groups));
        }
        lists.extend(left_out);
        ListParameters::new(lists)
    }

    /// Returns the results if they answer every call. Those of `Ask` do if a call without a request id has leases, because
    /// the lost batch has then committed.
    fn check_answered(
        self,
        calls: &[&ClaimCall],
        results: Vec<Vec<Row>>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let Self::Ask(lost) = self else {
            return Ok(results);
        };
        let mut without_id = calls.iter().filter(|call| !call.has_request_id).peekable();
        if without_id.peek().is_none() {
            return Ok(results);
        }
        let tokens: HashSet<Uuid> = without_id.map(|call| call.token).collect();
        let leases = results.iter().flatten();
        for row in leases.filter(|row| decode::is_named(row, "lb_t")) {
            if tokens.contains(&decode::token(row, 0)?) {
                return Ok(results);
            }
        }
        Err(lost.into())
    }
}

/// Returns the parameters of a batch that picks an item as the claim of the call at `index` does.
pub(super) fn parameters_of_one(
    queue: &QueueStatements,
    calls: &[ClaimCall],
    index: usize,
) -> ListParameters {
    let left_out = Some(queue.left_out_list());
    Attempt::First.parameters(calls, &[index], None, left_out)
}

/// Returns the list of the groups that a call names.
fn group_list(groups: &[Key]) -> Vec<ListEntry> {
    let names = groups.iter().enumerate().map(|(number, group)| {
        let mut entry = ListEntry::default();
        entry.insert("n", json!(number));
        entry.insert("g", json!(types::group_text(group)));
        entry
    });
    names.collect()
}

/// Returns a number of bytes that the sums of the batch can add up.
fn to_sql_bytes(bytes: usize) -> i64 {
    i64::try_from(bytes).map_or(1 << 48, |bytes| bytes.min(1 << 48))
}

/// Reads a leased item. The columns are the token, the server's time, the key, fence, attempt, expiry, trace context, the
/// checkpoint if the queue has checkpoints, the queue's data columns, the number of the run if the queue has runs, and the time since
/// which the item was ready.
fn read_item(
    queue: &QueueStatements,
    call: &ClaimCall,
    row: &Row,
) -> Result<ClaimedItem, StoreError> {
    let fence = 2 + queue.key.len();
    let since = row.len().saturating_sub(1);
    let has_runs = queue.spec.max_run() > 1;
    let has_checkpoints = queue.checkpoint.is_some();
    let data =
        fence + 4 + usize::from(has_checkpoints)..since.saturating_sub(usize::from(has_runs));
    if data.len() != queue.columns.len() {
        return Err(decode::unexpected(format!(
            "an item with {} columns",
            row.len()
        )));
    }
    let columns = data.map(|column| types::decode(row.get_column_data(column)?));
    Ok(ClaimedItem {
        lease: LeaseRef {
            key: queue.read_key(row, 2)?,
            token: call.token,
            fence: decode::integer(row, fence)?,
            attempt: decode::attempts(row, fence + 1)?,
        },
        expiry: decode::lease_expiry(row, 1, fence + 2)?,
        ready_time: decode::state_time(row, since)?,
        columns: columns.collect::<Result<_, StoreError>>()?,
        trace_parent: decode::optional_text(row, fence + 3)?,
        checkpoint: if has_checkpoints {
            decode::optional_bytes(row, fence + 4)?
        } else {
            None
        },
        run: if has_runs {
            decode::integer_as(row, since - 1)?
        } else {
            0
        },
    })
}
