//! The size of an index's key. SQL Server creates an index whose columns can together be too long, and later refuses the rows that are.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};

use super::catalogue::Table;
use super::index;
use super::types::ColumnType;
use super::value_limits::split_sizes;
use crate::queue_columns::QueueColumns;

/// The maximum size of the key of a nonclustered index (Microsoft's documentation "Maximum capacity specifications for SQL Server").
const MAX_BYTES: u32 = 1_700;

/// Returns one warning for each index of the queue whose key can be too long. The server's own warning is of a class that the driver
/// does not report.
pub(super) fn warnings(
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) -> Vec<String> {
    let state = queue.soft_lock.name(SoftLockColumn::State);
    let warnings = index::roles(queue).filter_map(|role| {
        let leading_state = (!queue.filtered_indexes).then(|| state.to_owned());
        let sorted_by = role.columns(queue, columns).into_iter();
        let names = leading_state.into_iter().chain(sorted_by.map(|part| part.column));
        let names: Vec<String> = names.collect();
        let bytes = names.iter().filter_map(|name| table.column(name));
        let bytes: u32 = bytes.map(|column| max_bytes(&column.declared)).sum();
        (bytes > MAX_BYTES).then(|| {
            format!(
                "the columns of the {} index of table {:?} ({}) can have {bytes} bytes together, and SQL Server allows {MAX_BYTES}. An INSERT \
                 or UPDATE of any program whose values are longer fails with error 1946: shorten a column, or name others in the settings \
                 order, group or key of queue {:?}",
                role.name(),
                queue.table,
                names.join(", "),
                queue.name
            )
        })
    });
    warnings.collect()
}

/// Returns the most bytes that a value of the type takes in an index. An index cannot have a column of a type without a limit.
fn max_bytes(declared: &str) -> u32 {
    let (name, [length, _]) = split_sizes(declared);
    match name {
        "nchar" | "nvarchar" => length.unwrap_or_default() * 2,
        "char" | "varchar" | "binary" | "varbinary" => length.unwrap_or_default(),
        "bit" | "tinyint" => 1,
        "smallint" => 2,
        "date" => 3,
        "int" | "real" | "smalldatetime" => 4,
        "time" => 5,
        "datetimeoffset" => 10,
        "uniqueidentifier" => 16,
        "decimal" | "numeric" => 17,
        "sysname" => 256,
        "hierarchyid" => 892,
        "sql_variant" => 8_016,
        _ => 8,
    }
}
