//! Leases ready items to claim calls.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use lease_broker_model::key::Key;
use lease_broker_model::millis::millis_rounded_up;
use rusqlite::{CachedStatement, Connection, Row};

use super::epoch;
use super::error::{LeftOut, broken_constraint, unchanged_row};
use super::pause;
use super::queue_statements::QueueStatements;
use super::ready_item::{Picked, ReadyItem, read_leased, read_run};
use super::statement::{Token, bind, bind_key};
use super::suspect_statements::PickStatements;
use super::suspects::{self, WaitingSuspect};
use super::turn::Turn;
use super::walk::{Found, FoundItem, Walk};
use super::writer::WriteContext;
use crate::contract::restore_runs;
use crate::item_size::{FULL_COUNTER_TEXT, too_large_text};
use crate::{
    ClaimCall, Claimed, ClaimedItem, Limited, MAX_PASSED_OVER, MAX_TOO_LARGE, Problem, QueueIndex,
    Rejection, Share, StoreError, TooLargeItem,
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
    let reads_sizes = queue.has_large_items.load(Ordering::Relaxed);
    let reads_twice = context
        .lease_effects
        .reach_data(&context.connection, queue)?;
    let mut statements =
        ClaimStatements::new(context, queue, reads_sizes || reads_twice, left_out)?;
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
        let mut fits = true;
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
            let call = bounded.as_ref().unwrap_or(call);
            let walk = turn.as_mut().and_then(|turn| turn.walk.as_mut());
            let (share, suspect, kept) = if has_suspects {
                statements.choose_share(call, walk.as_deref())?
            } else {
                (Share::All, None, None)
            };
            if share == Share::Nothing {
                results.push(Claimed {
                    is_held_back: true,
                    limited: kept,
                    ..Claimed::default()
                });
                continue;
            }
            let walk = walk.filter(|_| share != Share::Suspect);
            let mut found = statements.find_heads(walk, call, reads_sizes)?;
            if reads_sizes {
                let is_first = room == Some(max_bytes);
                let left = room.unwrap_or_default();
                claimed = statements.claim_within_bytes(call, left, is_first)?;
                none_ready = claimed.items.len() < call.max_items
                    && !claimed.has_more
                    && claimed.too_large.is_empty();
            } else {
                let leased;
                (leased, none_ready) = statements.claim_without_sizes(call)?;
                fits = leased.is_some();
                claimed = leased.unwrap_or_default();
            }
            if let (Some(turn), true) = (&mut turn, fits) {
                none_ready &= !turn.end_call(found.take(), call, &mut claimed)?;
                limited = limited.or(claimed.limited);
            }
            let names_groups = !call.groups.is_empty() && claimed.items.len() < call.max_items;
            if share != Share::All || names_groups {
                (none_ready, claimed.is_held_back) = (false, true);
            }
            claimed.limited = (claimed.limited).or(kept.filter(|_| claimed.items.is_empty()));
            if let (Some(suspect), Some(item)) = (suspect, claimed.items.first()) {
                let lease = (&*call.worker, item.lease.fence);
                suspects::note_lease(&context.connection, queue, &suspect, lease)?;
            }
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
    Ok(results)
}

/// The maximum number of items that one claim makes dead because of their size. SQLite writes the whole row each time.
const MAX_SET_ASIDE: usize = 10;

/// The decision about an item that was visited.
#[derive(PartialEq, Eq)]
enum Visited {
    /// The call leases it.
    Taken,
    /// The call cannot lease it, and goes on.
    PassedOver,
    /// The call looks at no further item.
    Last,
}

/// The runs of a call that have no further items, because one of their items cannot be leased.
#[derive(Default)]
struct EndedRuns(Vec<u32>);

impl EndedRuns {
    fn end(&mut self, run: u32) {
        if run > 0 {
            self.0.push(run);
        }
    }

    fn has(&self, run: u32) -> bool {
        self.0.contains(&run)
    }
}

/// The prepared statements of a claim, kept for all its calls.
struct ClaimStatements<'a> {
    /// The index of the present call.
    call_index: usize,
    /// The items that the database did not let the present call lease, with the reasons.
    refused: Vec<(Key, Problem)>,
    left_out: &'a LeftOut,
    context: &'a WriteContext,
    connection: &'a Connection,
    queue: &'a QueueStatements,
    now: i64,
    /// The fence of the epoch. Every fencing token is greater.
    epoch_fence: i64,
    /// Whether `pick_ready` returns only keys and times.
    picks_keys: bool,
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
        let pick_ready = groups.map_or(&queue.sql.pick_ready, |groups| &groups.read_head);
        let pick_ready = pick_statement(pick_ready, picks_keys);
        Ok(Self {
            call_index: 0,
            refused: Vec::new(),
            left_out,
            context,
            connection: &context.connection,
            queue,
            now: context.now(),
            epoch_fence: epoch::read_fence(&context.connection, &queue.sql.read_fence)?,
            picks_keys,
            heads: None,
            find_retried_leases: statement(&queue.sql.find_retried_leases)?,
            pick_ready: statement(pick_ready)?,
            lease_row: statement(&queue.sql.lease_row)?,
            read_lease: statement(&queue.sql.read_lease)?,
        })
    }

    fn begin_call(&mut self, index: usize) {
        self.call_index = index;
        self.refused.clone_from(&self.left_out());
    }

    fn left_out(&self) -> MutexGuard<'a, Vec<(Key, Problem)>> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result of the present call.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if it gets no item, and the database did not let it lease one. The error has the key of that item.
    fn end_call(&self, claimed: Claimed) -> Result<Claimed, StoreError> {
        let Some((key, problem)) = self.refused.first().filter(|_| claimed.items.is_empty()) else {
            return Ok(claimed);
        };
        let problem = Problem {
            text: format!("item {key} cannot be leased: {}", problem.text),
            ..problem.clone()
        };
        let rejection = Rejection::of_item(self.call_index, None, problem);
        Err(StoreError::Rejected(rejection))
    }

    /// Decides which items the call may lease, and picks from them from now on. Also returns the suspect that the call leases, if it
    /// leases one, and the reason for a call that gets nothing, if suspects are the reason.
    fn choose_share(
        &mut self,
        call: &ClaimCall,
        walk: Option<&Walk<'_>>,
    ) -> Result<(Share, Option<WaitingSuspect>, Option<Limited>), StoreError> {
        let found = suspects::find_share(self.connection, self.queue, call, walk, self.now);
        let (share, suspect) = found?;
        let sql = &self.queue.sql;
        let groups = sql.turn.as_ref().and_then(|turn| turn.groups.as_ref());
        let pick = match (share, groups) {
            (Share::All | Share::Nothing, None) => &sql.pick_ready,
            (Share::All | Share::Nothing, Some(groups)) => &groups.read_head,
            (Share::Others, None) => &sql.suspects.pick_others,
            (Share::Others, Some(groups)) => &groups.read_other_head,
            (Share::Suspect, _) => &sql.suspects.pick_suspect,
        };
        let pick = pick_statement(pick, self.picks_keys);
        self.pick_ready = self.connection.prepare_cached(pick)?;
        let is_kept = share == Share::Nothing || suspect.is_some();
        let suspect = suspect.filter(|_| share == Share::Suspect && call.max_items > 0);
        if let Some(suspect) = &suspect {
            bind_key(&mut self.pick_ready, &suspect.key)?;
        }
        Ok((share, suspect, is_kept.then_some(Limited::Suspects)))
    }

    /// Finds the items from which the present call picks, if it walks over groups.
    fn find_heads(
        &mut self,
        walk: Option<&mut Walk<'_>>,
        call: &ClaimCall,
        reads_sizes: bool,
    ) -> Result<Option<Found>, StoreError> {
        let wanted = wanted_heads(call, reads_sizes);
        let found = walk.map(|walk| walk.find(call, wanted)).transpose()?;
        self.heads = found.as_ref().map(|found| found.items.clone());
        Ok(found)
    }

    /// Returns the leases that an earlier try of this call got.
    fn find_retried_leases(&mut self, call: &ClaimCall) -> Result<Claimed, StoreError> {
        let statement = &mut self.find_retried_leases;
        bind(statement, 4, &[&Token(&call.token), &self.now])?;
        let mut rows = statement.raw_query();
        let mut claimed = Claimed::default();
        while let Some(row) = rows.next()? {
            let mut item = read_leased(self.queue, call, row, self.now)?;
            if self.queue.sql.runs.is_some() {
                item.run = read_run(self.queue, row)?;
            }
            claimed.bytes += self.queue.item_size.of(&item);
            claimed.items.push(item);
        }
        restore_runs(call, &mut claimed.items);
        Ok(claimed)
    }

    /// Returns the first ready items for the call that the database has not refused. `None`: one that was read does not fit.
    fn pick_ready(&mut self, call: &ClaimCall) -> Result<Option<Vec<ReadyItem>>, StoreError> {
        let (queue, now, epoch_fence) = (self.queue, self.now, self.epoch_fence);
        let picks_keys = self.picks_keys;
        let mut items = Vec::new();
        let mut bytes = 0;
        let mut fits = true;
        let refused = std::mem::take(&mut self.refused);
        let limit = call.max_items + refused.len();
        self.visit_ready(limit, &mut |row, run| {
            let mut ready = if picks_keys {
                ReadyItem::read_key(queue, row)?
            } else {
                ReadyItem::read(queue, call, row, now, epoch_fence)?
            };
            if refused.iter().any(|(key, _)| key == ready.key()) {
                return Ok(Visited::PassedOver);
            }
            if let Picked::Item(item) = &ready.picked {
                let size = queue.item_size.of(item);
                bytes += size;
                fits = bytes <= call.max_bytes && size <= queue.spec.max_item_bytes;
            }
            ready.run = run;
            items.push(ready);
            Ok(if fits && items.len() < limit - refused.len() {
                Visited::Taken
            } else {
                Visited::Last
            })
        })?;
        self.refused = refused;
        Ok(fits.then_some(items))
    }

    /// Visits the rows from which the present call picks, up to `limit`, until `visit` returns [`Visited::Last`]. `visit` also gets the
    /// number of the run. The items of a run behind one that cannot be leased are left out.
    fn visit_ready(
        &mut self,
        limit: usize,
        visit: &mut dyn FnMut(&Row<'_>, u32) -> Result<Visited, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(heads) = &self.heads else {
            bind(&mut self.pick_ready, 8, &[&to_sql_limit(limit)])?;
            let mut rows = self.pick_ready.raw_query();
            while let Some(row) = rows.next()? {
                if visit(row, 0)? == Visited::Last {
                    break;
                }
            }
            return Ok(());
        };
        let mut ended = EndedRuns::default();
        for head in heads.iter().take(limit) {
            if ended.has(head.run) {
                continue;
            }
            bind_key(&mut self.pick_ready, &head.key)?;
            let mut rows = self.pick_ready.raw_query();
            let visited = match rows.next()? {
                Some(row) => visit(row, head.run)?,
                None => Visited::PassedOver,
            };
            match visited {
                Visited::Taken => {}
                Visited::PassedOver => ended.end(head.run),
                Visited::Last => break,
            }
        }
        Ok(())
    }

    /// Leases items without a look at their sizes. Returns `None` if one does not fit, and whether no more items are ready.
    fn claim_without_sizes(
        &mut self,
        call: &ClaimCall,
    ) -> Result<(Option<Claimed>, bool), StoreError> {
        let Some(ready) = self.pick_ready(call)? else {
            return Ok((None, false));
        };
        let none_ready = ready.len() < call.max_items;
        Ok((self.lease_rows(call, ready)?, none_ready))
    }

    /// Leases these items to the call. Returns `None` if one does not fit. [`Claimed::has_more`] is set if an item was made
    /// dead instead.
    fn lease_rows(
        &mut self,
        call: &ClaimCall,
        ready: Vec<ReadyItem>,
    ) -> Result<Option<Claimed>, StoreError> {
        let (max_bytes, max_item_bytes) = (call.max_bytes, self.queue.spec.max_item_bytes);
        let item_size = &self.queue.item_size;
        let mut claimed = Claimed {
            items: Vec::with_capacity(ready.len()),
            ..Claimed::default()
        };
        let fits = |claimed: &mut Claimed, item: &ClaimedItem| {
            let size = item_size.of(item);
            claimed.bytes += size;
            claimed.bytes <= max_bytes && size <= max_item_bytes
        };
        let mut next = Some(ready);
        while let Some(ready) = next.take() {
            let refused = self.refused.len();
            if !self.lease_each(call, ready, &mut claimed, fits)? {
                return Ok(None);
            }
            let wanted = call.max_items.saturating_sub(claimed.items.len());
            if wanted > 0 && self.looks_behind(refused) {
                let rest = ClaimCall {
                    max_items: wanted,
                    ..call.clone()
                };
                next = self.pick_ready(&rest)?;
                if next.is_none() {
                    return Ok(None);
                }
            }
        }
        self.end_call(claimed).map(Some)
    }

    /// Leases items one after the other, and leaves out those of a run behind one that was refused, or made dead instead. Ends with
    /// false at the first item that does not fit.
    fn lease_each(
        &mut self,
        call: &ClaimCall,
        ready: Vec<ReadyItem>,
        claimed: &mut Claimed,
        fits: impl Fn(&mut Claimed, &ClaimedItem) -> bool,
    ) -> Result<bool, StoreError> {
        self.bind_call(call)?;
        let mut ended = EndedRuns::default();
        for ready in ready {
            let run = ready.run;
            if ended.has(run) {
                continue;
            }
            let refused = self.refused.len();
            let Some(item) = self.lease_row(call, ready)? else {
                if self.refused.len() == refused {
                    claimed.made_dead += 1;
                    claimed.has_more = true;
                }
                ended.end(run);
                continue;
            };
            if !fits(claimed, &item) {
                return Ok(false);
            }
            claimed.items.push(item);
        }
        Ok(true)
    }

    /// Leases the first ready items that fit into the bytes of the call and into `room`. If `is_first`, the first item may
    /// exceed `room`. At most `max_items` + [`MAX_PASSED_OVER`] items are looked at.
    fn claim_within_bytes(
        &mut self,
        call: &ClaimCall,
        room: usize,
        is_first: bool,
    ) -> Result<Claimed, StoreError> {
        let mut claimed = Claimed::default();
        let (mut fitting, mut oversized) = (Vec::new(), Vec::new());
        let limit = call.max_items + MAX_PASSED_OVER;
        let mut looked_at = 0;
        let (connection, queue) = (self.connection, self.queue);
        let refused = std::mem::take(&mut self.refused);
        // The rows are changed after the query has ended, because it reads the index that the changes write.
        let visited = if call.max_items == 0 { 0 } else { limit };
        self.visit_ready(visited, &mut |row, run| {
            looked_at += 1;
            let ready = ReadyItem {
                run,
                ..ReadyItem::read_key(queue, row)?
            };
            if refused.iter().any(|(key, _)| key == ready.key()) {
                return Ok(Visited::PassedOver);
            }
            let mut is_taken = false;
            let size_bytes = read_size(connection, queue, ready.key())?;
            claimed.has_more = false;
            if size_bytes > queue.spec.max_item_bytes {
                oversized.push((ready.key().clone(), size_bytes));
                claimed.has_more = oversized.len() == MAX_SET_ASIDE;
            } else if size_bytes > call.max_bytes {
                if claimed.too_large.len() < MAX_TOO_LARGE {
                    let key = ready.key().clone();
                    claimed.too_large.push(TooLargeItem { key, size_bytes });
                }
            } else {
                let bytes = claimed.bytes + size_bytes;
                let in_room = bytes <= room || is_first && fitting.is_empty();
                claimed.has_more = bytes > call.max_bytes || !in_room;
                if !claimed.has_more {
                    claimed.bytes = bytes;
                    fitting.push(ready);
                    is_taken = true;
                }
            }
            Ok(match is_taken {
                _ if claimed.has_more || fitting.len() == call.max_items => Visited::Last,
                true => Visited::Taken,
                false => Visited::PassedOver,
            })
        })?;
        claimed.has_more |= looked_at == limit && fitting.len() < call.max_items;
        for (key, size_bytes) in oversized {
            let error = too_large_text(size_bytes, self.queue.spec.max_item_bytes);
            let is_changed = self.set_aside(&self.queue.sql.set_aside, &key, &error)?;
            claimed.made_dead += usize::from(is_changed);
        }
        let known = refused.len();
        self.refused = refused;
        self.lease_each(call, fitting, &mut claimed, |_, _| true)?;
        if claimed.items.is_empty() && self.looks_behind(known) {
            let made_dead = claimed.made_dead;
            let mut behind = self.claim_within_bytes(call, room, is_first)?;
            behind.made_dead += made_dead;
            return Ok(behind);
        }
        self.end_call(claimed)
    }

    /// Returns whether the call gets items behind those that were refused, of which `known` are not new. Refused items stay where they
    /// are. None of the same group may come before them.
    fn looks_behind(&self, known: usize) -> bool {
        self.heads.is_none() && (known + 1..=MAX_PASSED_OVER).contains(&self.refused.len())
    }

    /// Makes an item dead that cannot be leased, with a section of `claim.sql`. Returns whether the section has changed it.
    fn set_aside(&self, sql: &str, key: &Key, error: &str) -> Result<bool, StoreError> {
        let null = rusqlite::types::Null;
        let values: &[&dyn rusqlite::ToSql] = &[&null, &self.now, &null, &null, &null, &error];
        let mut statement = self.connection.prepare_cached(sql)?;
        bind(&mut statement, 4, values)?;
        bind_key(&mut statement, key)?;
        Ok(statement.raw_execute()? > 0)
    }

    /// Binds the parameters of `lease_row` that all rows of a call have.
    fn bind_call(&mut self, call: &ClaimCall) -> Result<(), StoreError> {
        let expiry = self.now.saturating_add(millis_rounded_up(call.duration));
        let null = rusqlite::types::Null;
        let (token, fence) = (Token(&call.token), &self.epoch_fence);
        let values: &[&dyn rusqlite::ToSql] = &[
            &token,
            &self.now,
            &expiry,
            &call.worker,
            &null,
            &null,
            fence,
        ];
        bind(&mut self.lease_row, 4, values)?;
        Ok(())
    }

    /// Leases one row, and reads it if it was not read yet. Returns `None` if the database refuses the lease, or if a counter of the
    /// row is full. With a full counter the item is then dead.
    fn lease_row(
        &mut self,
        call: &ClaimCall,
        ready: ReadyItem,
    ) -> Result<Option<ClaimedItem>, StoreError> {
        bind_key(&mut self.lease_row, ready.key())?;
        let leased = match self.lease_row.raw_execute() {
            Ok(changed) => changed > 0,
            Err(error) => {
                self.note_refusal(ready.key(), error)?;
                return Ok(None);
            }
        };
        let run = ready.run;
        let key = match ready.picked {
            Picked::Item(item) if leased => return Ok(Some(ClaimedItem { run, ..item })),
            Picked::Item(item) => item.lease.key,
            Picked::Key(key) => key,
        };
        if leased {
            bind_key(&mut self.read_lease, &key)?;
            let mut rows = self.read_lease.raw_query();
            if let Some(row) = rows.next()? {
                let mut item = read_leased(self.queue, call, row, self.now)?;
                (item.ready_time, item.run) = (ready.ready_time, run);
                return Ok(Some(item));
            }
        }
        if self.set_aside(&self.queue.sql.set_full_aside, &key, FULL_COUNTER_TEXT)? {
            return Ok(None);
        }
        self.pass_over(&key, unchanged_row());
        Ok(None)
    }
}

impl ClaimStatements<'_> {
    /// Notes a row that a constraint or a trigger did not let the present call lease.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] for the present call if the row shows the worker's id, which a constraint can have refused, or if a
    /// trigger has rolled the transaction back. In the latter case the operation runs again without the row. The given error if it is of
    /// another kind.
    fn note_refusal(&mut self, key: &Key, error: rusqlite::Error) -> Result<(), StoreError> {
        let Some(problem) = broken_constraint(&error) else {
            return Err(error.into());
        };
        let is_rolled_back = self.connection.is_autocommit();
        if !is_rolled_back && !self.queue.spec.shows_worker() {
            self.pass_over(key, problem);
            return Ok(());
        }
        let mut left_out = self.left_out();
        if is_rolled_back && left_out.len() < MAX_PASSED_OVER {
            self.warn(key, &problem);
            left_out.push((key.clone(), problem.clone()));
            self.context.run_again();
        }
        let rejection = Rejection::of_item(self.call_index, None, problem);
        Err(StoreError::Rejected(rejection))
    }

    fn pass_over(&mut self, key: &Key, problem: Problem) {
        self.warn(key, &problem);
        self.refused.push((key.clone(), problem));
    }

    fn warn(&self, key: &Key, problem: &Problem) {
        tracing::warn!(
            queue = self.queue.spec.name,
            %key,
            problem = problem.text,
            "item passed over: a constraint or a trigger refuses the lease"
        );
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

fn to_sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Returns the size of an item before it is leased. 0 bytes of data if there is no such row: `lease_row` reports that.
fn read_size(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(&queue.sql.read_size)?;
    bind_key(&mut statement, key)?;
    let mut rows = statement.raw_query();
    let bytes: i64 = match rows.next()? {
        Some(row) => row.get(0)?,
        None => 0,
    };
    let bytes = usize::try_from(bytes).unwrap_or_default();
    Ok(queue.item_size.of_stored(key, bytes))
}
