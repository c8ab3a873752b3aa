//! What the server knows of a table: its columns, its unique keys, its indexes.

use tiberius::Row;

use super::connection::Connection;
use super::decode::integer;
use super::quote::quote_table;
use super::types::ColumnType;
use crate::store::StoreError;

/// A table as it is.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    /// The unique lists of columns: the primary key first, if there is one.
    pub(super) unique: Vec<Vec<String>>,
    pub(super) indexes: Vec<Index>,
    /// Whether a statement with many row locks may lock the whole table instead.
    pub(super) lock_escalation: bool,
    /// Whether the engine keeps the names of indexes, and tells their filters. Babelfish does neither.
    pub(super) reports_filters: bool,
}

/// A column as it is.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: ColumnType,
    /// The type as a declaration writes it.
    pub(super) declared: String,
    pub(super) collation: Option<String>,
    pub(super) nullable: bool,
    /// Whether the server computes it, counts it up or stamps it: no insert sets it.
    pub(super) generated: bool,
}

/// An index as it is: its columns, and whether each descends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) columns: Vec<(String, bool)>,
    /// Whether its columns identify a row: it is unique, and not filtered.
    pub(super) unique: bool,
    /// The condition of its rows, as the server writes it.
    pub(super) filter: Option<String>,
}

const KIND: &str = "SELECT o.type, t.is_memory_optimized, t.temporal_type, t.lock_escalation
FROM sys.objects AS o LEFT JOIN sys.tables AS t ON t.object_id = o.object_id
WHERE o.object_id = OBJECT_ID(@P1)";

/// What takes the broker's statements or their effects from the table.
const OBSTACLES: &str = "SELECT g.name, 0 AS lb_kind FROM sys.triggers AS g
WHERE g.parent_id = OBJECT_ID(@P1) AND g.is_disabled = 0 AND g.is_instead_of_trigger = 1
UNION ALL SELECT i.name, 1 FROM sys.indexes AS i WHERE i.object_id = OBJECT_ID(@P1) AND i.type = 5";

const COLUMNS: &str =
    "SELECT CAST(c.name AS nvarchar(128)), t.name, c.max_length, c.precision, c.scale, c.is_nullable, c.is_identity,
    c.is_computed, c.collation_name, c.generated_always_type
FROM sys.columns AS c
    INNER JOIN sys.types AS a ON a.user_type_id = c.user_type_id
    INNER JOIN sys.types AS t ON t.user_type_id = CASE WHEN a.is_user_defined = 1 AND a.is_assembly_type = 0
        THEN a.system_type_id ELSE a.user_type_id END
WHERE c.object_id = OBJECT_ID(@P1)
ORDER BY c.column_id";

/// The names as they were written: Babelfish keeps small letters alone in `sys.columns`.
const WRITTEN: &str = "SELECT n.COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS AS n
WHERE n.TABLE_SCHEMA = OBJECT_SCHEMA_NAME(OBJECT_ID(@P1)) AND n.TABLE_NAME = OBJECT_NAME(OBJECT_ID(@P1))";

const INDEXES: &str = "SELECT CAST(i.name AS nvarchar(128)), i.is_unique, i.has_filter,
    CAST(c.name AS nvarchar(128)), k.is_descending_key, i.filter_definition
FROM sys.indexes AS i
    INNER JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
    INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE i.object_id = OBJECT_ID(@P1) AND k.is_included_column = 0 AND k.key_ordinal > 0 AND i.is_disabled = 0
    AND i.is_hypothetical = 0
ORDER BY i.is_primary_key DESC, i.index_id, k.key_ordinal";

impl Table {
    /// Reads the table called `name`; none if there is none.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if `name` is no table of rows that can be leased.
    pub(super) async fn read(
        connection: &mut Connection,
        name: &str,
    ) -> Result<Option<Self>, StoreError> {
        let object = quote_table(name);
        let kind = connection.query(KIND, &[&object]).await?;
        let Some(row) = kind.first().and_then(|rows| rows.first()) else {
            return Ok(None);
        };
        let refuse = |why: &str| Err(StoreError::Misconfigured(format!("{name:?} {why}")));
        match text(row, 0)?.trim() {
            "U" => {}
            "V" => return refuse("is a view: only the rows of a table can be leased"),
            _ => return refuse("is no table: only the rows of a table can be leased"),
        }
        // NULL where it is no table.
        let number = |at| Ok::<_, StoreError>(row.try_get::<u8, _>(at)?.unwrap_or_default());
        if flag(row, 1)? {
            return refuse(
                "is a memory-optimised table, which takes no row locks and no READPAST: lease the rows of a table on disk",
            );
        }
        if number(2)? == 1 {
            return refuse(
                "is the history of a temporal table: lease the rows of the table itself",
            );
        }
        // TABLE or AUTO.
        let lock_escalation = number(3)? != 1;
        let obstacles = connection.query(OBSTACLES, &[&object]).await?;
        if let Some(obstacle) = obstacles.iter().flatten().next() {
            let name = text(obstacle, 0)?;
            return refuse(&match integer(obstacle, 1)? {
                0 => format!(
                    "has the INSTEAD OF trigger {name}, which takes the broker's changes from the table"
                ),
                _ => format!(
                    "has the clustered columnstore index {name}, which takes no READPAST: lease the rows of a rowstore table"
                ),
            });
        }
        let columns = connection.query(COLUMNS, &[&object]).await?;
        let columns = columns.iter().flatten().map(column);
        let mut table = Self {
            columns: columns.collect::<Result<_, _>>()?,
            unique: Vec::new(),
            indexes: Vec::new(),
            lock_escalation,
            reports_filters: !connection.server_info.babelfish,
        };
        let written = connection.query(WRITTEN, &[&object]).await?;
        let written = written.iter().flatten().map(|row| text(row, 0));
        let written: Vec<String> = written.collect::<Result<_, _>>()?;
        for column in &mut table.columns {
            as_written(&mut column.name, &written);
        }
        for row in connection
            .query(INDEXES, &[&object])
            .await?
            .iter()
            .flatten()
        {
            let index = text(row, 0)?;
            let filter: Option<&str> = row.try_get(5)?;
            let mut part = (text(row, 3)?, flag(row, 4)?);
            as_written(&mut part.0, &written);
            if let Some(known) = table.indexes.iter_mut().find(|known| known.name == index) {
                known.columns.push(part);
            } else {
                table.indexes.push(Index {
                    name: index,
                    columns: vec![part],
                    unique: flag(row, 1)? && !flag(row, 2)?,
                    filter: filter.map(str::to_owned),
                });
            }
        }
        let names = |index: &Index| index.columns.iter().map(|(name, _)| name.clone()).collect();
        let unique = table.indexes.iter().filter(|index| index.unique);
        table.unique = unique.map(names).collect();
        Ok(Some(table))
    }

    /// Returns the column called `name`, whatever the case of its letters.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        let exact = self.columns.iter().find(|column| column.name == name);
        exact.or_else(|| {
            let mut columns = self.columns.iter();
            columns.find(|column| column.name.eq_ignore_ascii_case(name))
        })
    }

    /// Finds an index by its name, to which Babelfish adds a hash.
    pub(super) fn index_named(&self, name: &str) -> Option<&Index> {
        let name = name.to_ascii_lowercase();
        let named = |index: &&Index| {
            let known = index.name.to_ascii_lowercase();
            known == name || !self.reports_filters && known.starts_with(&name)
        };
        self.indexes.iter().find(named)
    }

    /// Returns whether these columns, in any order, identify a row.
    pub(super) fn is_unique(&self, columns: &[String]) -> bool {
        let has = |part: &String| {
            let mut columns = columns.iter();
            columns.any(|column| column.eq_ignore_ascii_case(part))
        };
        let mut unique = self.unique.iter();
        unique.any(|unique| unique.len() == columns.len() && unique.iter().all(has))
    }
}

fn as_written(name: &mut String, written: &[String]) {
    if !written.contains(name)
        && let Some(written) = written
            .iter()
            .find(|written| written.eq_ignore_ascii_case(name))
    {
        name.clone_from(written);
    }
}

fn column(row: &Row) -> Result<Column, StoreError> {
    let type_name = text(row, 1)?;
    let length: i16 = row.try_get(2)?.unwrap_or_default();
    let precision: u8 = row.try_get(3)?.unwrap_or_default();
    let scale: u8 = row.try_get(4)?.unwrap_or_default();
    let collation: Option<&str> = row.try_get(8)?;
    let kind = ColumnType::from_type_name(&type_name);
    Ok(Column {
        name: text(row, 0)?,
        declared: declared(&type_name, length, precision, scale),
        generated: flag(row, 6)?
            || flag(row, 7)?
            || row.try_get::<u8, _>(9)?.unwrap_or_default() > 0
            || kind == ColumnType::RowVersion,
        nullable: flag(row, 5)?,
        collation: collation.map(str::to_owned),
        kind,
    })
}

fn declared(name: &str, length: i16, precision: u8, scale: u8) -> String {
    let sized = |length: i16| match length {
        -1 => format!("{name}(max)"),
        length => format!("{name}({length})"),
    };
    match name {
        "nvarchar" | "nchar" if length > 0 => sized(length / 2),
        "nvarchar" | "nchar" | "varchar" | "char" | "varbinary" | "binary" => sized(length),
        "decimal" | "numeric" => format!("{name}({precision},{scale})"),
        "money" => "decimal(19,4)".to_owned(),
        "smallmoney" => "decimal(10,4)".to_owned(),
        "datetime2" | "time" | "datetimeoffset" => format!("{name}({scale})"),
        "timestamp" | "rowversion" => "binary(8)".to_owned(),
        _ => name.to_owned(),
    }
}

fn text(row: &Row, at: usize) -> Result<String, StoreError> {
    let text: Option<&str> = row.try_get(at)?;
    Ok(text.unwrap_or_default().to_owned())
}

fn flag(row: &Row, at: usize) -> Result<bool, StoreError> {
    Ok(row.try_get(at)?.unwrap_or_default())
}
