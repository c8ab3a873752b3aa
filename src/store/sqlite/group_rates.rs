//! The rates of groups: how many items of a group a claim may give out now.

use std::cell::Cell;
use std::time::Duration;

use lease_broker_model::rate::Rate;
use lease_broker_value::Value;
use rusqlite::{Connection, OptionalExtension as _};

use super::column_value::Stored;
use super::turn_statements::GroupStatements;
use crate::StoreError;

/// The rates of the groups of a queue, in one claim.
pub(super) struct GroupRates<'a> {
    connection: &'a Connection,
    queue: &'a str,
    sql: &'a GroupStatements,
    rate: Rate,
    /// The collation of the column that names groups.
    collation: String,
    /// The present time in microseconds.
    now: i64,
    /// The shortest wait of the groups whose rate is used up.
    shortest_wait: Cell<Option<Duration>>,
}

impl<'a> GroupRates<'a> {
    /// Begins a claim.
    pub(super) fn begin(
        (connection, queue): (&'a Connection, &'a str),
        sql: &'a GroupStatements,
        rate: Rate,
        collation: String,
        now: i64,
    ) -> Result<Self, StoreError> {
        connection
            .prepare_cached(&sql.bound_rates)?
            .execute((queue, rate.latest(now)))?;
        Ok(Self {
            connection,
            queue,
            sql,
            rate,
            collation,
            now,
            shortest_wait: Cell::new(None),
        })
    }

    /// Returns how many items of a group may be given out now. If there are none, [`Self::take_wait`] knows.
    pub(super) fn tokens(&self, group: &Value) -> Result<usize, StoreError> {
        let arrival = self.arrival(&self.stored(group))?;
        let tokens = self.rate.tokens(arrival, self.now);
        if tokens == 0 {
            let wait = self.rate.wait(arrival, self.now);
            let shortest = self.shortest_wait.get();
            self.shortest_wait
                .set(Some(shortest.map_or(wait, |shortest| shortest.min(wait))));
        }
        Ok(usize::try_from(tokens).unwrap_or(usize::MAX))
    }

    /// Counts an item of a group that was given out.
    pub(super) fn give(&self, group: &Value) -> Result<(), StoreError> {
        let group = self.stored(group);
        let arrival = self.rate.after(self.arrival(&group)?, self.now, 1);
        let mut write = self.connection.prepare_cached(&self.sql.write_rate)?;
        write.execute((self.queue, Stored::new(&group), arrival))?;
        Ok(())
    }

    /// Returns the shortest wait of the groups that had no token since the last call. `None`: all had one.
    pub(super) fn take_wait(&self) -> Option<Duration> {
        self.shortest_wait.take()
    }

    /// Deletes up to `limit` rows whose arrival has passed.
    pub(super) fn forget(&self, limit: usize) -> Result<(), StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut forget = self.connection.prepare_cached(&self.sql.forget_rates)?;
        forget.execute((self.queue, self.now, limit))?;
        Ok(())
    }

    fn arrival(&self, group: &Value) -> Result<Option<i64>, StoreError> {
        let mut read = self.connection.prepare_cached(&self.sql.read_rate)?;
        let arrival = read.query_row((self.queue, Stored::new(group)), |row| row.get(0));
        Ok(arrival.optional()?)
    }

    /// Returns the value that stands for all values which the column calls equal.
    fn stored(&self, group: &Value) -> Value {
        match group {
            Value::Text(text) if self.collation.eq_ignore_ascii_case("nocase") => {
                Value::Text(text.to_ascii_lowercase())
            }
            Value::Text(text) if self.collation.eq_ignore_ascii_case("rtrim") => {
                Value::Text(text.trim_end_matches(' ').to_owned())
            }
            other => other.clone(),
        }
    }
}
