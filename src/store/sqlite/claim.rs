//! Leases ready items to claim calls.
//!
//! `claim/rows.rs` visits the rows and leases those that fit. `claim/refusal.rs` notes those that the database does not let a claim lease.

mod refusal;
mod rows;

use std::sync::atomic::Ordering;

use lease_broker_model::key::Key;
use rusqlite::{CachedStatement, Connection};

use super::epoch;
use super::left_out::LeftOut;
use super::pause;
use super::queue_statements::QueueStatements;
use super::statement::bind_key;
use super::suspect_statements::PickStatements;
use super::suspects::{self, Choice};
use super::turn::Turn;
use super::undone_by::UndoneBy;
use super::walk::{Found, FoundItem, Walk};
use super::write_context::WriteContext;
use crate::{
    ClaimCall, Claimed, ClaimedItem, Limited, MAX_PASSED_OVER, MAX_TOO_LARGE, Problem, QueueIndex,
    Rejection, Share, StoreError,
};

/// Serves claim calls one after the other. See [`Leases::claim`](crate::Leases::claim).
///
/// Items are leased without a look at their sizes until one does not fit. The transaction is then rolled back, and the
/// operation runs again with sizes.
pub(super) fn claim(
    context: &WriteContext,
    queue: QueueIndex,
    calls: &[ClaimCall],
    max_bytes: usize,
    left_out: &LeftOut,
) -> Result<Vec<Claimed>, StoreError> {
    let queue = context.queue(queue)?;
    // A row that is committed cannot be undone because it does not fit.
    let reads_sizes = queue.has_large_items.load(Ordering::Relaxed) || left_out.commits_rows();
    let effects = context.lease_effects.of(&context.connection, queue)?;
    let picks_keys = reads_sizes || effects.reach_data;
    let mut statements = ClaimStatements::new(context, queue, picks_keys, left_out)?;
    statements.undone_by = effects.undone_by();
    let is_paused = pause::is_held(&context.connection, &queue.spec.name, statements.now)?;
    let has_suspects = suspects::has_any(&context.connection, queue)?;
    let mut turn = Turn::begin(&context.connection, queue, calls, statements.now)?;
    // Why the calls after the present one get nothing, if groups or limits are the reason.
    let mut limited = None;
    // No more items are ready. The remaining calls skip the query.
    let mut none_ready = false;
    let mut room = Some(max_bytes);
    let mut retried_bytes = 0;
    let mut results = Vec::with_capacity(calls.len());
    for (index, call) in calls.iter().enumerate() {
        statements.begin_call(index);
        let mut claimed = Claimed::default();
        if call.has_request_id && retried_bytes < max_bytes {
            claimed = statements.find_retried_leases(call)?;
            retried_bytes += claimed.bytes;
        } else if call.has_request_id {
            // The call may hold leases. The next operation returns them.
            claimed.has_more = true;
            results.push(claimed);
            continue;
        }
        let bounded = turn.as_ref().map(|turn| turn.bound(call));
        if claimed.items.is_empty() && is_paused {
            claimed.is_paused = true;
        } else if let Some(limit) = turn.as_ref().and_then(|turn| turn.allowance.exhausted())
            && claimed.items.is_empty()
        {
            claimed.limited = Some(limit);
        } else if claimed.items.is_empty() && none_ready {
            claimed.limited = limited;
        } else if claimed.items.is_empty() {
            let bytes = Bytes {
                are_read: reads_sizes,
                room: room.unwrap_or_default(),
                is_first: room == Some(max_bytes),
            };
            let bounded = bounded.as_ref().unwrap_or(call);
            let served = statements.serve(bounded, turn.as_mut(), has_suspects, bytes)?;
            let fits = served.is_some();
            let served = served.unwrap_or_default();
            (claimed, none_ready) = (served.claimed, served.none_ready);
            let of_groups = claimed.limited.filter(|limit| *limit != Limited::Suspects);
            limited = limited.or(of_groups);
            let is_full = claimed.items.len() == call.max_items;
            let limit = turn.as_ref().and_then(|turn| turn.allowance.exhausted());
            claimed.limited = claimed.limited.or(limit.filter(|_| !is_full));
            room = room.and_then(|room| room.checked_sub(claimed.bytes));
            if !reads_sizes && (room.is_none() || !fits) {
                queue.has_large_items.store(true, Ordering::Relaxed);
                context.run_again();
                return Err(StoreError::Bug(
                    "a claim that exceeded its bytes was not run again".to_owned(),
                ));
            }
        }
        results.push(claimed);
    }
    if let Some(turn) = turn {
        turn.end()?;
    }
    if effects.run_triggers {
        for (call, claimed) in calls.iter().zip(&mut results) {
            statements.read_again(call, claimed)?;
        }
    }
    Ok(results)
}

/// The bytes that a call may lease.
#[derive(Clone, Copy)]
struct Bytes {
    /// Whether the sizes of items are read before they are leased.
    are_read: bool,
    /// The bytes that are left for the calls of the operation.
    room: usize,
    /// Whether the first item may exceed `room`.
    is_first: bool,
}

/// The result of a call whose token held no leases.
#[derive(Default)]
struct Served {
    claimed: Claimed,
    /// No more items are ready for the calls behind it.
    none_ready: bool,
}

/// The prepared statements of a claim, kept for all its calls.
struct ClaimStatements<'a> {
    /// The index of the present call.
    call_index: usize,
    /// The items that the database did not let the present call lease, with the reasons.
    refused: Vec<(Key, Problem)>,
    /// Those of them whose lease a trigger has ended. Its other changes stay, so such an item does not fail the call.
    ended: Vec<Key>,
    left_out: &'a LeftOut,
    context: &'a WriteContext,
    connection: &'a Connection,
    queue: &'a QueueStatements,
    now: i64,
    /// The fence of the epoch. Every fencing token is greater.
    epoch_fence: i64,
    /// Whether `pick_ready` returns only keys and times.
    picks_keys: bool,
    /// The part that undoes the lease of a row that refuses it, or that cannot be read.
    undone_by: UndoneBy,
    /// The items from which the present call picks, if a walk over groups has found them.
    heads: Option<Vec<FoundItem>>,
    find_retried_leases: CachedStatement<'a>,
    pick_ready: CachedStatement<'a>,
    lease_row: CachedStatement<'a>,
    read_lease: CachedStatement<'a>,
}

impl<'a> ClaimStatements<'a> {
    fn new(
        context: &'a WriteContext,
        queue: &'a QueueStatements,
        picks_keys: bool,
        left_out: &'a LeftOut,
    ) -> Result<Self, StoreError> {
        let statement = |sql: &str| context.connection.prepare_cached(sql);
        let groups = queue
            .sql
            .turn
            .as_ref()
            .and_then(|turn| turn.groups.as_ref());
        let pick_ready = groups.map_or(&queue.sql.pick_ready, |groups| &groups.all.read_head);
        let pick_ready = pick_statement(pick_ready, picks_keys);
        Ok(Self {
            call_index: 0,
            refused: Vec::new(),
            ended: Vec::new(),
            left_out,
            context,
            connection: &context.connection,
            queue,
            now: context.now(),
            epoch_fence: epoch::read_fence(&context.connection, &queue.sql.read_fence)?,
            picks_keys,
            undone_by: UndoneBy::Savepoint,
            heads: None,
            find_retried_leases: statement(&queue.sql.find_retried_leases)?,
            pick_ready: statement(pick_ready)?,
            lease_row: statement(&queue.sql.lease_row)?,
            read_lease: statement(&queue.sql.read_lease)?,
        })
    }

    fn begin_call(&mut self, index: usize) {
        self.call_index = index;
        self.refused.clone_from(&self.left_out.rows());
        self.ended.clear();
    }

    /// Returns the result of the present call.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if it gets no item, and the database did not let it lease one. The error has the key of that item.
    fn end_call(&self, served: Served) -> Result<Served, StoreError> {
        if !served.claimed.items.is_empty() {
            self.warn_of_other_than_worker();
            return Ok(served);
        }
        let mut refused = self.refused.iter();
        let Some((key, problem)) = refused.find(|(key, _)| !self.ended.contains(key)) else {
            return Ok(served);
        };
        if self.left_out.has_committed() {
            // The rows of other calls are leased already, so the operation must not fail.
            return Ok(served);
        }
        let problem = Problem {
            text: format!("item {key} cannot be leased: {}", problem.text),
            ..problem.clone()
        };
        let rejection = Rejection::of_item(self.call_index, None, problem);
        Err(StoreError::Rejected(rejection))
    }

    /// Leases items to a call whose token holds no leases. `None`: an item that was leased without a look at its size does not fit.
    ///
    /// A suspect that the database does not let the call lease is no suspect any more, because no worker can get it.
    fn serve(
        &mut self,
        call: &ClaimCall,
        mut turn: Option<&mut Turn<'_>>,
        has_suspects: bool,
        bytes: Bytes,
    ) -> Result<Option<Served>, StoreError> {
        loop {
            let walk = turn.as_ref().and_then(|turn| turn.walk.as_ref());
            let choice = if has_suspects {
                self.choose_share(call, walk)?
            } else {
                Choice::of(Share::All)
            };
            let share = choice.share;
            let mut served = Served::default();
            if share != Share::Nothing {
                let by_share = self.serve_share(call, turn.as_deref_mut(), &choice, bytes)?;
                let Some(by_share) = by_share else {
                    return Ok(None);
                };
                served = by_share;
            }
            let claimed = &mut served.claimed;
            let names_groups = !call.groups.is_empty() && claimed.items.len() < call.max_items;
            if share != Share::All || names_groups {
                (served.none_ready, claimed.is_held_back) = (false, true);
            }
            let (connection, queue) = (self.connection, self.queue);
            if let Some(suspect) = choice.suspect.filter(|_| share == Share::Suspect) {
                if let Some(item) = claimed.items.first() {
                    let lease = (&*call.worker, item.lease.fence);
                    suspects::note_lease(connection, queue, &suspect, lease)?;
                } else if self.refused.iter().any(|(key, _)| *key == suspect.key) {
                    suspects::remove(connection, queue, &suspect)?;
                    continue;
                }
            }
            let kept = choice.kept.filter(|_| claimed.items.is_empty());
            claimed.limited = claimed.limited.or(kept);
            let others = std::mem::replace(&mut claimed.too_large, choice.too_large);
            claimed.too_large.extend(others);
            claimed.too_large.truncate(MAX_TOO_LARGE);
            return self.end_call(served).map(Some);
        }
    }

    /// Leases the items of a share. Those that the database refuses stay where they are. The call gets the items behind them, but none of
    /// the same group.
    fn serve_share(
        &mut self,
        call: &ClaimCall,
        mut turn: Option<&mut Turn<'_>>,
        choice: &Choice,
        bytes: Bytes,
    ) -> Result<Option<Served>, StoreError> {
        let share = choice.share;
        let mut served = Served::default();
        let most_refused = self.refused.len() + MAX_PASSED_OVER;
        loop {
            let (leased, refused) = (served.claimed.items.len(), self.refused.len());
            served.claimed.has_more = false;
            let rest = ClaimCall {
                max_items: call.max_items - leased,
                ..call.clone()
            };
            let walk = turn.as_mut().and_then(|turn| turn.walk.as_mut());
            let walk = walk.filter(|_| share != Share::Suspect);
            let mut found = self.find_heads(walk, &rest, share, bytes.are_read)?;
            if let Some(found) = &mut found {
                found.has_busy_group |= choice.has_busy_group;
            }
            let claimed = &mut served.claimed;
            served.none_ready = if bytes.are_read {
                self.claim_within_bytes(&rest, bytes, claimed)?;
                claimed.items.len() < call.max_items
                    && !claimed.has_more
                    && claimed.too_large.is_empty()
            } else {
                let Some(none_ready) = self.claim_without_sizes(&rest, claimed)? else {
                    return Ok(None);
                };
                none_ready
            };
            number_runs(&mut claimed.items, leased);
            if let Some(turn) = turn.as_deref_mut() {
                let walks = found.is_some();
                served.none_ready &= !turn.end_call(found, &rest, claimed, leased)?;
                // The groups of these items can have more, which they hold back now. The next call learns it from its walk.
                served.none_ready &= !walks || claimed.items.is_empty();
            }
            let is_over = claimed.items.len() >= call.max_items || share == Share::Suspect;
            if is_over || self.refused.len() == refused || self.refused.len() > most_refused {
                return Ok(Some(served));
            }
        }
    }

    /// Decides which items the call may lease, and picks from them from now on.
    fn choose_share(
        &mut self,
        call: &ClaimCall,
        walk: Option<&Walk<'_>>,
    ) -> Result<Choice, StoreError> {
        let choice = suspects::choose_share(self.connection, self.queue, call, walk, self.now)?;
        let sql = &self.queue.sql;
        let groups = sql.turn.as_ref().and_then(|turn| turn.groups.as_ref());
        let pick = match (choice.share, groups) {
            (Share::All | Share::Nothing, None) => &sql.pick_ready,
            (Share::All | Share::Nothing, Some(groups)) => &groups.all.read_head,
            (Share::Others, None) => &sql.suspects.pick_others,
            (Share::Others, Some(groups)) => &groups.others.read_head,
            (Share::Suspect, _) => &sql.suspects.pick_suspect,
        };
        let pick = pick_statement(pick, self.picks_keys);
        self.pick_ready = self.connection.prepare_cached(pick)?;
        if let (Share::Suspect, Some(suspect), 1..) =
            (choice.share, &choice.suspect, call.max_items)
        {
            bind_key(&mut self.pick_ready, &suspect.key)?;
        }
        Ok(choice)
    }

    /// Finds the items from which the present call picks, if it walks over groups.
    fn find_heads(
        &mut self,
        walk: Option<&mut Walk<'_>>,
        call: &ClaimCall,
        share: Share,
        reads_sizes: bool,
    ) -> Result<Option<Found>, StoreError> {
        let wanted = wanted_heads(call, reads_sizes);
        let refused = self.refused.iter().map(|(key, _)| key.clone());
        let find = |walk: &mut Walk<'_>| walk.find(call, wanted, share, refused.collect());
        let found = walk.map(find).transpose()?;
        self.heads = found.as_ref().map(|found| found.items.clone());
        Ok(found)
    }
}

/// Returns the number of items that a walk looks for. A claim that reads sizes can pass over some.
fn wanted_heads(call: &ClaimCall, reads_sizes: bool) -> usize {
    match call.max_items {
        0 => 0,
        max if reads_sizes => max + MAX_PASSED_OVER,
        max => max,
    }
}

fn pick_statement(statements: &PickStatements, picks_keys: bool) -> &str {
    if picks_keys {
        &statements.keys
    } else {
        &statements.items
    }
}

/// Numbers the runs of the items from `first` on after those before them.
fn number_runs(items: &mut [ClaimedItem], first: usize) {
    let (before, new) = items.split_at_mut(first);
    let last = before.iter().map(|item| item.run).max().unwrap_or(0);
    for item in new.iter_mut().filter(|item| item.run > 0) {
        item.run += last;
    }
}
