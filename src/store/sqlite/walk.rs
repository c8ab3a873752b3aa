//! A walk over the groups of a queue. It finds items that a claim may lease, one group after the other.
//!
//! The walk begins behind the group that had the last turn and ends when it has found enough, or when a round is over. A group takes
//! part if its items can be leased: `sql/sqlite/groups.sql` has the conditions. Rows without a group come at the end of each round, and
//! have one turn together. If a claim looks at many groups without success, it leaves the round, and the next claim goes on with it.

use std::ops::Range;
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_value::Value;
use rusqlite::{Connection, Row, ToSql};

use super::column_value::{Stored, read};
use super::group_pause::group_value;
use super::group_rates::GroupRates;
use super::queue_statements::QueueStatements;
use super::statement::{bind, bind_key};
use super::turn_statements::{GroupStatements, WalkStatements};
use crate::turn::distribute;
use crate::{ClaimCall, Share, StoreError};

/// The state of a walk. It is stored in the row of the queue between two claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WalkPosition {
    /// The group that had the last turn. NULL: a round begins with the first group.
    pub(super) turn: Value,
    /// The group with which a round ends that an earlier claim has left. NULL: there is no such round.
    pub(super) round_start: Value,
    /// Whether that round has begun again with the first group.
    pub(super) wrapped: bool,
}

/// The limits of groups, other than those of their items: leases, pauses and rates.
pub(super) struct GroupLimits<'a> {
    /// The maximum number of leases of a group. 0: any number. Without effect in strict groups.
    pub(super) max_leases: i64,
    /// Whether groups can have more leases than that while no other group can give an item.
    pub(super) bursts: bool,
    /// Whether operators have paused groups of the queue.
    pub(super) has_paused: bool,
    /// `None`: groups have no rate.
    pub(super) rates: Option<GroupRates<'a>>,
}

/// A walk of one claim.
pub(super) struct Walk<'a> {
    connection: &'a Connection,
    queue: &'a QueueStatements,
    sql: &'a GroupStatements,
    limits: GroupLimits<'a>,
    /// The items that the present call may lease.
    share: Share,
    /// The items that the database did not let the present call lease. Their groups give it nothing.
    refused: Vec<Key>,
    /// The maximum number of items of a run of the present call.
    max_run: usize,
    /// The number of items of groups with a rate that were given out.
    given: usize,
    pub(super) position: WalkPosition,
    visits_left: usize,
    pub(super) visits: usize,
}

/// The items that a walk has found.
pub(super) struct Found {
    /// The items, in the order in which they are leased.
    pub(super) items: Vec<FoundItem>,
    /// The groups whose turn it was.
    groups: Vec<Value>,
    /// The position if all items are leased. `None`: the claim takes no turn, so the position stays.
    end: Option<WalkPosition>,
    /// Whether a whole round was looked at. If fewer items than wanted were found, there are no more.
    pub(super) is_round_over: bool,
    /// Whether a group was held back.
    pub(super) has_busy_group: bool,
    /// The shortest wait of the groups that their rate held back.
    pub(super) wait: Option<Duration>,
}

/// An item that a walk has found.
#[derive(Clone)]
pub(super) struct FoundItem {
    pub(super) key: Key,
    /// The number of its run. 0: it is in none. It is leased only if the items of the run before it are.
    pub(super) run: u32,
    /// The index of the group whose turn is over with the item.
    turn: usize,
}

impl FoundItem {
    /// Returns an item that comes after the turns of all groups.
    const fn without_turn(key: Key) -> Self {
        Self {
            key,
            run: 0,
            turn: usize::MAX,
        }
    }
}

/// Whether a call may lease an item, as far as its group is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Free,
    /// The group holds the item back.
    HeldBack,
    /// The call asks for items of other groups.
    NotAskedFor,
}

/// A group that can give items.
struct Candidate {
    /// NULL: rows without a group.
    group: Value,
    head: Key,
    /// The items behind the head that belong to its run.
    run: Vec<Key>,
    room: Room,
}

impl Candidate {
    fn new(visit: Visit, room: Room) -> Self {
        Self {
            group: visit.group,
            head: visit.head,
            run: Vec::new(),
            room,
        }
    }

    /// Returns the head and the items of its run.
    fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.head).chain(&self.run)
    }

    fn len(&self) -> usize {
        1 + self.run.len()
    }
}

/// The numbers of items that may be leased of a group.
#[derive(Clone, Copy)]
struct Room {
    within_limit: usize,
    /// As long as no other group can give an item. At least `within_limit`.
    with_burst: usize,
}

impl Room {
    const fn of(size: usize) -> Self {
        Self {
            within_limit: size,
            with_burst: size,
        }
    }

    fn at_most(self, most: usize) -> Self {
        Self {
            within_limit: self.within_limit.min(most),
            with_burst: self.with_burst.min(most),
        }
    }

    const fn within_limit(self) -> Range<usize> {
        0..self.within_limit
    }

    const fn beyond_limit(self) -> Range<usize> {
        self.within_limit..self.with_burst
    }
}

/// The result of a visit: the group, its first ready item and its block.
struct Visit {
    group: Value,
    head: Key,
    block: i64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        queue: &'a QueueStatements,
        sql: &'a GroupStatements,
        (position, limits): (WalkPosition, GroupLimits<'a>),
        max_visits: usize,
    ) -> Self {
        Self {
            connection,
            queue,
            sql,
            limits,
            share: Share::All,
            refused: Vec::new(),
            max_run: 1,
            given: 0,
            position,
            visits_left: max_visits,
            visits: 0,
        }
    }

    /// Finds up to `wanted` items for a call, and none of the groups of the items that it was refused. The position of the walk stays as
    /// it is until [`Self::finish`].
    pub(super) fn find(
        &mut self,
        call: &ClaimCall,
        wanted: usize,
        share: Share,
        refused: Vec<Key>,
    ) -> Result<Found, StoreError> {
        (self.share, self.refused) = (share, refused);
        self.max_run = call.max_run.min(self.queue.spec.max_run()).max(1);
        if call.groups.is_empty() {
            self.find_in_turn(wanted)
        } else {
            self.find_among(&call.groups, wanted)
        }
    }

    /// Finds up to `wanted` items of these groups. All of them are looked at, and no other group loses its turn.
    fn find_among(&mut self, groups: &[Key], wanted: usize) -> Result<Found, StoreError> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let (mut found, mut has_busy_group) = (0, false);
        for group in groups {
            if found >= wanted {
                break;
            }
            self.visits += 1;
            let group = group_value(group);
            let Some(visit) = self.visit(&self.picks().visit_one, &group, &Value::Null)? else {
                continue;
            };
            // Two values can name the same group.
            if candidates.iter().any(|other| other.head == visit.head) {
                continue;
            }
            match self.room(&visit)? {
                Room {
                    within_limit: 0, ..
                } => has_busy_group = true,
                _ if self.is_kept(&visit.head)? => {}
                room => {
                    let candidate = self.candidate(visit, room, wanted - found)?;
                    found += candidate.len();
                    candidates.push(candidate);
                }
            }
        }
        Ok(Found {
            groups: candidates.iter().map(|one| one.group.clone()).collect(),
            items: self.items(&candidates, wanted, true)?,
            end: None,
            is_round_over: true,
            has_busy_group,
            wait: self.take_wait(),
        })
    }

    /// Finds up to `wanted` items, and goes from group to group for them.
    fn find_in_turn(&mut self, wanted: usize) -> Result<Found, StoreError> {
        let WalkPosition {
            turn: mut position,
            round_start: mut start,
            mut wrapped,
        } = self.position.clone();
        let begins_round = start == Value::Null && position == Value::Null;
        if start == Value::Null {
            (start, wrapped) = (position.clone(), false);
        }
        let (mut candidates, mut found) = (Vec::new(), 0);
        let (mut is_round_over, mut has_busy_group) = (false, false);
        while found < wanted && self.visits_left > 0 {
            (self.visits, self.visits_left) = (self.visits + 1, self.visits_left - 1);
            let statement = match (wrapped, &position) {
                (false, Value::Null) => &self.picks().visit_first,
                (false, _) => &self.picks().visit_after,
                (true, Value::Null) => &self.picks().visit_until,
                (true, _) => &self.picks().visit_between,
            };
            if let Some(visit) = self.visit(statement, &position, &start)? {
                position = visit.group.clone();
                if start == Value::Null {
                    start = position.clone();
                }
                let room = self.room(&visit)?;
                has_busy_group |= room.within_limit == 0;
                if room.with_burst > 0 && !self.is_kept(&visit.head)? {
                    let candidate = self.candidate(visit, room, wanted - found)?;
                    if room.within_limit > 0 {
                        found += candidate.len();
                    }
                    candidates.push(candidate);
                }
                continue;
            }
            if !wrapped {
                let first = self.pick(&Value::Null, 1)?.pop();
                found += usize::from(first.is_some());
                candidates.extend(first.map(|head| Candidate {
                    group: Value::Null,
                    head,
                    run: Vec::new(),
                    room: Room::of(usize::MAX),
                }));
            }
            (is_round_over, position) = (wrapped || begins_round, Value::Null);
            wrapped = true;
            if is_round_over {
                break;
            }
        }
        let mut items = self.items(&candidates, wanted, is_round_over)?;
        let mut groups: Vec<Value> = candidates
            .iter()
            .filter(|candidate| candidate.room.within_limit > 0)
            .map(|candidate| candidate.group.clone())
            .collect();
        if is_round_over && items.len() < wanted && self.limits.bursts {
            let beyond = self.items_of(&candidates, wanted - items.len(), Room::beyond_limit)?;
            if groups.is_empty() {
                let served = candidates.iter().take(beyond.len());
                groups.extend(served.map(|candidate| candidate.group.clone()));
            }
            items.extend(beyond);
        }
        let is_cut = !is_round_over && found < wanted;
        let end = if groups.is_empty() && is_cut {
            WalkPosition {
                turn: position,
                round_start: start,
                wrapped,
            }
        } else {
            let turn = match groups.last() {
                _ if is_cut => position,
                Some(group) => group.clone(),
                None => self.position.turn.clone(),
            };
            at(turn)
        };
        Ok(Found {
            items,
            groups,
            end: Some(end),
            is_round_over,
            has_busy_group,
            wait: self.take_wait(),
        })
    }

    /// Moves the position after some of the found items were leased: `last`, the last of them. `is_complete`: whether all were
    /// leased, except those that were passed over.
    pub(super) fn finish(&mut self, found: Found, last: Option<&Key>, is_complete: bool) {
        let Some(end) = found.end else {
            return;
        };
        if is_complete {
            self.position = end;
            return;
        }
        let index = last.and_then(|last| found.items.iter().position(|item| item.key == *last));
        if let Some(index) = index {
            let turn = found.items[..=index].iter().map(|item| item.turn).max();
            let last_turn = found.groups.len().saturating_sub(1);
            let mut groups = found.groups.into_iter();
            if let Some(group) = groups.nth(turn.unwrap_or_default().min(last_turn)) {
                self.position = at(group);
            }
        }
    }

    /// Counts leased items for the rates of their groups.
    pub(super) fn count<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k Key>,
    ) -> Result<(), StoreError> {
        let Some(rates) = &self.limits.rates else {
            return Ok(());
        };
        for key in keys {
            if let Some(group) = self.group_of(key)?
                && group != Value::Null
            {
                rates.give(&group)?;
                self.given += 1;
            }
        }
        Ok(())
    }

    /// Ends the walk, and returns the position for the next claim.
    pub(super) fn end(self) -> Result<WalkPosition, StoreError> {
        /// The number of rows beyond those that the claim has written, so that the table becomes smaller.
        const SPARE: usize = 100;

        if let (Some(rates), given @ 1..) = (&self.limits.rates, self.given) {
            rates.forget(given.saturating_add(SPARE))?;
        }
        Ok(self.position)
    }

    fn take_wait(&self) -> Option<Duration> {
        self.limits.rates.as_ref().and_then(GroupRates::take_wait)
    }

    /// Returns the group of an item. NULL: it has none. `None`: there is no such item.
    fn group_of(&self, key: &Key) -> Result<Option<Value>, StoreError> {
        let mut find = self.connection.prepare_cached(&self.sql.find_group)?;
        bind_key(&mut find, key)?;
        let group = find.raw_query().next()?.map(|row| row.get_ref(0).map(read));
        Ok(group.transpose()?)
    }

    /// Returns whether the call may lease a ready item, as far as its group is concerned. A burst leases an overdue item too.
    pub(super) fn access(
        &self,
        call: &ClaimCall,
        key: &Key,
        is_overdue: bool,
    ) -> Result<Access, StoreError> {
        let Some(group) = self.group_of(key)? else {
            return Ok(Access::NotAskedFor);
        };
        if !call.groups.is_empty() && !self.is_of_groups(key, &call.groups)? {
            return Ok(Access::NotAskedFor);
        }
        if group == Value::Null {
            return Ok(Access::Free);
        }
        let Some(visit) = self.visit(&self.sql.all.visit_one, &group, &Value::Null)? else {
            return Ok(Access::HeldBack);
        };
        let is_next = visit.head == *key || self.sql.is_first.is_none();
        let room = self.room(&visit)?;
        let size = if is_overdue && call.groups.is_empty() {
            room.with_burst
        } else {
            room.within_limit
        };
        Ok(if is_next && size > 0 {
            Access::Free
        } else {
            Access::HeldBack
        })
    }

    /// Returns whether the item belongs to one of these groups.
    fn is_of_groups(&self, key: &Key, groups: &[Key]) -> Result<bool, StoreError> {
        let mut find = self.connection.prepare_cached(&self.sql.is_of_group)?;
        bind_key(&mut find, key)?;
        for group in groups {
            bind(&mut find, 4, &[&Stored::new(&group_value(group))])?;
            if find.raw_query().next()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the numbers of items that may be leased of a group.
    fn room(&self, visit: &Visit) -> Result<Room, StoreError> {
        if self.limits.has_paused && self.is_paused(&visit.head)? {
            return Ok(Room::of(0));
        }
        let mut room = Room::of(self.size_by_leases(visit)?);
        if self.limits.bursts {
            room.with_burst = usize::MAX;
        }
        match &self.limits.rates {
            Some(rates) if room.with_burst > 0 => Ok(room.at_most(rates.tokens(&visit.group)?)),
            _ => Ok(room),
        }
    }

    /// Returns the number of items that may be leased of a group, as far as its items are concerned.
    fn size_by_leases(&self, visit: &Visit) -> Result<usize, StoreError> {
        let Some(is_first) = &self.sql.is_first else {
            let free = self.limits.max_leases - visit.block;
            return Ok(match self.limits.max_leases {
                0 => usize::MAX,
                _ => usize::try_from(free).unwrap_or(0),
            });
        };
        Ok(match visit.block {
            0 => self.max_run,
            1 => 0,
            // An item of the group is delayed or dead. It holds back the items behind it.
            _ => {
                let mut first = self.connection.prepare_cached(is_first)?;
                let null = rusqlite::types::Null;
                bind(&mut first, 1, &[&null, &Stored::new(&visit.group)])?;
                let mut rows = first.raw_query();
                let state: Option<i64> = rows.next()?.map(|row| row.get(0)).transpose()?;
                usize::from(state == Some(0))
            }
        })
    }

    /// Returns whether the group of an item is paused.
    fn is_paused(&self, key: &Key) -> Result<bool, StoreError> {
        let mut find = self.connection.prepare_cached(&self.sql.is_paused)?;
        bind_key(&mut find, key)?;
        let is_paused = find.raw_query().next()?.is_some();
        Ok(is_paused)
    }

    fn visit(&self, sql: &str, after: &Value, until: &Value) -> Result<Option<Visit>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let null = rusqlite::types::Null;
        let (after, until) = (Stored::new(after), Stored::new(until));
        let values: &[&dyn ToSql] = &[&null, &after, &until, &self.limits.max_leases];
        bind(&mut statement, 1, values)?;
        let mut rows = statement.raw_query();
        let read = |row: &Row<'_>| {
            let first = self.queue.key.len();
            Ok::<_, StoreError>(Visit {
                group: read(row.get_ref(first)?),
                head: self.queue.read_key(row)?,
                block: row.get(first + 1)?,
            })
        };
        rows.next()?.map(read).transpose()
    }

    /// Returns the statements that find the items of the present call.
    fn picks(&self) -> &'a WalkStatements {
        match self.share {
            Share::All => &self.sql.all,
            Share::Suspect | Share::Others | Share::Nothing => &self.sql.others,
        }
    }

    /// Returns whether the first item of a group is kept from the present call, with those behind it: it is a suspect, or was refused.
    fn is_kept(&self, head: &Key) -> Result<bool, StoreError> {
        if self.refused.contains(head) {
            return Ok(true);
        }
        if self.share == Share::All || self.sql.is_first.is_none() {
            return Ok(false);
        }
        let read_head = &self.picks().read_head.keys;
        let mut read = self.connection.prepare_cached(read_head)?;
        bind_key(&mut read, head)?;
        let is_found = read.raw_query().next()?.is_some();
        Ok(!is_found)
    }

    /// Returns the keys of the first ready items of a group that were not refused, up to `count`. NULL: those without a group.
    fn pick(&self, group: &Value, count: usize) -> Result<Vec<Key>, StoreError> {
        let sql = match group {
            Value::Null => &self.picks().pick_without_group,
            _ => &self.picks().pick_of_group,
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let null = rusqlite::types::Null;
        let limit = count.saturating_add(self.refused.len());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values: &[&dyn ToSql] = &[&null, &Stored::new(group), &null, &limit];
        bind(&mut statement, 1, values)?;
        let mut rows = statement.raw_query();
        let mut keys = Vec::new();
        while keys.len() < count
            && let Some(row) = rows.next()?
        {
            let key = self.queue.read_key(row)?;
            if !self.refused.contains(&key) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// Returns a group that can give up to `wanted` items. In a strict group these are a run.
    fn candidate(&self, visit: Visit, room: Room, wanted: usize) -> Result<Candidate, StoreError> {
        let mut candidate = Candidate::new(visit, room);
        if self.max_run > 1 {
            let count = room.within_limit.min(wanted);
            candidate.room = Room::of(1);
            if count > 1 {
                let keys = self.pick(&candidate.group, count)?;
                candidate.run = keys.into_iter().skip(1).collect();
            }
        }
        Ok(candidate)
    }

    /// Returns the items of the candidates. If a round gave too few, groups that may have several leases give more, evenly.
    fn items(
        &self,
        candidates: &[Candidate],
        wanted: usize,
        is_round_over: bool,
    ) -> Result<Vec<FoundItem>, StoreError> {
        let with_room = || candidates.iter().filter(|one| one.room.within_limit > 0);
        let can_give_more = with_room().any(|one| one.room.within_limit > 1);
        let found: usize = with_room().map(Candidate::len).sum();
        let gives_more = is_round_over && can_give_more && found < wanted;
        if gives_more && self.max_run == 1 {
            return self.items_of(candidates, wanted, Room::within_limit);
        }
        let items = with_room().enumerate().flat_map(|(turn, candidate)| {
            let run = self.run_number(candidate, turn);
            let keys = candidate.keys().cloned();
            keys.map(move |key| FoundItem { key, run, turn })
        });
        let mut items: Vec<FoundItem> = items.collect();
        if gives_more {
            // Only the rows without a group can give more.
            let more = self.pick(&Value::Null, 1 + wanted - found)?;
            items.extend(more.into_iter().skip(1).map(FoundItem::without_turn));
        }
        Ok(items)
    }

    /// Returns up to `wanted` items of the candidates, evenly. `range`: which of the ready items of a group may be leased.
    fn items_of(
        &self,
        candidates: &[Candidate],
        wanted: usize,
        range: fn(Room) -> Range<usize>,
    ) -> Result<Vec<FoundItem>, StoreError> {
        let groups = candidates.iter().map(|one| (one, range(one.room)));
        let groups: Vec<_> = groups.filter(|(_, range)| !range.is_empty()).collect();
        let mut share = wanted.div_ceil(groups.len().max(1));
        loop {
            let mut keys = Vec::with_capacity(groups.len());
            for (candidate, range) in &groups {
                let count = range.len().min(share);
                keys.push(match (range.start, count) {
                    (0, 1) => vec![candidate.head.clone()],
                    (first, count) => {
                        let mut keys = self.pick(&candidate.group, first.saturating_add(count))?;
                        keys.split_off(first.min(keys.len()))
                    }
                });
            }
            let sizes: Vec<usize> = keys.iter().map(Vec::len).collect();
            let all_given = sizes
                .iter()
                .zip(&groups)
                .all(|(given, (_, range))| *given < share.min(range.len()) || range.len() <= share);
            if sizes.iter().sum::<usize>() >= wanted || all_given {
                let chosen = distribute(&sizes, wanted).into_iter();
                // The first items of all groups come first. After them all turns are over.
                let item =
                    |(group, place): (usize, usize)| match (keys[group][place].clone(), place) {
                        (key, 0) => FoundItem {
                            key,
                            run: 0,
                            turn: group,
                        },
                        (key, _) => FoundItem::without_turn(key),
                    };
                return Ok(chosen.map(item).collect());
            }
            share = share.saturating_mul(2);
        }
    }

    /// Returns the number of the run that the items of a group are. 0: they are none.
    fn run_number(&self, candidate: &Candidate, turn: usize) -> u32 {
        match self.max_run {
            2.. if candidate.group != Value::Null => u32::try_from(turn).map_or(0, |turn| turn + 1),
            _ => 0,
        }
    }
}

/// Returns the position behind a group, between two rounds.
const fn at(turn: Value) -> WalkPosition {
    WalkPosition {
        turn,
        round_start: Value::Null,
        wrapped: false,
    }
}
