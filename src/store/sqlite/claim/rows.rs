//! The rows of a claim: visits those that are ready, and leases those that fit.

use lease_broker_model::key::Key;
use rusqlite::Row;

use super::{Bytes, ClaimStatements};
use crate::contract::{due_after, restore_runs};
use crate::item_size::{FULL_COUNTER_TEXT, set_aside_text};
use crate::sqlite::error::{ended_lease, unchanged_row};
use crate::sqlite::ready_item::{Picked, ReadyItem, read_expiry, read_leased, read_run, read_size};
use crate::sqlite::row_error::{RowError, change_row};
use crate::sqlite::statement::{Token, bind, bind_key};
use crate::{
    ClaimCall, Claimed, ClaimedItem, MAX_PASSED_OVER, MAX_TOO_LARGE, Rejection, StoreError,
    TooLargeItem,
};

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

/// The result of the statement that leases a row.
enum Leased {
    Item(ClaimedItem),
    /// The statement has changed no row.
    Unchanged,
    /// A trigger has ended the lease in the same statement.
    Ended,
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

impl ClaimStatements<'_> {
    /// Returns the leases that an earlier try of this call got.
    pub(super) fn find_retried_leases(&mut self, call: &ClaimCall) -> Result<Claimed, StoreError> {
        let statement = &mut self.find_retried_leases;
        bind(statement, 4, &[&Token(&call.token), &self.now])?;
        let mut rows = statement.raw_query();
        let mut claimed = Claimed::default();
        let failure = loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break None,
                Err(failure) => break Some(failure),
            };
            let mut item = read_leased(self.queue, call, row, self.now)?;
            if self.queue.sql.runs.is_some() {
                item.run = read_run(self.queue, row)?;
            }
            claimed.bytes += self.queue.item_size.of(&item);
            claimed.items.push(item);
        };
        drop(rows);
        if let Some(failure) = failure {
            // A row cannot be read any more. It concerns this call alone.
            let statement = &self.find_retried_leases;
            let problem = match RowError::new(self.connection, statement, &failure) {
                RowError::Refused(problem) => problem,
                RowError::Store(error) => return Err(error),
            };
            let rejection = Rejection::of_item(self.call_index, None, problem);
            return Err(StoreError::Rejected(rejection));
        }
        claimed.is_repeated = !claimed.items.is_empty();
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
                fits = bytes <= call.max_bytes && size <= queue.spec.max_leased_bytes();
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

    /// Leases items without a look at their sizes. Returns whether no more items are ready, or `None` if one does not fit.
    /// [`Claimed::has_more`] is set if an item was made dead instead.
    pub(super) fn claim_without_sizes(
        &mut self,
        call: &ClaimCall,
        claimed: &mut Claimed,
    ) -> Result<Option<bool>, StoreError> {
        let Some(ready) = self.pick_ready(call)? else {
            return Ok(None);
        };
        let none_ready = ready.len() < call.max_items;
        let (max_bytes, max_item_bytes) = (call.max_bytes, self.queue.spec.max_leased_bytes());
        let item_size = &self.queue.item_size;
        claimed.items.reserve(ready.len());
        let fits = |claimed: &mut Claimed, item: &ClaimedItem| {
            let size = item_size.of(item);
            claimed.bytes += size;
            claimed.bytes <= max_bytes && size <= max_item_bytes
        };
        let all_fit = self.lease_each(call, ready, claimed, fits)?;
        Ok(all_fit.then_some(none_ready))
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

    /// Leases the first ready items that fit into the bytes of the call and into the room. At most `max_items` + [`MAX_PASSED_OVER`]
    /// items are looked at. `claimed` has the items that the call got before.
    pub(super) fn claim_within_bytes(
        &mut self,
        call: &ClaimCall,
        bytes: Bytes,
        claimed: &mut Claimed,
    ) -> Result<(), StoreError> {
        let is_first = bytes.is_first && claimed.items.is_empty();
        let (mut fitting, mut oversized) = (Vec::new(), Vec::new());
        let limit = call.max_items + MAX_PASSED_OVER;
        let mut looked_at = 0;
        let (connection, queue) = (self.connection, self.queue);
        let refused = std::mem::take(&mut self.refused);
        // The rows are changed after the query has ended, because it reads the index that the changes write.
        let visited = match call.max_items {
            0 => 0,
            _ => limit + refused.len(),
        };
        self.visit_ready(visited, &mut |row, run| {
            let ready = ReadyItem {
                run,
                ..ReadyItem::read_key(queue, row)?
            };
            if refused.iter().any(|(key, _)| key == ready.key()) {
                return Ok(Visited::PassedOver);
            }
            looked_at += 1;
            let mut is_taken = false;
            let size_bytes = read_size(connection, queue, ready.key())?;
            claimed.has_more = false;
            if size_bytes > queue.spec.max_leased_bytes() {
                oversized.push((ready.key().clone(), size_bytes));
                claimed.has_more = oversized.len() == MAX_SET_ASIDE;
            } else if size_bytes > call.max_bytes {
                let key = ready.key();
                let is_new = claimed.too_large.iter().all(|other| other.key != *key);
                if is_new && claimed.too_large.len() < MAX_TOO_LARGE {
                    let key = key.clone();
                    claimed.too_large.push(TooLargeItem { key, size_bytes });
                }
            } else {
                let sum = claimed.bytes + size_bytes;
                let in_room = sum <= bytes.room || is_first && fitting.is_empty();
                claimed.has_more = sum > call.max_bytes || !in_room;
                if !claimed.has_more {
                    claimed.bytes = sum;
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
        self.refused = refused;
        for (key, size_bytes) in oversized {
            let error = format!("the item has {size_bytes} {}", set_aside_text(&queue.spec));
            let is_changed = self.set_aside(&queue.sql.set_aside, &key, &error)?;
            claimed.made_dead += usize::from(is_changed == Some(true));
        }
        let first_refused = self.refused.len();
        self.lease_each(call, fitting, claimed, |_, _| true)?;
        for (key, _) in &self.refused[first_refused..] {
            claimed.bytes -= read_size(connection, queue, key)?;
        }
        Ok(())
    }

    /// Makes an item dead that cannot be leased, with a section of `claim.sql`. Returns whether the section has changed it, or `None`
    /// if the database refuses that too.
    fn set_aside(&mut self, sql: &str, key: &Key, error: &str) -> Result<Option<bool>, StoreError> {
        let null = rusqlite::types::Null;
        let values: &[&dyn rusqlite::ToSql] = &[&null, &self.now, &null, &null, &null, &error];
        let connection = self.connection;
        let mut statement = connection.prepare_cached(sql)?;
        bind(&mut statement, 4, values)?;
        bind_key(&mut statement, key)?;
        let changed = self.left_out.change(self.context, key, self.undone_by, || {
            change_row(connection, &mut statement)
        });
        let changed = self.unless_refused(key, changed)?;
        Ok(changed.map(|rows| rows > 0))
    }

    /// Binds the parameters of `lease_row` that all rows of a call have.
    fn bind_call(&mut self, call: &ClaimCall) -> Result<(), StoreError> {
        let expiry = due_after(self.now, call.duration);
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
        let key = ready.key().clone();
        let (left_out, context) = (self.left_out, self.context);
        let leased = left_out.change(context, &key, self.undone_by, || {
            self.change_and_read(call, ready)
        });
        match self.unless_refused(&key, leased)? {
            None => return Ok(None),
            Some(Leased::Item(item)) => return Ok(Some(item)),
            Some(Leased::Unchanged) => {
                let set_full_aside = &self.queue.sql.set_full_aside;
                if self.set_aside(set_full_aside, &key, FULL_COUNTER_TEXT)? == Some(false) {
                    self.pass_over(&key, unchanged_row());
                }
            }
            Some(Leased::Ended) => {
                self.pass_over(&key, ended_lease());
                self.ended.push(key);
            }
        }
        Ok(None)
    }

    fn change_and_read(&mut self, call: &ClaimCall, ready: ReadyItem) -> Result<Leased, RowError> {
        bind_key(&mut self.lease_row, ready.key())?;
        if change_row(self.connection, &mut self.lease_row)? == 0 {
            return Ok(Leased::Unchanged);
        }
        let run = ready.run;
        let key = match ready.picked {
            Picked::Item(item) => return Ok(Leased::Item(ClaimedItem { run, ..item })),
            Picked::Key(key) => key,
        };
        bind_key(&mut self.read_lease, &key)?;
        bind(&mut self.read_lease, 4, &[&Token(&call.token)])?;
        let mut rows = self.read_lease.raw_query();
        let failure = match rows.next() {
            Ok(None) => return Ok(Leased::Ended),
            Ok(Some(row)) => {
                let mut item = read_leased(self.queue, call, row, self.now)?;
                (item.ready_time, item.run) = (ready.ready_time, run);
                return Ok(Leased::Item(item));
            }
            Err(failure) => failure,
        };
        drop(rows);
        let error = RowError::new(self.connection, &self.read_lease, &failure);
        Err(error)
    }

    /// Reads the leases once more, which a trigger can have changed when another row was leased. Withholds the items whose leases have ended.
    pub(super) fn read_again(
        &mut self,
        call: &ClaimCall,
        claimed: &mut Claimed,
    ) -> Result<(), StoreError> {
        bind(&mut self.read_lease, 4, &[&Token(&call.token)])?;
        for mut item in std::mem::take(&mut claimed.items) {
            bind_key(&mut self.read_lease, &item.lease.key)?;
            if let Some(row) = self.read_lease.raw_query().next()? {
                item.expiry = read_expiry(self.queue, row, self.now)?;
                claimed.items.push(item);
            }
        }
        Ok(())
    }
}

fn to_sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
