//! How many items each state has: all of them, or as many as are enough to know.

use rusqlite::Connection;

use super::by_state;
use crate::lease::State;
use crate::queue::QueueSpec;
use crate::store::template::{Holes, render};
use crate::store::{Stats, StoreError};

const STATS: &str = include_str!("../../../sql/sqlite/stats.sql");

/// One more than are counted tells that there are more.
const LOOK: u64 = Stats::ENOUGH + 1;

/// The statements that count.
pub(super) struct Counts {
    pub(super) all: String,
    /// By state; none where no index counts the rows of the state and of no other.
    pub(super) of_state: [Option<String>; 5],
    pub(super) due: String,
    pub(super) delayed_among: String,
    pub(super) completed_among: String,
}

impl Counts {
    pub(super) fn new(queue: &QueueSpec, holes: &Holes) -> Self {
        let of_state = |state| {
            let counts = by_state::index(queue, state).is_some()
                && !(state == State::Delayed && queue.filtered_indexes);
            counts.then(|| by_state::render(queue, state, STATS, "of_state", holes))
        };
        Self {
            all: render(STATS, "all", holes),
            of_state: State::ALL.map(of_state),
            due: render(STATS, "due", holes),
            delayed_among: render(STATS, "delayed_among", holes),
            completed_among: render(STATS, "completed_among", holes),
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
    for (state, sql) in State::ALL.into_iter().zip(&counts.of_state) {
        if let Some(sql) = sql {
            set(&mut stats, state, look.count(sql, LOOK)?);
        }
    }
    if counts.of_state[State::Delayed as usize].is_none() {
        if stats.may_be_more(State::Leased) {
            look.among(&counts.delayed_among, State::Delayed, &mut stats)?;
        } else {
            let leased = stats.of(State::Leased);
            let due = look.count(&counts.due, LOOK + leased)?;
            set(&mut stats, State::Delayed, due.saturating_sub(leased));
        }
    }
    if counts.of_state[State::Completed as usize].is_none() {
        look.among(&counts.completed_among, State::Completed, &mut stats)?;
    }
    Ok(stats)
}

fn set(stats: &mut Stats, state: State, found: u64) {
    stats.count[state as usize] = found.min(Stats::ENOUGH);
    stats.at_least[state as usize] = found > Stats::ENOUGH;
}

struct Look<'a> {
    connection: &'a Connection,
}

impl Look<'_> {
    fn count(&self, sql: &str, most: u64) -> Result<u64, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        Ok(statement.query_row([most], |row| row.get(0).map(number))?)
    }

    /// Counts the items of `state` among the first rows of several states. Where that is not every row, there may be more.
    fn among(&self, sql: &str, state: State, stats: &mut Stats) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let most = i64::try_from(LOOK).unwrap_or(i64::MAX);
        let numbers = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (looked_at, found) = statement.query_row([most], numbers)?;
        let (looked_at, found) = (number(looked_at), number(found));
        set(stats, state, found);
        stats.at_least[state as usize] = looked_at > Stats::ENOUGH;
        Ok(())
    }
}

fn number(count: i64) -> u64 {
    count.unsigned_abs()
}
