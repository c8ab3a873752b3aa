//! Whether the soft-lock columns that a table has can hold what the broker keeps in them. The types are exact where another
//! would turn an index seek into a scan (a comparison converts `datetime` to `datetime2`, not the other way round) or lose
//! something.

use super::catalogue::{Column, Table};
use super::types::ColumnType;
use crate::queue::{QueueSpec, SoftLockColumn};

/// Returns one sentence for each column of another type.
pub(super) fn problems(queue: &QueueSpec, table: &Table) -> Vec<String> {
    let wrong = |part: SoftLockColumn| {
        let column = table.column(queue.soft_lock.name(part))?;
        let (fits, needed) = fits(part, column);
        let by_server = if column.generated {
            ", made by the server"
        } else {
            ""
        };
        (!fits).then(|| {
            format!(
                "the column {} of table {:?} is {}{by_server}; as {} it has to be {needed}",
                column.name,
                queue.table,
                column.declared,
                part.default_name()
            )
        })
    };
    SoftLockColumn::ALL.into_iter().filter_map(wrong).collect()
}

fn fits(part: SoftLockColumn, column: &Column) -> (bool, &'static str) {
    let (name, length) = split(&column.declared);
    let integer = |least: i64| match column.kind {
        ColumnType::Int(_, most) => most >= least,
        _ => false,
    };
    let text = |names: &[&str], least: u32| {
        names.contains(&name) && length.is_none_or(|length| length >= least)
    };
    let (fits, needed) = match part {
        SoftLockColumn::State => (integer(255), "smallint, tinyint or int"),
        SoftLockColumn::StateTime | SoftLockColumn::DueTime => (name == "datetime2", "datetime2"),
        SoftLockColumn::Owner => (text(&["nvarchar"], 128), "nvarchar(128) or longer"),
        SoftLockColumn::Token => (column.kind == ColumnType::Guid, "uniqueidentifier"),
        SoftLockColumn::Fence => (integer(i64::MAX), "bigint"),
        SoftLockColumn::Attempt => (integer(i32::MAX.into()), "int or bigint"),
        SoftLockColumn::Error => (text(&["nvarchar"], 1_024), "nvarchar(1024) or longer"),
        SoftLockColumn::TraceParent => {
            (text(&["varchar", "nvarchar"], 55), "varchar(55) or longer")
        }
    };
    (fits && !column.generated, needed)
}

/// Splits `name(length)`; no length: it is `max`, or the type has none.
fn split(declared: &str) -> (&str, Option<u32>) {
    match declared.split_once('(') {
        Some((name, length)) => (name, length.trim_end_matches(')').parse().ok()),
        None => (declared, None),
    }
}
