//! What a table or its database could have and need not.

use super::catalogue::Table;
use super::connection::Connection;
use super::quote::quote_table;
use crate::queue::QueueSpec;
use crate::store::StoreError;

/// Returns it, one sentence each.
pub(super) async fn advice(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<String>, StoreError> {
    let mut advice = Vec::new();
    let table = Table::read(connection, &queue.table).await?;
    let engine = &connection.server_info;
    if !engine.babelfish && table.as_ref().is_some_and(|table| table.escalates) {
        advice.push(format!(
            "no statement of the broker locks enough rows to lock the table, but one of another program could, and every \
             claim would wait for it; to rule it out: ALTER TABLE {} SET (LOCK_ESCALATION = DISABLE)",
            quote_table(&queue.table)
        ));
    }
    if !engine.snapshot {
        advice.push(
            "READ_COMMITTED_SNAPSHOT is off: reports on the table and claims wait for one another; the broker works the \
             same with it: ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE, which ends \
             whatever other programs have under way"
                .to_owned(),
        );
    }
    Ok(advice)
}
