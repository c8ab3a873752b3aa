//! Counts the items of each state, exactly or up to a limit.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use rusqlite::Connection;

use super::soft_lock_value::integer;
use super::state_index;
use crate::template::{Placeholders, render};
use crate::{Stats, StoreError};

const STATS: &str = lease_broker_sql::sqlite::STATS;

/// The SQL text of the statements that count.
pub(super) struct CountStatements {
    pub(super) count_all: String,
    /// One for each state, in the order of [`State::ALL`]. `None` if no index holds exactly the rows of this state.
    pub(super) of_state: [Option<IndexCount>; 5],
    /// Counts leased and delayed items together.
    pub(super) due: IndexCount,
    pub(super) delayed_in_sample: String,
    pub(super) completed_in_sample: String,
}

/// The two statements that count the entries of an index up to a limit.
pub(super) struct IndexCount {
    /// Returns a row if the index has more entries than the limit.
    pub(super) over_limit: String,
    /// Counts the entries.
    pub(super) count: String,
}

impl CountStatements {
    pub(super) fn new(queue: &QueueSpec, placeholders: &Placeholders) -> Self {
        let of_state = |state| {
            // A filtered due index holds leases too.
            let is_mixed = state == State::Delayed && queue.filtered_indexes;
            let has_index = state_index::state_index(queue, state).is_some() && !is_mixed;
            let text = |section| state_index::render(queue, state, STATS, section, placeholders);
            has_index.then(|| IndexCount {
                over_limit: text("state_over_limit"),
                count: text("count_state"),
            })
        };
        let text = |section| render(STATS, section, placeholders);
        Self {
            count_all: text("count_all"),
            of_state: State::ALL.map(of_state),
            due: IndexCount {
                over_limit: text("due_over_limit"),
                count: text("count_due"),
            },
            delayed_in_sample: text("delayed_in_sample"),
            completed_in_sample: text("completed_in_sample"),
        }
    }
}

/// Counts every item. Reads the whole table.
pub(super) fn count_all(
    connection: &Connection,
    statements: &CountStatements,
) -> Result<Stats, StoreError> {
    let mut stats = Stats::default();
    let mut statement = connection.prepare_cached(&statements.count_all)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(state) = integer(row, 0)?.and_then(State::from_code) {
            stats.count[state as usize] = unsigned(row.get(1)?);
        }
    }
    Ok(stats)
}

/// Counts up to [`Stats::COUNT_LIMIT`] items of each state. The caller holds a read transaction.
pub(super) fn count_up_to_limit(
    connection: &Connection,
    statements: &CountStatements,
) -> Result<Stats, StoreError> {
    let mut stats = Stats::default();
    for (state, index) in State::ALL.into_iter().zip(&statements.of_state) {
        if let Some(index) = index {
            let found = count_in_index(connection, index, Stats::COUNT_LIMIT)?;
            set_count(&mut stats, state, found);
        }
    }
    if statements.of_state[State::Delayed as usize].is_none() {
        if stats.is_lower_bound(State::Leased) {
            // The exact number of leases is not known, so it cannot be subtracted.
            let sql = &statements.delayed_in_sample;
            count_in_sample(connection, sql, State::Delayed, &mut stats)?;
        } else {
            let leased = stats.count_of(State::Leased);
            let due = count_in_index(connection, &statements.due, Stats::COUNT_LIMIT + leased)?;
            set_count(&mut stats, State::Delayed, due.saturating_sub(leased));
        }
    }
    if statements.of_state[State::Completed as usize].is_none() {
        let sql = &statements.completed_in_sample;
        count_in_sample(connection, sql, State::Completed, &mut stats)?;
    }
    Ok(stats)
}

fn set_count(result: &mut Stats, state: State, found: u64) {
    result.count[state as usize] = found.min(Stats::COUNT_LIMIT);
    result.is_lower_bound[state as usize] = found > Stats::COUNT_LIMIT;
}

/// Returns the number of entries of an index, or `limit + 1` if it has more than `limit`.
fn count_in_index(
    connection: &Connection,
    index: &IndexCount,
    limit: u64,
) -> Result<u64, StoreError> {
    let skipped = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut over_limit = connection.prepare_cached(&index.over_limit)?;
    if over_limit.exists([skipped])? {
        return Ok(limit + 1);
    }
    let mut count = connection.prepare_cached(&index.count)?;
    Ok(count.query_row([], |row| row.get(0).map(unsigned))?)
}

/// Counts the items of `state` among the first rows of several states. The count is a lower bound if there are more
/// rows than the sample has.
fn count_in_sample(
    connection: &Connection,
    sql: &str,
    state: State,
    result: &mut Stats,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    // One row more than the limit shows that there are more rows.
    let size = i64::try_from(Stats::COUNT_LIMIT + 1).unwrap_or(i64::MAX);
    let numbers = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (read, found) = statement.query_row([size], numbers)?;
    set_count(result, state, unsigned(found));
    result.is_lower_bound[state as usize] = unsigned(read) > Stats::COUNT_LIMIT;
    Ok(())
}

fn unsigned(count: i64) -> u64 {
    count.unsigned_abs()
}
