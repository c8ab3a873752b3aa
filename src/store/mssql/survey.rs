//! Describes the tables of a database for a person who wants to make one a queue.

use super::added_parts;
use super::catalogue::Table;
use super::connection::Connection;
use super::decode;
use super::quote::{quote, quote_table, text_literal};
use crate::schema::SAMPLED_ROWS;
use crate::{StoreError, Survey};

/// Reads the names of the tables, with their schema unless it is the login's own. A name with a dot is in brackets.
const TABLES: &str = "SELECT CAST(CONCAT(
    CASE WHEN s.name = SCHEMA_NAME() THEN NULL WHEN s.name LIKE N'%.%' THEN CONCAT(N'[', s.name, N'].') ELSE CONCAT(s.name, N'.') END,
    CASE WHEN t.name LIKE N'%.%' THEN CONCAT(N'[', t.name, N']') ELSE t.name END) AS nvarchar(261)) AS lb_name
FROM sys.tables AS t INNER JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE t.name NOT LIKE N'lease[_]broker[_]%' AND t.is_ms_shipped = 0
ORDER BY lb_name";

/// Returns the names of the tables that could become queues.
pub(super) async fn tables(connection: &mut Connection) -> Result<Vec<String>, StoreError> {
    let results = connection.batch(TABLES).await?;
    let rows = results.iter().flatten();
    rows.map(|row| decode::text(row, 0)).collect()
}

/// Describes a table. `None`: it does not exist.
pub(super) async fn survey(
    connection: &mut Connection,
    name: &str,
) -> Result<Option<Survey>, StoreError> {
    let Some(table) = Table::read(connection, name).await? else {
        return Ok(None);
    };
    let rows = count_rows(connection, name).await?;
    let added = added_parts::read(connection, name).await?;
    Ok(Some(Survey::new(&table, &added, rows)))
}

/// Returns up to `limit` different values of a column as text, each with its number of rows.
pub(super) async fn values(
    connection: &mut Connection,
    table: &str,
    column: &str,
    limit: usize,
) -> Result<Vec<(String, u64)>, StoreError> {
    let (table, column) = (quote_table(table), quote(column));
    let values = format!(
        "SELECT TOP ({limit}) s.lb_v, COUNT_BIG(*) AS lb_rows
        FROM (SELECT CAST(d.lb_v AS nvarchar(128)) AS lb_v
            FROM (SELECT TOP ({SAMPLED_ROWS}) t.{column} AS lb_v FROM {table} AS t) AS d) AS s
        WHERE s.lb_v IS NOT NULL GROUP BY s.lb_v ORDER BY s.lb_v"
    );
    let results = connection.batch(&values).await?;
    let rows = results.iter().flatten();
    rows.map(|row| {
        let rows = decode::integer(row, 1)?;
        Ok((decode::text(row, 0)?, rows.unsigned_abs()))
    })
    .collect()
}

/// Returns the number of rows of a table from the server's statistics. Babelfish has none, so there they are counted.
pub(super) async fn count_rows(
    connection: &mut Connection,
    table: &str,
) -> Result<u64, StoreError> {
    let table = quote_table(table);
    let count = if connection.server_info.babelfish {
        format!("SELECT COUNT_BIG(*) FROM {table}")
    } else {
        format!(
            "SELECT COALESCE(SUM(p.rows), 0) FROM sys.partitions AS p WHERE p.object_id = OBJECT_ID({}) AND p.index_id IN (0, 1)",
            text_literal(&table)
        )
    };
    let results = connection.batch(&count).await?;
    Ok(decode::integer(decode::single_row(&results, 0)?, 0)?.unsigned_abs())
}
