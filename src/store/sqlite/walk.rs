//! A walk over the groups of a queue. It finds items that a claim may lease, one group after the other.
//!
//! The walk begins behind the group that had the last turn and ends when it has found enough, or when a round is over. A group takes
//! part if its items can be leased: `sql/sqlite/groups.sql` has the conditions. Rows without a group come at the end of each round, and
//! have one turn together. If a claim looks at many groups without success, it leaves the round, and the next claim goes on with it.

use lease_broker_model::key::Key;
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Row, ToSql};

use super::queue_statements::QueueStatements;
use super::statement::{bind, bind_key, borrowed};
use super::turn_statements::GroupStatements;
use crate::StoreError;
use crate::turn::distribute;

/// The state of a walk. It is stored in the row of the queue between two claims.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WalkPosition {
    /// The group that had the last turn. NULL: a round begins with the first group.
    pub(super) turn: SqlValue,
    /// The group with which a round ends that an earlier claim has left. NULL: there is no such round.
    pub(super) round_start: SqlValue,
    /// Whether that round has begun again with the first group.
    pub(super) wrapped: bool,
}

/// A walk of one claim.
pub(super) struct Walk<'a> {
    connection: &'a Connection,
    queue: &'a QueueStatements,
    sql: &'a GroupStatements,
    /// The maximum number of leases of a group. 0: any number. Without effect in strict groups.
    group_max_leases: i64,
    /// Whether operators have paused groups of the queue.
    has_paused: bool,
    pub(super) position: WalkPosition,
    visits_left: usize,
    pub(super) visits: usize,
}

/// The items that a walk has found.
pub(super) struct Found {
    /// The keys of the items, in the order in which they are leased.
    pub(super) keys: Vec<Key>,
    /// The groups whose turn it was: those of the first keys, in the same order.
    groups: Vec<SqlValue>,
    /// The position if all keys are leased.
    end: WalkPosition,
    /// Whether a whole round was looked at. If fewer items than wanted were found, there are no more.
    pub(super) is_round_over: bool,
    /// Whether a group was held back.
    pub(super) has_busy_group: bool,
}

/// A group that can give items.
struct Candidate {
    /// NULL: rows without a group.
    group: SqlValue,
    head: Key,
    /// The number of items that may be leased.
    size: usize,
}

/// What a visit has found: the group, its first ready item and its block.
struct Visit {
    group: SqlValue,
    head: Key,
    block: i64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        queue: &'a QueueStatements,
        sql: &'a GroupStatements,
        (position, group_max_leases, has_paused): (WalkPosition, i64, bool),
        max_visits: usize,
    ) -> Self {
        Self {
            connection,
            queue,
            sql,
            group_max_leases: group_max_leases.max(0),
            has_paused,
            position,
            visits_left: max_visits,
            visits: 0,
        }
    }

    /// Finds up to `wanted` items. The position of the walk stays as it is until [`Self::finish`].
    pub(super) fn find(&mut self, wanted: usize) -> Result<Found, StoreError> {
        let WalkPosition {
            turn: mut position,
            round_start: mut start,
            mut wrapped,
        } = self.position.clone();
        let begins_round = start == SqlValue::Null && position == SqlValue::Null;
        if start == SqlValue::Null {
            (start, wrapped) = (position.clone(), false);
        }
        let mut candidates = Vec::new();
        let (mut is_round_over, mut has_busy_group) = (false, false);
        while candidates.len() < wanted && self.visits_left > 0 {
            (self.visits, self.visits_left) = (self.visits + 1, self.visits_left - 1);
            let statement = match (wrapped, &position) {
                (false, SqlValue::Null) => &self.sql.visit_first,
                (false, _) => &self.sql.visit_after,
                (true, SqlValue::Null) => &self.sql.visit_until,
                (true, _) => &self.sql.visit_between,
            };
            if let Some(visit) = self.visit(statement, &position, &start)? {
                position = visit.group.clone();
                if start == SqlValue::Null {
                    start = position.clone();
                }
                match self.size(&visit)? {
                    0 => has_busy_group = true,
                    size => candidates.push(Candidate {
                        group: visit.group,
                        head: visit.head,
                        size,
                    }),
                }
                continue;
            }
            if !wrapped {
                let first = self.pick(&SqlValue::Null, 1)?.pop();
                candidates.extend(first.map(|head| Candidate {
                    group: SqlValue::Null,
                    head,
                    size: usize::MAX,
                }));
            }
            (is_round_over, position) = (wrapped || begins_round, SqlValue::Null);
            wrapped = true;
            if is_round_over {
                break;
            }
        }
        let last_served = candidates.last().map(|last| last.group.clone());
        let is_cut = !is_round_over && candidates.len() < wanted;
        let end = if candidates.is_empty() && is_cut {
            WalkPosition {
                turn: position,
                round_start: start,
                wrapped,
            }
        } else {
            let turn = match last_served {
                _ if is_cut => position,
                Some(group) => group,
                None => self.position.turn.clone(),
            };
            at(turn)
        };
        let groups = candidates.iter().map(|candidate| candidate.group.clone());
        Ok(Found {
            groups: groups.collect(),
            keys: self.keys(candidates, wanted, is_round_over)?,
            end,
            is_round_over,
            has_busy_group,
        })
    }

    /// Moves the position after some of the found items were leased: `last`, the last of them. `is_complete`: whether all were
    /// leased, except those that were passed over.
    pub(super) fn finish(&mut self, found: Found, last: Option<&Key>, is_complete: bool) {
        if is_complete {
            self.position = found.end;
            return;
        }
        let index = last.and_then(|last| found.keys.iter().position(|key| key == last));
        if let Some(index) = index {
            let turns = found.groups.len();
            let mut groups = found.groups.into_iter();
            if let Some(group) = groups.nth(index.min(turns.saturating_sub(1))) {
                self.position = at(group);
            }
        }
    }

    /// Returns whether the item can be leased as far as its group is concerned.
    pub(super) fn can_lease(&self, key: &Key) -> Result<bool, StoreError> {
        let mut find = self.connection.prepare_cached(&self.sql.find_group)?;
        bind_key(&mut find, key)?;
        let mut rows = find.raw_query();
        let Some(row) = rows.next()? else {
            return Ok(false);
        };
        let group: SqlValue = row.get(0)?;
        if group == SqlValue::Null {
            return Ok(true);
        }
        let Some(visit) = self.visit(&self.sql.visit_one, &group, &SqlValue::Null)? else {
            return Ok(false);
        };
        let is_next = visit.head == *key || self.sql.is_first.is_none();
        Ok(is_next && self.size(&visit)? > 0)
    }

    /// Returns the number of items that may be leased of a group.
    fn size(&self, visit: &Visit) -> Result<usize, StoreError> {
        if self.has_paused && self.is_paused(&visit.head)? {
            return Ok(0);
        }
        let Some(is_first) = &self.sql.is_first else {
            let free = self.group_max_leases - visit.block;
            return Ok(match self.group_max_leases {
                0 => usize::MAX,
                _ => usize::try_from(free).unwrap_or(0),
            });
        };
        Ok(match visit.block {
            0 => 1,
            1 => 0,
            // An item of the group is delayed or dead. It holds back the items behind it.
            _ => {
                let mut first = self.connection.prepare_cached(is_first)?;
                let null = rusqlite::types::Null;
                bind(&mut first, 1, &[&null, &borrowed(&visit.group)])?;
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

    fn visit(
        &self,
        sql: &str,
        after: &SqlValue,
        until: &SqlValue,
    ) -> Result<Option<Visit>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let null = rusqlite::types::Null;
        let (after, until) = (borrowed(after), borrowed(until));
        let values: &[&dyn ToSql] = &[&null, &after, &until, &self.group_max_leases];
        bind(&mut statement, 1, values)?;
        let mut rows = statement.raw_query();
        let read = |row: &Row<'_>| {
            let first = self.queue.key_len;
            Ok::<_, StoreError>(Visit {
                group: row.get(first)?,
                head: self.queue.read_key(row)?,
                block: row.get(first + 1)?,
            })
        };
        rows.next()?.map(read).transpose()
    }

    /// Returns the keys of the first ready items of a group, up to `count`. NULL: those without a group.
    fn pick(&self, group: &SqlValue, count: usize) -> Result<Vec<Key>, StoreError> {
        let sql = match group {
            SqlValue::Null => &self.sql.pick_without_group,
            _ => &self.sql.pick_of_group,
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let null = rusqlite::types::Null;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let values: &[&dyn ToSql] = &[&null, &borrowed(group), &null, &count];
        bind(&mut statement, 1, values)?;
        let mut rows = statement.raw_query();
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            keys.push(self.queue.read_key(row)?);
        }
        Ok(keys)
    }

    /// Returns the keys of the candidates. If a round gave too few, groups that may have several leases give more, evenly.
    fn keys(
        &self,
        candidates: Vec<Candidate>,
        wanted: usize,
        is_round_over: bool,
    ) -> Result<Vec<Key>, StoreError> {
        let can_give_more = candidates.iter().any(|candidate| candidate.size > 1);
        if !is_round_over || candidates.len() >= wanted || !can_give_more {
            return Ok(candidates.into_iter().map(|one| one.head).collect());
        }
        let mut share = wanted.div_ceil(candidates.len());
        loop {
            let mut items = Vec::with_capacity(candidates.len());
            for candidate in &candidates {
                items.push(match candidate.size.min(share) {
                    1 => vec![candidate.head.clone()],
                    count => self.pick(&candidate.group, count)?,
                });
            }
            let sizes: Vec<usize> = items.iter().map(Vec::len).collect();
            let all_given = sizes.iter().zip(&candidates).all(|(given, candidate)| {
                *given < share.min(candidate.size) || candidate.size <= share
            });
            if sizes.iter().sum::<usize>() >= wanted || all_given {
                let chosen = distribute(&sizes, wanted).into_iter();
                return Ok(chosen
                    .map(|(group, place)| items[group][place].clone())
                    .collect());
            }
            share = share.saturating_mul(2);
        }
    }
}

/// Returns the position behind a group, between two rounds.
const fn at(turn: SqlValue) -> WalkPosition {
    WalkPosition {
        turn,
        round_start: SqlValue::Null,
        wrapped: false,
    }
}
