//! Runs: the leases of consecutive items of a group that one claim got together.

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;

use super::held_lease::HELD_COLUMNS;
use super::queue_statements::QueueStatements;
use super::row_error::{RowError, change_row};
use super::statement::{Token, bind, bind_key};
use super::write_context::WriteContext;
use crate::{EndedLease, LeaseProof, StoreError};

/// The leases of a run that are left.
pub(super) struct Run {
    /// In the order of the group.
    leases: Vec<EndedLease>,
    /// The index of the item by which the run was found.
    item: usize,
}

impl Run {
    /// Finds the run of a leased item. `None`: the item is not leased, or claims give no runs for it.
    pub(super) fn find(
        context: &WriteContext,
        queue: &QueueStatements,
        key: &Key,
    ) -> Result<Option<Self>, StoreError> {
        let Some(sql) = &queue.sql.runs else {
            return Ok(None);
        };
        let mut find = context.connection.prepare_cached(&sql.find_run)?;
        bind_key(&mut find, key)?;
        let mut rows = find.raw_query();
        let (mut leases, mut item) = (Vec::new(), None);
        while let Some(row) = rows.next()? {
            if row.get(queue.key.len() + HELD_COLUMNS)? {
                item = Some(leases.len());
            }
            leases.push(queue.read_ended(row, context.now(), State::Ready)?);
        }
        Ok(item.map(|item| Self { leases, item }))
    }

    /// Returns whether no earlier item of the run is leased.
    pub(super) const fn is_first(&self) -> bool {
        self.item == 0
    }

    /// Returns the number of earlier items of the run that are leased.
    pub(super) const fn place(&self) -> usize {
        self.item
    }

    /// Returns whether the lease of the item is this one and has not expired.
    pub(super) fn holds(&self, lease: &LeaseRef, now: i64) -> bool {
        let held = self.leases[self.item].row(State::Leased);
        let (token, fence) = (lease.token, lease.fence);
        held.is_held(LeaseProof { token, fence }, now)
    }

    /// Returns the leases of the items behind the item.
    pub(super) fn later(mut self) -> Vec<EndedLease> {
        self.leases.split_off(self.item + 1)
    }

    /// Returns the lease of the item and those of the items behind it.
    pub(super) fn rest(mut self) -> Vec<EndedLease> {
        self.leases.split_off(self.item)
    }
}

/// Returns whether a lease is held while an earlier item of its run is leased.
pub(super) fn has_earlier(
    context: &WriteContext,
    queue: &QueueStatements,
    lease: &LeaseRef,
) -> Result<bool, StoreError> {
    let Some(sql) = &queue.sql.runs else {
        return Ok(false);
    };
    let mut find = context.connection.prepare_cached(&sql.find_first)?;
    bind_key(&mut find, &lease.key)?;
    bind(
        &mut find,
        4,
        &[&Token(&lease.token), &context.now(), &lease.fence],
    )?;
    let mut rows = find.raw_query();
    let is_first: Option<bool> = rows.next()?.map(|row| row.get(0)).transpose()?;
    Ok(is_first == Some(false))
}

/// Releases leases, and returns those that were held.
pub(super) fn release(
    context: &WriteContext,
    queue: &QueueStatements,
    leases: Vec<EndedLease>,
) -> Result<Vec<EndedLease>, RowError> {
    let mut released = Vec::new();
    let Some(sql) = &queue.sql.runs else {
        return Ok(released);
    };
    let mut release = context.connection.prepare_cached(&sql.release_later)?;
    for ended in leases {
        let LeaseRef {
            key, token, fence, ..
        } = &ended.lease;
        bind_key(&mut release, key)?;
        bind(&mut release, 4, &[&Token(token), &context.now(), fence])?;
        if change_row(&context.connection, &mut release)? > 0 {
            released.push(ended);
        }
    }
    Ok(released)
}
