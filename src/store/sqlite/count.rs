//! How many items each state has: all of them, or as many as are enough to know.

use rusqlite::Connection;

use super::by_state;
use crate::item_state::State;
use crate::queue::QueueSpec;
use crate::store::template::{Placeholders, render};
use crate::store::{Stats, StoreError};

const STATS: &str = include_str!("../../../sql/sqlite/stats.sql");

/// The statements that count.
pub(super) struct Counts {
    pub(super) all: String,
    /// By state; none where no index counts the rows of the state and of no other.
    pub(super) of_state: [Option<Entries>; 5],
    pub(super) due: Entries,
    pub(super) delayed_among: String,
    pub(super) completed_among: String,
}

/// The statements that count the entries of an index.
pub(super) struct Entries {
    /// Finds an entry past as many as are enough.
    pub(super) beyond: String,
    pub(super) count: String,
}

impl Counts {
    pub(super) fn new(queue: &QueueSpec, placeholders: &Placeholders) -> Self {
        let of_state = |state| {
            let counts = by_state::index(queue, state).is_some()
                && !(state == State::Delayed && queue.filtered_indexes);
            let part = |section| by_state::render(queue, state, STATS, section, placeholders);
            counts.then(|| Entries {
                beyond: part("of_state_beyond"),
                count: part("of_state"),
            })
        };
        Self {
            all: render(STATS, "all", placeholders),
            of_state: State::ALL.map(of_state),
            due: Entries {
                beyond: render(STATS, "due_beyond", placeholders),
                count: render(STATS, "due", placeholders),
            },
            delayed_among: render(STATS, "delayed_among", placeholders),
            completed_among: render(STATS, "completed_among", placeholders),
        }
    }
}

/// Counts every item.
pub(super) fn all(connection: &Connection, counts: &Counts) -> Result<Stats, StoreError> {
    let mut stats = Stats::default();
    let mut statement = connection.prepare_cached(&counts.all)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(state) = State::from_code(row.get(0)?) {
            stats.count[state as usize] = number(row.get(1)?);
        }
    }
    Ok(stats)
}

/// Counts up to [`Stats::ENOUGH`] items of each state, in the caller's transaction.
pub(super) fn enough(connection: &Connection, counts: &Counts) -> Result<Stats, StoreError> {
    let mut stats = Stats::default();
    let look = Look { connection };
    for (state, entries) in State::ALL.into_iter().zip(&counts.of_state) {
        if let Some(entries) = entries {
            set(&mut stats, state, look.count(entries, Stats::ENOUGH)?);
        }
    }
    if counts.of_state[State::Delayed as usize].is_none() {
        if stats.may_be_more(State::Leased) {
            look.among(&counts.delayed_among, State::Delayed, &mut stats)?;
        } else {
            let leased = stats.of(State::Leased);
            let due = look.count(&counts.due, Stats::ENOUGH + leased)?;
            set(&mut stats, State::Delayed, due.saturating_sub(leased));
        }
    }
    if counts.of_state[State::Completed as usize].is_none() {
        look.among(&counts.completed_among, State::Completed, &mut stats)?;
    }
    Ok(stats)
}

fn set(into: &mut Stats, state: State, found: u64) {
    into.count[state as usize] = found.min(Stats::ENOUGH);
    into.at_least[state as usize] = found > Stats::ENOUGH;
}

struct Look<'a> {
    connection: &'a Connection,
}

impl Look<'_> {
    /// Counts entries; where there are more than `most`, one more than that stands for them all.
    fn count(&self, entries: &Entries, most: u64) -> Result<u64, StoreError> {
        let skipped = i64::try_from(most).unwrap_or(i64::MAX);
        let mut beyond = self.connection.prepare_cached(&entries.beyond)?;
        if beyond.exists([skipped])? {
            return Ok(most + 1);
        }
        let mut count = self.connection.prepare_cached(&entries.count)?;
        Ok(count.query_row([], |row| row.get(0).map(number))?)
    }

    /// Counts the items of `state` among the first rows of several states. Where that is not every row, there may be more.
    fn among(&self, sql: &str, state: State, into: &mut Stats) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        // One more than are counted tells that there are more.
        let most = i64::try_from(Stats::ENOUGH + 1).unwrap_or(i64::MAX);
        let numbers = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (looked_at, found) = statement.query_row([most], numbers)?;
        let (looked_at, found) = (number(looked_at), number(found));
        set(into, state, found);
        into.at_least[state as usize] = looked_at > Stats::ENOUGH;
        Ok(())
    }
}

fn number(count: i64) -> u64 {
    count.unsigned_abs()
}
