//! Epochs of a database: what each process knows of the present one, and the beginning of a new one after a restore.

use std::fmt;

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use parking_lot::Mutex;
use tiberius::Row;
use uuid::Uuid;

use super::catalogue::Table;
use super::connection::Connection;
use super::end_leases::EndLeases;
use super::soft_lock_types::queue_columns;
use super::{decode, placeholders};
use crate::epoch::{CancelledOperation, NewEpoch, fence_after, left_queues, went_back};
use crate::template::plain;
use crate::{ListedBroker, StoreError};

const EPOCH: &str = lease_broker_sql::mssql::EPOCH;

/// A moment of the database: the fence of the epoch, and the generation. Later moments are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    fence: i64,
    generation: i64,
}

impl Moment {
    /// Reads a moment from a row: fence and generation.
    pub(super) fn read(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            fence: decode::integer(row, 0)?,
            generation: decode::integer(row, 1)?,
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of epoch {}", self.generation, self.fence)
    }
}

/// The latest moment of the database that this process has seen. An earlier one afterwards means that it went back in time.
#[derive(Default)]
pub(super) struct LatestMoment(Mutex<Latest>);

#[derive(Default)]
struct Latest {
    /// `None`: the store is not open yet.
    moment: Option<Moment>,
    went_back: bool,
}

impl LatestMoment {
    /// Forgets everything, for a store that opens. It serves the database as it finds it.
    pub(super) fn forget(&self) {
        *self.0.lock() = Latest::default();
    }

    /// Returns the latest moment. `None`: the store is not open yet.
    pub(super) fn known(&self) -> Option<Moment> {
        self.0.lock().moment
    }

    /// Takes over a moment that was read. `known`: the latest before the read began. Reads of several connections can end in another
    /// order than they began.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it is earlier than `known`.
    pub(super) fn see(&self, known: Option<Moment>, found: Moment) -> Result<(), StoreError> {
        let mut latest = self.0.lock();
        if let Some(known) = known.filter(|known| *known > found) {
            latest.went_back = true;
            return Err(went_back("the database", known, found));
        }
        if latest.moment <= Some(found) {
            *latest = Latest {
                moment: Some(found),
                went_back: false,
            };
        }
        Ok(())
    }

    /// Reads the moment on a connection, once the store is open.
    pub(super) async fn check(&self, connection: &mut Connection) -> Result<(), StoreError> {
        match self.known() {
            None => Ok(()),
            Some(_) => self.read(connection).await,
        }
    }

    /// Reads the moment on a connection.
    pub(super) async fn read(&self, connection: &mut Connection) -> Result<(), StoreError> {
        let known = self.known();
        let results = connection.batch(&plain(EPOCH, "read")).await?;
        self.see(known, Moment::read(decode::single_row(&results, 0)?)?)
    }

    /// Returns whether the last moment that was read is earlier than one before.
    pub(super) fn went_back(&self) -> bool {
        self.0.lock().went_back
    }
}

/// Begins a new epoch, cancels the operations that run, and ends the leases of the queues. A queue whose table does not exist, or is
/// not adopted yet, is left out. The table may lack columns that a backup does not have yet.
///
/// # Errors
/// [`StoreError::Misconfigured`] if a row refuses the end of its lease also without its mirror columns, or if a table does not fit. All
/// other leases are ended.
pub(super) async fn begin(
    connection: &mut Connection,
    queues: &[QueueSpec],
    brokers: &[ListedBroker],
) -> Result<NewEpoch, StoreError> {
    let results = connection.batch(&plain(EPOCH, "read")).await?;
    let last = Moment::read(decode::single_row(&results, 0)?)?;
    let fence = fence_after(last.fence)?;
    let results = connection.query(&plain(EPOCH, "raise"), &[&fence]).await?;
    let cancelled = decode::result_set(&results, 0)?.iter();
    let cancelled_operations = cancelled.map(read_cancelled).collect::<Result<_, _>>()?;
    let mut ended_leases = Vec::new();
    let mut problems = Vec::new();
    for queue in queues {
        let Some(table) = Table::read(connection, &queue.table).await? else {
            continue;
        };
        // A table that was not adopted yet has no leases.
        let state = queue.soft_lock.name(SoftLockColumn::State);
        if table.column(state).is_none() {
            continue;
        }
        let queue = queue.to_end_leases(|name| table.column(name).is_some());
        let columns = match queue_columns(&queue, &table) {
            Ok(columns) => columns,
            Err(unfit) => {
                problems.extend(unfit);
                continue;
            }
        };
        let placeholders = placeholders::of_table(&queue, &table, &columns);
        let end_leases = EndLeases::new(&queue, &table, &placeholders, fence);
        let ended = end_leases.run(connection).await?;
        problems.extend(ended.problem(&queue.table));
        ended_leases.push((queue.name.clone(), ended.count));
    }
    if !problems.is_empty() {
        return Err(StoreError::Misconfigured(format!(
            "the new epoch has begun and all other leases are ended, but {}; correct this, for example change the rows or disable the \
             trigger, and run the command again",
            problems.join("; ")
        )));
    }
    Ok(NewEpoch {
        fence,
        ended_leases,
        left_queues: left_queues(brokers, queues),
        cancelled_operations,
    })
}

fn read_cancelled(row: &Row) -> Result<CancelledOperation, StoreError> {
    let text = |column| decode::text(row, column);
    let id = text(0)?;
    let id = Uuid::parse_str(&id)
        .map_err(|_| decode::unexpected(format!("{id:?} is not an id of an operation")))?;
    Ok(CancelledOperation {
        id,
        queue: text(1)?,
        kind: text(2)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(fence: i64, generation: i64) -> Moment {
        Moment { fence, generation }
    }

    #[test]
    fn reads_that_end_in_another_order_are_no_step_back() {
        let latest = LatestMoment::default();
        latest.see(None, moment(0, 4)).expect("the first");
        let (slow, quick) = (latest.known(), latest.known());
        latest.see(quick, moment(0, 6)).expect("later");
        latest.see(slow, moment(0, 5)).expect("it began before");
        assert_eq!(latest.known(), Some(moment(0, 6)));
        assert!(!latest.went_back());
    }

    #[test]
    fn earlier_moment_is_refused_until_a_new_epoch() {
        let latest = LatestMoment::default();
        latest.see(None, moment(0, 6)).expect("the first");
        for found in [moment(0, 5), moment(-1, 9)] {
            let seen = latest.see(latest.known(), found);
            assert!(matches!(seen, Err(StoreError::Io(_))), "{seen:?}");
            assert!(latest.went_back());
        }
        latest
            .see(latest.known(), moment(1, 1))
            .expect("a new epoch");
        assert!(!latest.went_back());
    }
}
