//! The turn of a claim in a queue with groups or limits: reads the row of the queue, and writes it back.
//!
//! The writer has the write lock of the file during the whole claim. So claims take turns, at all brokers.

use lease_broker_model::queue::QueueSpec;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql};

use super::catalogue::Table;
use super::column_value::{self, Stored};
use super::group_pause::find_collation;
use super::group_rates::GroupRates;
use super::queue_statements::QueueStatements;
use super::statement::bind;
use super::turn_statements::{GroupStatements, TurnStatements};
use super::walk::{Found, GroupLimits, Walk, WalkPosition};
use super::write_context::WriteContext;
use crate::template::plain;
use crate::turn::{Allowance, StoredLimits, StoredRate, check_policy, max_visits};
use crate::{
    ClaimCall, Claimed, LimitChange, Limited, QueueIndex, QueueLimitValues, StoreError, TurnCost,
};

const GROUPS: &str = lease_broker_sql::sqlite::GROUPS;

/// The turn of one claim.
pub(super) struct Turn<'a> {
    connection: &'a Connection,
    queue: &'a QueueStatements,
    sql: &'a TurnStatements,
    limits: StoredLimits,
    arrival: Option<i64>,
    /// The present time in microseconds.
    now: i64,
    given: usize,
    /// The position and the arrival in the row when the turn began.
    stored_position: WalkPosition,
    stored_arrival: Option<i64>,
    pub(super) allowance: Allowance,
    /// `None`: the queue has no groups.
    pub(super) walk: Option<Walk<'a>>,
}

impl<'a> Turn<'a> {
    /// Begins the turn of a claim with these calls. `now`: in milliseconds. `None`: claims of the queue take no turns.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the row has another policy than the queue.
    pub(super) fn begin(
        connection: &'a Connection,
        queue: &'a QueueStatements,
        calls: &[ClaimCall],
        now: i64,
    ) -> Result<Option<Self>, StoreError> {
        let Some(sql) = &queue.sql.turn else {
            return Ok(None);
        };
        let stored = read_row(connection, &sql.read_row, &queue.spec)?;
        check_policy(
            &queue.spec,
            stored.as_ref().and_then(|row| row.policy.as_deref()),
        )?;
        let StoredRow {
            position,
            arrival,
            limits,
            has_paused,
            ..
        } = stored.unwrap_or_default();
        if let (Some(groups), true) = (&sql.groups, has_paused) {
            end_pauses(connection, groups, &queue.spec.name, now)?;
        }
        let leased = match limits.max_leases() {
            Some(max) => count_leased(connection, sql, max)?,
            None => 0,
        };
        let wanted = calls.iter().map(|call| call.max_items).sum();
        let now = now.saturating_mul(1_000);
        let (stored_position, stored_arrival) = (position.clone(), arrival);
        let rate = limits.rate.get();
        let arrival =
            arrival.map(|arrival| rate.map_or(arrival, |rate| arrival.min(rate.latest(now))));
        let walk = sql.groups.as_ref().map(|groups| {
            let rates = limits.group_rate.get().map(|rate| {
                let name = (connection, &*queue.spec.name);
                let collation = find_collation(connection, queue)?;
                GroupRates::begin(name, groups, rate, collation, now)
            });
            let of_groups = GroupLimits {
                max_leases: limits.group_max_leases.unwrap_or(0).max(0),
                bursts: queue.spec.groups_burst(),
                has_paused,
                rates: rates.transpose()?,
            };
            let walk = (position, of_groups);
            Ok::<_, StoreError>(Walk::new(
                connection,
                queue,
                groups,
                walk,
                max_visits(wanted),
            ))
        });
        Ok(Some(Self {
            connection,
            queue,
            sql,
            arrival,
            now,
            given: 0,
            stored_position,
            stored_arrival,
            allowance: Allowance::new(&limits, leased, arrival, now),
            walk: walk.transpose()?,
            limits,
        }))
    }

    /// Returns the call with as many items as the limits allow.
    pub(super) fn bound(&self, call: &ClaimCall) -> ClaimCall {
        ClaimCall {
            max_items: self.allowance.bound(call.max_items),
            ..call.clone()
        }
    }

    /// Counts the items that a call has leased, those of `claimed` from `first` on, and moves the position of the walk behind their groups.
    /// `found`: the items that the walk found for the call. Returns whether the walk was cut, so that more items may be ready.
    pub(super) fn end_call(
        &mut self,
        found: Option<Found>,
        call: &ClaimCall,
        claimed: &mut Claimed,
        first: usize,
    ) -> Result<bool, StoreError> {
        let items = &claimed.items[first..];
        let count = items.len();
        self.allowance.take(count);
        self.given += count;
        let Some(walk) = &mut self.walk else {
            return Ok(false);
        };
        walk.count(items.iter().map(|item| &item.lease.key))?;
        let Some(found) = found else {
            return Ok(false);
        };
        let is_cut = !found.is_round_over && count < call.max_items;
        if count < call.max_items && found.has_busy_group {
            claimed.limited = Some(Limited::GroupsBusy { wait: found.wait });
        }
        claimed.turn.add(TurnCost {
            visited: std::mem::take(&mut walk.visits),
            is_cut,
            wait: None,
        });
        let all_looked_at = !claimed.has_more && count < call.max_items;
        let is_complete = count == found.items.len() || all_looked_at;
        let last = items.last().map(|item| &item.lease.key);
        walk.finish(found, last, is_complete);
        claimed.has_more |= is_cut;
        Ok(is_cut)
    }

    /// Ends the turn: stores the position and the rate, if they have changed.
    pub(super) fn end(self) -> Result<(), StoreError> {
        let position = match self.walk {
            None => self.stored_position.clone(),
            Some(walk) => walk.end()?,
        };
        let rate = self.limits.rate.get().filter(|_| self.given > 0);
        let arrival = rate.map_or(self.arrival, |rate| {
            Some(rate.after(self.arrival, self.now, self.given))
        });
        if position == self.stored_position && arrival == self.stored_arrival {
            return Ok(());
        }
        let mut write = self.connection.prepare_cached(&self.sql.write_row)?;
        let (turn, start) = (
            Stored::new(&position.turn),
            Stored::new(&position.round_start),
        );
        let name = &self.queue.spec.name;
        let values: &[&dyn ToSql] = &[name, &turn, &start, &position.wrapped, &arrival];
        bind(&mut write, 1, values)?;
        write.raw_execute()?;
        Ok(())
    }
}

/// The row of a queue.
#[derive(Default)]
struct StoredRow {
    policy: Option<String>,
    position: WalkPosition,
    arrival: Option<i64>,
    limits: StoredLimits,
    has_paused: bool,
}

/// Returns the limit of the queue that gives no lease now.
pub(super) fn reached_limit(
    connection: &Connection,
    queue: &QueueStatements,
    now: i64,
) -> Result<Option<Limited>, StoreError> {
    let Some(sql) = &queue.sql.turn else {
        return Ok(None);
    };
    let Some(StoredRow {
        limits, arrival, ..
    }) = read_row(connection, &sql.read_row, &queue.spec)?
    else {
        return Ok(None);
    };
    let leased = match limits.max_leases() {
        Some(max) => count_leased(connection, sql, max)?,
        None => 0,
    };
    let now = now.saturating_mul(1_000);
    Ok(Allowance::new(&limits, leased, arrival, now).exhausted())
}

fn read_row(
    connection: &Connection,
    sql: &str,
    queue: &QueueSpec,
) -> Result<Option<StoredRow>, StoreError> {
    let mut read = connection.prepare_cached(sql)?;
    bind(&mut read, 1, &[&queue.name])?;
    let mut rows = read.raw_query();
    let convert = |row: &Row<'_>| {
        Ok::<_, StoreError>(StoredRow {
            policy: row.get(0)?,
            position: WalkPosition {
                turn: column_value::read(row.get_ref(1)?),
                round_start: column_value::read(row.get_ref(2)?),
                wrapped: row.get(3)?,
            },
            arrival: row.get(4)?,
            limits: StoredLimits {
                max_leases: row.get(5)?,
                rate: read_rate(row, 6)?,
                group_max_leases: row.get(9)?,
                group_rate: read_rate(row, 10)?,
            },
            has_paused: row.get::<_, i64>(13)? > 0,
        })
    };
    rows.next()?.map(convert).transpose()
}

/// Reads a rate, whose numbers are in the columns from `first` on.
fn read_rate(row: &Row<'_>, first: usize) -> rusqlite::Result<StoredRate> {
    Ok(StoredRate {
        items: row.get(first)?,
        micros: row.get(first + 1)?,
        burst: row.get(first + 2)?,
    })
}

/// Removes the pauses of groups that have ended.
fn end_pauses(
    connection: &Connection,
    sql: &GroupStatements,
    queue: &str,
    now: i64,
) -> Result<(), StoreError> {
    let mut end = connection.prepare_cached(&sql.end_pauses)?;
    if end.execute((queue, now))? > 0 {
        connection
            .prepare_cached(&sql.count_paused)?
            .execute([queue])?;
    }
    Ok(())
}

fn count_leased(
    connection: &Connection,
    sql: &TurnStatements,
    max: usize,
) -> Result<usize, StoreError> {
    let mut count = connection.prepare_cached(&sql.count_leased)?;
    let null = rusqlite::types::Null;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    bind(&mut count, 1, &[&null, &null, &null, &max])?;
    let mut rows = count.raw_query();
    let counted: i64 = rows.next()?.map_or(Ok(0), |row| row.get(0))?;
    Ok(usize::try_from(counted).unwrap_or_default())
}

/// Gives the row of a queue the policy and the limits that it does not have yet, and logs the limits of the configuration that do not
/// count because the row has others. If the configuration has neither groups nor limits, logs that those of the row do not count.
///
/// # Errors
/// [`StoreError::Misconfigured`] if the row has another policy: claims would get no leases.
pub(super) fn fill_row(connection: &Connection, queue: &QueueStatements) -> Result<(), StoreError> {
    let Some(sql) = &queue.sql.turn else {
        let read = plain(GROUPS, "read_row");
        let row = read_row(connection, &read, &queue.spec)?;
        row.unwrap_or_default().limits.warn_if_unused(&queue.spec);
        return Ok(());
    };
    let own = StoredLimits::of(&queue.spec);
    let (name, policy) = (&queue.spec.name, queue.spec.group_policy());
    connection.execute(
        &sql.fill_row,
        (
            name,
            policy,
            own.max_leases,
            own.rate.items,
            own.rate.micros,
            own.rate.burst,
            own.group_max_leases,
            own.group_rate.items,
            own.group_rate.micros,
            own.group_rate.burst,
        ),
    )?;
    let row = read_row(connection, &sql.read_row, &queue.spec)?.unwrap_or_default();
    for limit in own.differences(&row.limits) {
        tracing::warn!(
            queue = queue.spec.name,
            limit,
            "limit of the configuration does not count: the database has another one"
        );
    }
    check_policy(&queue.spec, row.policy.as_deref())
}

/// Changes limits of a queue. See [`Operate::set_limits`](crate::Operate::set_limits).
pub(super) fn set_limits(
    context: &WriteContext,
    queue: QueueIndex,
    change: &LimitChange,
) -> Result<QueueLimitValues, StoreError> {
    let queue = context.queue(queue)?;
    let Some(sql) = &queue.sql.turn else {
        return Ok(QueueLimitValues::default());
    };
    let new = StoredLimits::of_change(change);
    let null = rusqlite::types::Null;
    let set = plain(GROUPS, "set_limits");
    let mut set = context.connection.prepare_cached(&set)?;
    let values: &[&dyn ToSql] = &[
        &queue.spec.name,
        &null,
        &new.max_leases,
        &new.rate.items,
        &new.rate.micros,
        &new.rate.burst,
        &new.group_max_leases,
        &new.group_rate.items,
        &new.group_rate.micros,
        &new.group_rate.burst,
    ];
    bind(&mut set, 1, values)?;
    set.raw_execute()?;
    let row = read_row(&context.connection, &sql.read_row, &queue.spec)?.unwrap_or_default();
    Ok(row.limits.values())
}

/// Returns the policy in the row of the queue. `None`: it has none yet.
pub(super) fn stored_policy(
    connection: &Connection,
    queue: &QueueSpec,
) -> Result<Option<String>, StoreError> {
    let table = Table::read(connection, "lease_broker_queue")?;
    let has_policy = table.is_some_and(|table| table.column("policy").is_some());
    if !has_policy {
        return Ok(None);
    }
    let stored = plain(GROUPS, "read_policy");
    let stored = connection.query_row(&stored, [&queue.name], |row| row.get(0));
    Ok(stored.optional()?.flatten())
}
