//! Partitioned tables: the filegroup for the queue's indexes of such a table, and indexes that are partitioned like it.

use lease_broker_model::queue::QueueSpec;

use super::catalogue::Table;
use super::connection::Connection;
use super::decode::{integer, text};
use super::index;
use super::quote::quote_table;
use super::soft_lock_types::queue_columns;
use super::types::ColumnType;
use crate::StoreError;
use crate::index_role::IndexRole;
use crate::queue_columns::QueueColumns;

/// Reads the partitions of the table `@P1`. If the table is partitioned, the first row has the database's default filegroup.
/// Each further row has an index that is partitioned, with the column by which it is.
const PARTITIONS: &str = "SELECT 0 AS lb_kind, CAST(g.name AS nvarchar(128)) AS lb_name, CAST(NULL AS nvarchar(128)) AS lb_column
FROM sys.indexes AS i
    INNER JOIN sys.partition_schemes AS s ON s.data_space_id = i.data_space_id
    INNER JOIN sys.filegroups AS g ON g.is_default = 1 AND g.type = 'FG'
WHERE i.object_id = OBJECT_ID(@P1) AND i.index_id IN (0, 1)
UNION ALL
SELECT 1, CAST(i.name AS nvarchar(128)), CAST(c.name AS nvarchar(128))
FROM sys.indexes AS i
    INNER JOIN sys.partition_schemes AS s ON s.data_space_id = i.data_space_id
    INNER JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id AND k.partition_ordinal = 1
    INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE i.object_id = OBJECT_ID(@P1) AND i.index_id > 0";

/// The partitions of a table. Empty for a table that is not partitioned.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    /// The database's default filegroup, if the table is partitioned.
    pub(super) filegroup: Option<String>,
    pub(super) indexes: Vec<PartitionedIndex>,
}

/// An index that is partitioned.
#[derive(Debug)]
pub(super) struct PartitionedIndex {
    pub(super) name: String,
    /// The partitioning column.
    pub(super) column: String,
}

impl Partitions {
    pub(super) async fn read(connection: &mut Connection, table: &str) -> Result<Self, StoreError> {
        let results = connection.query(PARTITIONS, &[&quote_table(table)]).await?;
        let mut partitions = Self::default();
        for row in results.iter().flatten() {
            let name = text(row, 1)?;
            match integer(row, 0)? {
                0 => partitions.filegroup = Some(name),
                _ => partitions.indexes.push(PartitionedIndex {
                    name,
                    column: text(row, 2)?,
                }),
            }
        }
        Ok(partitions)
    }

    fn index(&self, name: &str) -> Option<&PartitionedIndex> {
        let mut indexes = self.indexes.iter();
        indexes.find(|index| index.name == name)
    }
}

/// Returns the warnings about the queue's indexes, one sentence each. Babelfish partitions every index of a partitioned table, so
/// there is nothing to correct.
pub(super) async fn warnings(
    connection: &mut Connection,
    queue: &QueueSpec,
    table: &Table,
) -> Result<Vec<String>, StoreError> {
    let Ok(columns) = queue_columns(queue, table) else {
        return Ok(Vec::new());
    };
    if connection.server_info.babelfish {
        return Ok(Vec::new());
    }
    let partitions = Partitions::read(connection, &queue.table).await?;
    let mut warnings = partitioned_indexes(&partitions, queue, &columns, table);
    warnings.extend(partitioned_key(&partitions, queue, &columns, table));
    Ok(warnings)
}

/// Returns one warning for each index of the queue that should be in one piece and is partitioned.
pub(super) fn partitioned_indexes(
    partitions: &Partitions,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) -> Vec<String> {
    let whole = IndexRole::of(queue).filter(|role| is_whole(*role));
    let partitioned = whole.filter_map(|role| {
        let name = &index::find(role, queue, columns, table)?.name;
        partitions.index(name).map(|_| (role, name))
    });
    let warning = |(role, name): (IndexRole, &String)| {
        format!(
            "the {} index {name} of table {:?} is partitioned: unless its first column is the partitioning column, a search \
             reads, locks and sorts the rows of all partitions. Drop the index and run `lease-broker schema apply`, which \
             creates it in one piece",
            role.name(),
            queue.table
        )
    };
    partitioned.map(warning).collect()
}

/// Returns a warning if the rows of the key's index are sorted within each partition only, so that a walk in the order of the key
/// takes its next rows from all partitions.
pub(super) fn partitioned_key(
    partitions: &Partitions,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) -> Option<String> {
    let index = index::key_index(&columns.key, table)?;
    let PartitionedIndex { name, column } = partitions.index(&index.name)?;
    let is_sorted = index.columns.first().is_some_and(|first| first.is(column));
    (!is_sorted).then(|| {
        format!(
            "the index {name} of the key of table {:?} is partitioned by {column}, which is not its first column. Each page of `find \
             items`, each 2,000 rows of the back-fill by `schema apply`, and, unless completed_index = true, each 500 rows that keep_for \
             looks at, read and sort all rows that follow in the order of the key: for a large table see \"Partitioned tables\" in \
             docs/sql-server.md",
            queue.table
        )
    })
}

/// Returns whether the index of `role` has to be in one piece. Claims, the reaper and retention take the first rows of an index
/// in its order. A look-up by token takes one row, so it may seek in each partition.
pub(super) fn is_whole(role: IndexRole) -> bool {
    role != IndexRole::Token
}
