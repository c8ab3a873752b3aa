//! Properties of columns, indexes and tables that make leasing impossible, or that change how columns are added.

use lease_broker_model::queue::QueueSpec;

use super::catalogue::{Column, Table};
use super::connection::Connection;
use super::decode::{integer, text};
use super::index;
use super::quote::{quote, quote_table};
use super::types::ColumnType;
use crate::StoreError;
use crate::queue_columns::QueueColumns;

/// Reads the restrictions of the table `@P1`: number and name, one per row. The view `sys.tables` has the column `ledger_type`
/// since SQL Server 2022. The server checks the names in a batch before it runs the batch, so that column is read by a statement
/// of its own.
const RESTRICTIONS: &str = "SELECT 0 AS lb_kind, c.name AS lb_name FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(@P1) AND c.is_masked = 1
    AND COALESCE(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'UNMASK'), 0) = 0
    AND COALESCE(HAS_PERMS_BY_NAME(@P1, 'OBJECT', 'UNMASK', c.name, 'COLUMN'), 0) = 0
UNION ALL SELECT 1, c.name FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(@P1) AND c.encryption_type IS NOT NULL
UNION ALL SELECT CASE i.type WHEN 1 THEN 2 ELSE 3 END, i.name FROM sys.indexes AS i
WHERE i.object_id = OBJECT_ID(@P1) AND i.type IN (1, 2) AND i.allow_row_locks = 0 AND i.is_disabled = 0;
IF EXISTS (SELECT * FROM sys.all_columns AS c
    WHERE c.object_id = OBJECT_ID(N'sys.tables') AND c.name = N'ledger_type')
EXECUTE sys.sp_executesql N'SELECT 3 + t.ledger_type AS lb_kind, t.name AS lb_name FROM sys.tables AS t
WHERE t.object_id = OBJECT_ID(@table) AND t.ledger_type > 0', N'@table nvarchar(600)', @P1;";

/// A restriction, with the name of the column or index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Restriction {
    /// The login reads invented values of the column.
    Masked(String),
    /// The server cannot compare the column's values.
    Encrypted(String),
    /// The clustered index does not allow row locks.
    ClusteredWithoutRowLocks(String),
    /// A nonclustered index does not allow row locks.
    WithoutRowLocks(String),
    /// The history of an updatable ledger table.
    LedgerHistory,
    /// An updatable ledger table: columns cannot be added as NOT NULL.
    UpdatableLedger,
    /// A ledger table that allows no change of a row.
    AppendOnlyLedger,
}

/// Reads the restrictions of `table`. Babelfish has none of these features.
pub(super) async fn read(
    connection: &mut Connection,
    table: &str,
) -> Result<Vec<Restriction>, StoreError> {
    if connection.server_info.babelfish {
        return Ok(Vec::new());
    }
    let results = connection
        .query(RESTRICTIONS, &[&quote_table(table)])
        .await?;
    let restriction = |row| {
        let name = text(row, 1)?;
        Ok(Some(match integer(row, 0)? {
            0 => Restriction::Masked(name),
            1 => Restriction::Encrypted(name),
            2 => Restriction::ClusteredWithoutRowLocks(name),
            3 => Restriction::WithoutRowLocks(name),
            4 => Restriction::LedgerHistory,
            5 => Restriction::UpdatableLedger,
            6 => Restriction::AppendOnlyLedger,
            _ => return Ok(None),
        }))
    };
    let rows = results.iter().flatten();
    rows.filter_map(|row| restriction(row).transpose())
        .collect()
}

/// Returns one sentence for each restriction that makes leasing impossible.
pub(super) fn problems(
    restrictions: &[Restriction],
    queue: &QueueSpec,
    table: &Table,
    columns: &QueueColumns<ColumnType>,
) -> Vec<String> {
    let is_used = |name: &str| {
        queue.soft_lock.contains(name)
            || queue
                .writable
                .iter()
                .any(|column| column.eq_ignore_ascii_case(name))
            || columns
                .order
                .iter()
                .any(|part| part.column.eq_ignore_ascii_case(name))
    };
    let locks_rows_of = |name: &str| {
        let mut used = index::used(queue, columns, table);
        used.any(|index| index.name == name) || is_key_index(table, name, &columns.key)
    };
    let table = &queue.table;
    let row_locks = |index: &str| {
        format!(
            "the index {index} of table {table:?} does not allow row locks, and the broker locks single rows: ALTER INDEX {} ON \
             {} SET (ALLOW_ROW_LOCKS = ON)",
            quote(index),
            quote_table(table)
        )
    };
    let problem = |restriction: &Restriction| match restriction {
        Restriction::Masked(column) if is_used(column) => Some(format!(
            "the column {column} of table {table:?} is masked, and a claim would read its mask: grant UNMASK to the broker's \
             login, or remove the mask"
        )),
        Restriction::Encrypted(column) if is_used(column) => Some(format!(
            "the column {column} of table {table:?} is encrypted (Always Encrypted), and the server cannot sort or compare it: \
             use another column"
        )),
        Restriction::ClusteredWithoutRowLocks(index) => Some(row_locks(index)),
        Restriction::WithoutRowLocks(index) if locks_rows_of(index) => Some(row_locks(index)),
        Restriction::LedgerHistory => Some(format!(
            "{table:?} is the history of a ledger table: use the ledger table itself"
        )),
        Restriction::AppendOnlyLedger => Some(format!(
            "{table:?} is an append-only ledger table, whose rows cannot change: use an updatable ledger table or an ordinary \
             one"
        )),
        _ => None,
    };
    restrictions.iter().filter_map(problem).collect()
}

/// Returns whether `name` is a unique index on exactly the columns of the key.
fn is_key_index(table: &Table, name: &str, key: &[Column]) -> bool {
    table.index(name).is_some_and(|index| {
        index.unique
            && index.columns.len() == key.len()
            && index
                .columns
                .iter()
                .all(|part| key.iter().any(|column| part.is(&column.name)))
    })
}

/// Returns whether columns can be added as NOT NULL. On a ledger table they cannot (Microsoft's documentation "Ledger
/// considerations and limitations").
pub(super) fn allow_not_null_columns(restrictions: &[Restriction]) -> bool {
    !restrictions.contains(&Restriction::UpdatableLedger)
}
