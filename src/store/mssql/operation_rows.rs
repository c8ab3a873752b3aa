//! The rows of operations on many items.

use std::time::Duration;

use serde_json::json;
use tiberius::{Row, ToSql};
use uuid::Uuid;

use super::decode;
use super::list_parameters::{ListEntry, ListParameters};
use super::operations::MssqlOperations;
use super::pause::MAX_TEXT_UNITS;
use super::quote::text_literal;
use super::utf16::cut;
use crate::template::{Placeholders, render};
use crate::{
    BrokerOrders, KEEP_OPERATIONS_FOR, LONGEST_HOLD, NewOperation, Operation, OperationKind,
    OperationState, QueueIndex, StartedOperation, StoreError,
};

const OPERATION: &str = lease_broker_sql::mssql::OPERATION;

impl MssqlOperations {
    pub(super) async fn start_operation(
        &self,
        queue: QueueIndex,
        new: &NewOperation,
    ) -> Result<StartedOperation, StoreError> {
        let queue = &self.queue(queue)?.spec.name;
        let (id, kind) = (new.id.to_string(), new.kind.name());
        let [actor, reason] = [&new.actor, &new.reason].map(|text| cut(text, MAX_TEXT_UNITS));
        let keep = i32::try_from(KEEP_OPERATIONS_FOR.as_secs()).unwrap_or(i32::MAX);
        let parameters: [&dyn ToSql; 7] =
            [&id, queue, &kind, &new.definition, &actor, &reason, &keep];
        let results = self.query_twice(&batch("start"), &parameters).await?;
        let is_new = decode::integer(decode::single_row(&results, 0)?, 0)? == 1;
        let first = |result| -> Result<_, StoreError> {
            let rows = decode::result_set(&results, result)?;
            rows.first().map(read).transpose()
        };
        let running = || decode::unexpected("a new operation is gone".to_owned());
        Ok(match first(1)? {
            Some(stored) if is_new => StartedOperation::Started(stored),
            Some(found)
                if found.queue == *queue
                    && found.kind == kind
                    && found.definition == new.definition =>
            {
                StartedOperation::Repeated(found)
            }
            Some(_) => StartedOperation::OtherDefinition,
            None => StartedOperation::Running(first(2)?.ok_or_else(running)?),
        })
    }

    pub(super) async fn operation(&self, id: Uuid) -> Result<Option<Operation>, StoreError> {
        self.query_operation("read", &[&id.to_string()]).await
    }

    pub(super) async fn cancel_operation(
        &self,
        id: Uuid,
        actor: &str,
    ) -> Result<Option<Operation>, StoreError> {
        let (id, actor) = (id.to_string(), cut(actor, MAX_TEXT_UNITS));
        self.query_operation("cancel_operation", &[&id, &actor])
            .await
    }

    pub(super) async fn take_operation(
        &self,
        id: Uuid,
        broker: Uuid,
        duration: Duration,
    ) -> Result<Option<Operation>, StoreError> {
        let (id, broker) = (id.to_string(), broker.to_string());
        let (duration, longest) = (millis(duration), millis(LONGEST_HOLD));
        self.query_operation("take", &[&id, &broker, &duration, &longest])
            .await
    }

    async fn query_operation(
        &self,
        section: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Option<Operation>, StoreError> {
        let sql = batch(section);
        let results = self.query_idempotent(&sql, parameters).await?;
        results.iter().flatten().next().map(read).transpose()
    }

    pub(super) async fn operations(
        &self,
        queues: &[String],
        only_running: bool,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        let (lists, only_running) = (queue_list(queues), i32::from(only_running));
        let before = before.map(|id| id.to_string()).unwrap_or_default();
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let parameters = lists.and(&[&only_running, &before, &limit]);
        let results = self.query_idempotent(&batch("list"), &parameters).await?;
        results.iter().flatten().map(read).collect()
    }

    pub(super) async fn read_orders(
        &self,
        broker: Uuid,
        queues: &[String],
    ) -> Result<BrokerOrders, StoreError> {
        let (lists, broker) = (queue_list(queues), broker.to_string());
        let longest = millis(LONGEST_HOLD);
        let parameters = lists.and(&[&broker, &longest]);
        let results = self
            .query_idempotent(&batch("read_orders"), &parameters)
            .await?;
        let operations = decode::result_set(&results, 1)?.iter().map(read);
        Ok(BrokerOrders {
            drain: decode::integer(decode::single_row(&results, 0)?, 0)? == 1,
            operations: operations.collect::<Result<_, _>>()?,
        })
    }
}

/// Renders the batch in a section of `operation.sql` about rows of operations.
pub(super) fn batch(section: &str) -> String {
    let top = if section == "list" { "TOP (@P9) " } else { "" };
    let slots = OperationKind::ALL.map(|kind| text_literal(kind.name()));
    let mut placeholders = Placeholders::from([
        ("top", top.to_owned()),
        // The column has another type than a literal with N.
        ("slots", slots.join(", ").replace("N'", "'")),
    ]);
    for part in ["columns", "queues"] {
        let text = render(OPERATION, part, &placeholders);
        placeholders.insert(part, text);
    }
    render(OPERATION, section, &placeholders)
}

/// Returns the list of queues.
fn queue_list(queues: &[String]) -> ListParameters {
    let entry = |queue: &String| {
        let mut entry = ListEntry::default();
        entry.insert("q", json!(queue));
        entry
    };
    ListParameters::new(vec![queues.iter().map(entry).collect()])
}

/// Returns a duration in milliseconds. DATEADD takes 32-bit numbers.
pub(super) fn millis(duration: Duration) -> i32 {
    let millis = lease_broker_model::millis::millis_rounded_up(duration);
    i32::try_from(millis).unwrap_or(i32::MAX)
}

/// Reads an operation from a row with the columns of the section `columns`.
fn read(row: &Row) -> Result<Operation, StoreError> {
    let optional = |column| decode::optional_text(row, column);
    let text = |column| decode::text(row, column);
    let uuid = |text: &str| {
        Uuid::parse_str(text).map_err(|_| decode::unexpected(format!("{text:?} is not an id")))
    };
    let code = decode::integer(row, 7)?;
    let no_state = || decode::unexpected(format!("no state of an operation has the number {code}"));
    Ok(Operation {
        id: uuid(&text(0)?)?,
        queue: text(1)?,
        kind: text(2)?,
        definition: text(3)?,
        actor: text(4)?,
        reason: text(5)?,
        create_time: decode::time(row, 6)?,
        state: OperationState::from_code(code).ok_or_else(no_state)?,
        end_time: decode::optional_time(row, 8)?,
        batches: decode::integer(row, 9)?,
        position: optional(10)?,
        examined: decode::integer(row, 11)?,
        changed: decode::integer(row, 12)?,
        refused: decode::integer(row, 13)?,
        error: optional(14)?,
        holder: optional(15)?.map(|id| uuid(&id)).transpose()?,
        cancelled_by: optional(16)?,
    })
}
