//! The turn of a claim in a queue with groups or limits: what the batches answer, and the row of the queue.

use std::time::Duration;

use lease_broker_model::queue::QueueSpec;
use tiberius::{Row, ToSql};

use super::catalogue::Table;
use super::connection::Connection;
use super::decode;
use super::error::OperationFailure;
use super::index;
use super::operations::MssqlOperations;
use super::quote::text_literal;
use crate::index_role::IndexRole;
use crate::template::{Placeholders, plain, render};
use crate::turn::{StoredLimits, StoredRate, check_policy};
use crate::{LimitChange, Limited, QueueIndex, QueueLimitValues, StoreError, TurnCost};

const GROUPS: &str = lease_broker_sql::mssql::GROUPS;

/// The part of a claim's answer about groups and limits.
#[derive(Clone, Copy, Default)]
pub(super) struct LimitAnswer {
    pub(super) limited: Option<Limited>,
    pub(super) cost: TurnCost,
}

/// Reads a row of `tell_limits`. `None`: it is another row.
pub(super) fn limit_answer(row: &Row) -> Option<Result<LimitAnswer, StoreError>> {
    decode::is_named(row, "lb_limited").then(|| {
        let limit = decode::optional_text(row, 0)?;
        let micros = |column| {
            let micros = decode::integer(row, column)?.max(0).unsigned_abs();
            Ok::<_, StoreError>(Duration::from_micros(micros))
        };
        let wait = micros(1)?;
        Ok(LimitAnswer {
            limited: match limit.as_deref() {
                Some("busy") => Some(Limited::GroupsBusy {
                    wait: (!wait.is_zero()).then_some(wait),
                }),
                Some("max_leases") => Some(Limited::MaxLeases),
                Some("rate") => Some(Limited::Rate { wait }),
                _ => None,
            },
            cost: TurnCost {
                is_cut: decode::integer(row, 2)? == 1,
                visited: decode::integer_as(row, 3)?,
                wait: Some(micros(4)?),
            },
        })
    })
}

/// Returns the error of a claim whose queue has other groups in the database, if this is the failure.
pub(super) fn policy_error(queue: &QueueSpec, failure: &OperationFailure) -> Option<StoreError> {
    /// The number of the error in `take_turn`. Its text is the stored policy.
    const OTHER_POLICY: u32 = 51_227;

    let stored = failure.thrown(OTHER_POLICY)?;
    check_policy(queue, Some(&stored)).err()
}

impl MssqlOperations {
    pub(super) async fn set_limits(
        &self,
        queue: QueueIndex,
        change: LimitChange,
    ) -> Result<QueueLimitValues, StoreError> {
        let name = &self.queue(queue)?.spec.name;
        let limits = texts(&StoredLimits::of_change(&change));
        let limits = limits.iter().map(|limit| limit as &dyn ToSql);
        let parameters: Vec<&dyn ToSql> =
            std::iter::once(name as &dyn ToSql).chain(limits).collect();
        let results = self
            .query_idempotent(&batch("set_limits"), &parameters)
            .await?;
        let rows = decode::result_set(&results, 0)?;
        let limits = rows.first().map(read_row).transpose()?;
        Ok(limits.unwrap_or_default().1.values())
    }

    /// Gives a queue its row, and the row the policy and the limits that it does not have yet. Logs the limits of the configuration that
    /// do not count because the row has others. If the configuration has neither groups nor limits, logs that those of the row do not
    /// count.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the row has another policy: claims would get no leases.
    pub(super) async fn fill_row(&self, queue: QueueIndex) -> Result<(), StoreError> {
        let queue = &self.queue(queue)?.spec;
        let own = StoredLimits::of(queue);
        let takes_turns = queue.takes_turns();
        let policy = if takes_turns {
            queue.group_policy()
        } else {
            String::new()
        };
        let limits = texts(&own);
        let names: [&dyn ToSql; 2] = [&queue.name, &policy];
        let limits = limits.iter().map(|limit| limit as &dyn ToSql);
        let parameters: Vec<&dyn ToSql> = names.into_iter().chain(limits).collect();
        let results = self.query_twice(&batch("fill_row"), &parameters).await?;
        let (stored, stored_limits) = read_row(decode::single_row(&results, 0)?)?;
        if !takes_turns {
            stored_limits.warn_if_unused(queue);
            return Ok(());
        }
        for limit in own.differences(&stored_limits) {
            tracing::warn!(
                queue = queue.name,
                limit,
                "limit of the configuration does not count: the database has another one"
            );
        }
        check_policy(queue, stored.as_deref())
    }
}

/// Renders a batch that changes the row of a queue and reads it.
fn batch(section: &str) -> String {
    let read = plain(GROUPS, "read_row");
    render(GROUPS, section, &Placeholders::from([("read_row", read)]))
}

/// Returns limits as the parameters of a batch. Empty: the limit is missing.
fn texts(limits: &StoredLimits) -> [String; 8] {
    let limits = [
        limits.max_leases,
        limits.rate.items,
        limits.rate.micros,
        limits.rate.burst,
        limits.group_max_leases,
        limits.group_rate.items,
        limits.group_rate.micros,
        limits.group_rate.burst,
    ];
    limits.map(|limit| limit.map(|limit| limit.to_string()).unwrap_or_default())
}

/// Reads the policy and the limits of a row.
fn read_row(row: &Row) -> Result<(Option<String>, StoredLimits), StoreError> {
    let limit = |column| decode::optional_integer(row, column);
    let rate = |first| {
        Ok::<_, StoreError>(StoredRate {
            items: limit(first)?,
            micros: limit(first + 1)?,
            burst: limit(first + 2)?,
        })
    };
    let limits = StoredLimits {
        max_leases: limit(1)?,
        rate: rate(2)?,
        group_max_leases: limit(5)?,
        group_rate: rate(6)?,
    };
    Ok((decode::optional_text(row, 0)?, limits))
}

/// Returns the policy in the row of the queue. `None`: it has none yet.
pub(super) async fn stored_policy(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Option<String>, StoreError> {
    let name = Placeholders::from([("queue_literal", text_literal(&queue.name))]);
    let results = connection
        .batch(&render(GROUPS, "read_policy", &name))
        .await?;
    let row = results.iter().flatten().next();
    let stored = row.map(|row| decode::optional_text(row, 0)).transpose()?;
    Ok(stored.flatten())
}

/// Returns the indexes of the table that decide about claims and that the queue does not use, with their roles.
pub(super) fn unused_indexes(
    queue: &QueueSpec,
    table: &Table,
    bare_table: &str,
) -> Vec<(IndexRole, String)> {
    let mut unused = IndexRole::unused(queue, bare_table);
    unused.retain(|(_, name)| index::named(table, name).is_some());
    unused
}
