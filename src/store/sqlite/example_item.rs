//! Finds an item with which a user can try a queue.

use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;

use super::catalogue::{Column, Table};
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::types::{ColumnType, MAX_ROW_NUMBER};
use crate::example_item::{Candidate, example, text_for};
use crate::queue_columns::QueueColumns;
use crate::{NewItem, StoreError};

/// Returns whether table `?1` has a CHECK constraint or a trigger. Both can refuse any value. The definition is searched
/// without spaces, so that a column such as `checked` is no CHECK.
const HAS_RULES: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema
    WHERE tbl_name = ?1 COLLATE NOCASE AND (type = 'trigger' OR type = 'table'
        AND replace(replace(replace(replace(sql, ' ', ''), char(9), ''), char(10), ''), char(13), '') LIKE '%check(%'))";

/// Returns whether column `?2` of table `?1` has a default, and whether it is in a unique index or in a foreign key. The
/// name of an index's expression is NULL.
const RULES_OF_COLUMN: &str = "SELECT
    EXISTS (SELECT 1 FROM pragma_table_xinfo(?1) AS c WHERE c.name = ?2 AND upper(c.dflt_value) <> 'NULL'),
    EXISTS (SELECT 1 FROM pragma_index_list(?1) AS i, pragma_index_info(i.name) AS k
        WHERE i.\"unique\" AND (k.name = ?2 OR k.name IS NULL)),
    EXISTS (SELECT 1 FROM pragma_foreign_key_list(?1) AS f WHERE f.\"from\" = ?2 COLLATE NOCASE)";

/// Returns columns and values of an example. See [`Facts::example_item`](crate::Facts::example_item).
pub(super) fn find(
    connection: &Connection,
    queue: &QueueStatements,
) -> Result<Option<Vec<(String, String)>>, StoreError> {
    let name = &queue.spec.table;
    let Some(table) = Table::read(connection, name)? else {
        return Ok(None);
    };
    let Ok(columns) = QueueColumns::new(&queue.spec, &table, Vec::new()) else {
        return Ok(None);
    };
    if connection.query_row(HAS_RULES, [name], |row| row.get(0))? {
        return Ok(None);
    }
    let mut candidates = Vec::new();
    let mut foreign = Vec::new();
    for column in &columns.insertable {
        if column.kind == ColumnType::RowNumber {
            continue;
        }
        let (has_default, is_unique, is_foreign): (bool, bool, bool) =
            connection.query_row(RULES_OF_COLUMN, [name, &column.name], |row| row.try_into())?;
        let is_key = queue.key.iter().any(|key| key.name == column.name);
        if is_foreign {
            foreign.push(&column.name);
        }
        candidates.push(Candidate {
            column,
            is_required: !has_default && (is_key || !column.nullable),
            is_restricted: is_unique || is_foreign,
        });
    }
    let restricted = |column: &Column| {
        if foreign.contains(&&column.name) {
            return Ok(None);
        }
        free_value(connection, name, &table, column)
    };
    let accepts = |item: &NewItem| queue.encode_item(item).is_ok();
    example(&candidates, restricted, accepts)
}

/// Returns a value that no row has in a column of a unique index. `None`: the index does not begin with the column, so that
/// a search would read the whole table, or the value is in use.
fn free_value(
    connection: &Connection,
    name: &str,
    table: &Table,
    column: &Column,
) -> Result<Option<String>, StoreError> {
    let mut unique = table.unique.iter();
    if !unique.any(|columns| columns.first() == Some(&column.name)) {
        return Ok(None);
    }
    let (quoted, quoted_table) = (quote(&column.name), quote(name));
    if column.kind == ColumnType::Integer {
        let sql = format!("SELECT max({quoted}) FROM {quoted_table}");
        let largest = connection.query_row(&sql, [], |row| row.get(0))?;
        return Ok(match largest {
            SqlValue::Null => Some(1),
            SqlValue::Integer(largest) if largest < MAX_ROW_NUMBER => Some(largest + 1),
            _ => None,
        }
        .map(|number| number.to_string()));
    }
    let Some(text) = text_for(&column.declared) else {
        return Ok(None);
    };
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {quoted_table} WHERE {quoted} = ?1)");
    let is_used: bool = connection.query_row(&sql, [&text], |row| row.get(0))?;
    Ok((!is_used).then_some(text))
}
