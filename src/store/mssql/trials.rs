//! `schema check --triggers`: lists the triggers that changes of a queue's rows run, and runs them by changes of 0, 1 and 2 rows that
//! are rolled back (`triggers.sql`).

use lease_broker_model::queue::QueueSpec;
use tiberius::error::Error;

use super::catalogue::{Table, no_table};
use super::connection::Connection;
use super::decode::{integer, single_row, text};
use super::quote::{quote, quote_table};
use super::soft_lock_types::queue_columns;
use super::{cascades, placeholders};
use crate::StoreError;
use crate::adoption::with;
use crate::schema::{Trial, TrialOutcome};
use crate::template::render;

const TRIGGERS: &str = lease_broker_sql::mssql::TRIGGERS;

/// Reads the enabled triggers of the table `@P1`.
const OWN: &str = "SELECT CAST(g.name AS nvarchar(128)) FROM sys.triggers AS g
WHERE g.parent_id = OBJECT_ID(@P1) AND g.is_disabled = 0 ORDER BY g.name";

/// Ends what a trial left, and restores the options that it changed.
const CLEAN_UP: &str = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; SET XACT_ABORT ON;";

/// Returns the triggers of the queue's table and of the tables that a deletion reaches.
pub(super) async fn triggers(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<String>, StoreError> {
    let object = quote_table(&queue.table);
    let own = connection.query(OWN, &[&object]).await?;
    let mut triggers = Vec::new();
    for row in own.iter().flatten() {
        let name = text(row, 0)?;
        triggers.push(format!("trigger {name} of table {}", queue.table));
    }
    if removes_rows(queue) {
        for trigger in cascades::triggers(connection, &object).await? {
            let (name, table) = (trigger.name, trigger.table);
            triggers.push(format!(
                "trigger {name} of table {table}, which a cascade reaches"
            ));
        }
    }
    Ok(triggers)
}

fn removes_rows(queue: &QueueSpec) -> bool {
    let ages = &queue.keep_for;
    queue.on_complete.removes_row() || ages.completed.is_some() || ages.dead.is_some()
}

/// Runs the triggers.
///
/// # Errors
/// [`StoreError::Misconfigured`] if the table is not adopted.
pub(super) async fn try_triggers(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<Trial>, StoreError> {
    let Some(table) = Table::read(connection, &queue.table).await? else {
        return Err(no_table(connection, queue).await);
    };
    let columns = queue_columns(queue, &table)
        .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
    let lacking = queue
        .soft_lock_names()
        .find(|name| table.column(name).is_none());
    if let Some(lacking) = lacking {
        return Err(StoreError::Misconfigured(format!(
            "table {:?} lacks the column {lacking}: run `lease-broker schema apply` before the trial of its triggers",
            queue.table
        )));
    }
    let mirrors = queue.mirror.iter().map(|mirror| &*mirror.column);
    let mut set: Vec<String> = Vec::new();
    for name in queue.soft_lock_names().chain(mirrors) {
        let own_value = format!("{} = t.{}", quote(name), quote(name));
        if !set.contains(&own_value) {
            set.push(own_value);
        }
    }
    let copied = columns.insertable.iter();
    let copied: Vec<String> = copied.map(|column| quote(&column.name)).collect();
    let placeholders = with(
        &placeholders::of_queue(queue),
        [
            ("own_values", set.join(", ")),
            ("copied_columns", copied.join(", ")),
        ],
    );
    // Each with its section of the file, and the numbers of rows to try.
    let mut changes = vec![("UPDATE", "try_update", 0..=2)];
    if removes_rows(queue) {
        changes.push(("DELETE", "try_delete", 0..=2));
    }
    if !copied.is_empty() {
        // The broker never inserts no row.
        changes.push(("INSERT", "try_insert", 1..=2));
    }
    let mut trials = Vec::new();
    for (change, section, rows) in changes {
        for rows in rows {
            let placeholders = with(&placeholders, [("rows", rows.to_string())]);
            let sql = render(TRIGGERS, section, &placeholders);
            let outcome = try_change(connection, &sql, rows).await?;
            let plural = if rows == 1 { "row" } else { "rows" };
            trials.push(Trial {
                change: format!("{change} of {rows} {plural}"),
                outcome,
            });
        }
    }
    Ok(trials)
}

/// Tries a change of this number of rows.
async fn try_change(
    connection: &mut Connection,
    sql: &str,
    rows: usize,
) -> Result<TrialOutcome, StoreError> {
    let tried = connection.batch(sql).await;
    connection.batch(CLEAN_UP).await?;
    Ok(match tried {
        Ok(results) => {
            // Triggers can send results of their own.
            let last = results.len().saturating_sub(1);
            let changed = integer(single_row(&results, last)?, 0)?;
            if usize::try_from(changed) == Ok(rows) {
                TrialOutcome::Passed
            } else {
                TrialOutcome::NotTried(format!("{changed} rows are free"))
            }
        }
        Err(Error::Server(token)) if is_of_the_change(token.code(), token.message()) => {
            TrialOutcome::NotTried(token.message().to_owned())
        }
        Err(Error::Server(token)) => {
            TrialOutcome::Failed(format!("{} (error {})", token.message(), token.code()))
        }
        Err(error) => return Err(error.into()),
    })
}

/// Returns whether a constraint refuses the change itself: a key that is there already, or a row that others refer to.
fn is_of_the_change(number: u32, message: &str) -> bool {
    let unmapped = number == super::remedy::UNMAPPED
        && (message.contains("unique constraint") || message.contains("foreign key constraint"));
    matches!(number, 547 | 2601 | 2627) || unmapped
}
