//! Reads the description of a table from the server's catalogue.

use lease_broker_model::queue::QueueSpec;
use tiberius::Row;

use super::cascades;
use super::connection::Connection;
use super::decode::{self, integer, text};
use super::quote::quote_table;
use super::types::ColumnType;
use crate::StoreError;
use crate::adoption::no_visible_table;
use crate::table::{self, Filter, Index, IndexColumn};

pub(super) type Table = table::Table<ColumnType>;
pub(super) type Column = table::Column<ColumnType>;

/// Reads the type of the object `@P1`, and for a table the properties that decide whether its rows can be leased.
const KIND: &str = "SELECT o.type, t.is_memory_optimized, t.temporal_type, t.lock_escalation
FROM sys.objects AS o LEFT JOIN sys.tables AS t ON t.object_id = o.object_id
WHERE o.object_id = OBJECT_ID(@P1)";

/// Reads the parts of a table that make leasing impossible: enabled INSTEAD OF triggers, which replace the broker's changes, and
/// a clustered columnstore index, which does not allow READPAST. Kind 2 is the other enabled triggers, which are allowed.
const OBSTACLES: &str =
    "SELECT g.name, CASE WHEN g.is_instead_of_trigger = 1 THEN 0 ELSE 2 END AS lb_kind
FROM sys.triggers AS g WHERE g.parent_id = OBJECT_ID(@P1) AND g.is_disabled = 0
UNION ALL SELECT i.name, 1 FROM sys.indexes AS i WHERE i.object_id = OBJECT_ID(@P1) AND i.type = 5";

/// Reads the columns, with the base type of each column that has an alias type. The columns of a graph table that the server adds
/// are left out: it refuses statements that name them.
const COLUMNS: &str =
    "SELECT CAST(c.name AS nvarchar(128)), t.name, c.max_length, c.precision, c.scale, c.is_nullable, c.is_identity,
    c.is_computed, c.collation_name, c.generated_always_type,
    CONVERT(int, COLLATIONPROPERTY(c.collation_name, 'CodePage')), c.default_object_id,
    c.encryption_type
FROM sys.columns AS c
    INNER JOIN sys.types AS a ON a.user_type_id = c.user_type_id
    INNER JOIN sys.types AS t ON t.user_type_id = CASE WHEN a.is_user_defined = 1 AND a.is_assembly_type = 0
        THEN a.system_type_id ELSE a.user_type_id END
WHERE c.object_id = OBJECT_ID(@P1) AND c.graph_type IS NULL
ORDER BY c.column_id";

/// The code page of texts in UTF-8.
pub(super) const UTF_8: i32 = 65_001;

/// Follows the type of an encrypted column in messages.
pub(super) const ENCRYPTED: &str = " (Always Encrypted)";

/// Reads the names of the columns as they were written. Babelfish returns them in lower case in `sys.columns`.
const WRITTEN: &str = "SELECT n.COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS AS n
WHERE n.TABLE_SCHEMA = OBJECT_SCHEMA_NAME(OBJECT_ID(@P1)) AND n.TABLE_NAME = OBJECT_NAME(OBJECT_ID(@P1))";

/// Reads the key columns of the enabled indexes, one per row. The primary key comes first.
const INDEXES: &str = "SELECT CAST(i.name AS nvarchar(128)), i.is_unique, i.has_filter,
    CAST(c.name AS nvarchar(128)), k.is_descending_key, i.filter_definition, i.ignore_dup_key
FROM sys.indexes AS i
    INNER JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
    INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE i.object_id = OBJECT_ID(@P1) AND k.is_included_column = 0 AND k.key_ordinal > 0 AND i.is_disabled = 0
    AND i.is_hypothetical = 0
ORDER BY i.is_primary_key DESC, i.index_id, k.key_ordinal";

/// Returns the error for a queue whose table the login does not see, and that is not managed.
pub(super) async fn no_table(connection: &mut Connection, queue: &QueueSpec) -> StoreError {
    let name = connection.batch("SELECT DB_NAME()").await;
    let name = name
        .map_err(StoreError::from)
        .and_then(|results| decode::optional_text(decode::single_row(&results, 0)?, 0));
    match name {
        Ok(name) => no_visible_table(queue, &name.unwrap_or_default()),
        Err(error) => error,
    }
}

impl Table {
    /// Returns a new table on SQL Server, without triggers.
    pub(super) fn new(columns: Vec<Column>, unique: Vec<Vec<String>>, indexes: Vec<Index>) -> Self {
        Self {
            columns,
            unique,
            indexes,
            has_rowid: false,
            lock_escalation: false,
            has_triggers: false,
            cascades_to_triggers: false,
            reports_filters: true,
        }
    }

    /// Reads the table `name`. `None`: it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if `name` is not a table whose rows can be leased.
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
            _ => return refuse("is not a table: only the rows of a table can be leased"),
        }
        // The row has NULLs for an object that is not a table.
        let number = |at| Ok::<_, StoreError>(row.try_get::<u8, _>(at)?.unwrap_or_default());
        if flag(row, 1)? {
            return refuse(
                "is a memory-optimised table, which has no row locks and does not allow READPAST: use a table on disk",
            );
        }
        if number(2)? == 1 {
            return refuse("is the history of a temporal table: use the temporal table itself");
        }
        // 0 is TABLE, 1 is DISABLE, 2 is AUTO.
        let lock_escalation = number(3)? != 1;
        let mut has_triggers = false;
        for obstacle in connection
            .query(OBSTACLES, &[&object])
            .await?
            .iter()
            .flatten()
        {
            let name = text(obstacle, 0)?;
            match integer(obstacle, 1)? {
                0 => {
                    return refuse(&format!(
                        "has the INSTEAD OF trigger {name}, which replaces the broker's changes: drop or disable the trigger"
                    ));
                }
                1 => {
                    return refuse(&format!(
                        "has the clustered columnstore index {name}, which does not allow READPAST: use a rowstore table"
                    ));
                }
                _ => has_triggers = true,
            }
        }
        let columns = connection.query(COLUMNS, &[&object]).await?;
        let columns = columns.iter().flatten().map(column);
        let columns = columns.collect::<Result<_, _>>()?;
        let mut table = Self {
            lock_escalation,
            has_triggers,
            cascades_to_triggers: !cascades::triggers(connection, &object).await?.is_empty(),
            reports_filters: !connection.server_info.babelfish,
            ..Self::new(columns, Vec::new(), Vec::new())
        };
        let written = connection.query(WRITTEN, &[&object]).await?;
        let written = written.iter().flatten().map(|row| text(row, 0));
        let written: Vec<String> = written.collect::<Result<_, _>>()?;
        for column in &mut table.columns {
            as_written(&mut column.name, &written);
            // Babelfish stores these texts in UTF-8, whatever the collation says. In the collation's code page a reader would get a
            // question mark for each other character.
            if connection.server_info.babelfish && column.code_page.is_some() {
                column.code_page = Some(UTF_8);
            }
        }
        table.indexes = indexes(connection, &object, &written).await?;
        let names = |index: &Index| {
            let columns = index.columns.iter();
            columns
                .filter_map(|column| column.name.clone())
                .collect::<Vec<String>>()
        };
        // A node of a graph has a unique index on a column that is left out.
        let is_known = |index: &&Index| {
            let mut columns = names(index).into_iter();
            columns.all(|name| table.column(&name).is_some())
        };
        let unique = table.indexes.iter().filter(|index| index.unique);
        let unique = unique.filter(is_known).map(names).collect();
        table.unique = unique;
        Ok(Some(table))
    }
}

impl Column {
    /// Returns a column without a name, with the properties of the type `name` in `sys.types`.
    pub(super) fn of_type(name: &str) -> Self {
        let kind = ColumnType::from_type_name(name);
        Self {
            name: String::new(),
            kind,
            declared: name.to_owned(),
            collation: None,
            code_page: None,
            nullable: false,
            generated: kind == ColumnType::RowVersion,
            has_default: false,
            readable: kind != ColumnType::Other,
            archivable: kind != ColumnType::RowVersion,
        }
    }

    /// Returns the column as one that is encrypted (Always Encrypted). Its values are bytes that only a client with the key can read.
    pub(super) fn encrypted(self) -> Self {
        Self {
            kind: ColumnType::Other,
            declared: format!("{}{ENCRYPTED}", self.declared),
            readable: false,
            ..self
        }
    }

    /// Returns the collation of a column whose character set is smaller than Unicode. `None` for all other columns.
    pub(super) fn character_set(&self) -> Option<&str> {
        let name = self.declared.split('(').next().unwrap_or_default();
        let collation = self.collation.as_deref()?;
        let utf8 = collation.to_ascii_uppercase().ends_with("_UTF8");
        (["char", "varchar", "text"].contains(&name) && !utf8).then_some(collation)
    }

    /// Returns whether a text in this column can have more than 4,000 characters.
    pub(super) fn has_long_texts(&self) -> bool {
        match self.kind {
            ColumnType::Text => {
                // char and varchar hold up to 8,000 characters.
                let declared = &self.declared;
                declared.ends_with("(max)")
                    || declared.ends_with("text")
                    || !declared.starts_with('n')
            }
            kind => matches!(kind, ColumnType::Xml | ColumnType::Json),
        }
    }
}

/// Renders the COLLATE clause of a column, with a space before it. Empty for a column without a collation.
pub(super) fn collate(column: &Column) -> String {
    let collation = column.collation.as_ref();
    let collate = collation.map(|collation| format!(" COLLATE {collation}"));
    collate.unwrap_or_default()
}

/// Returns a type that holds every value of a column. A variable cannot have a collation, and neither has a value that was converted
/// from `sql_variant`: as char or varchar they have the database's code page and lose the letters of another one.
pub(super) fn variable_type(column: &Column) -> &str {
    match column.code_page {
        Some(_) => "nvarchar(4000)",
        None => &column.declared,
    }
}

/// Renders `value`, which can have the type [`variable_type`], with the type and the collation of the column, so that the server
/// compares it as the column does and seeks in its index. The collation within the conversion decides the code page.
pub(super) fn of_column(column: &Column, value: &str) -> String {
    let collate = collate(column);
    match column.code_page {
        Some(_) => format!("CONVERT({}, {value}{collate}){collate}", column.declared),
        None => format!("{value}{collate}"),
    }
}

/// Replaces a name by the spelling that it has in `written`.
fn as_written(name: &mut String, written: &[String]) {
    if !written.contains(name)
        && let Some(written) = written
            .iter()
            .find(|written| written.eq_ignore_ascii_case(name))
    {
        name.clone_from(written);
    }
}

/// Reads the enabled indexes of a table. `written` has the names of the columns as they were written.
async fn indexes(
    connection: &mut Connection,
    object: &str,
    written: &[String],
) -> Result<Vec<Index>, StoreError> {
    let mut indexes: Vec<Index> = Vec::new();
    for row in connection
        .query(INDEXES, &[&object])
        .await?
        .iter()
        .flatten()
    {
        let index = text(row, 0)?;
        let filter: Option<&str> = row.try_get(5)?;
        let mut name = text(row, 3)?;
        as_written(&mut name, written);
        let part = IndexColumn {
            name: Some(name),
            descending: flag(row, 4)?,
        };
        if let Some(known) = indexes.iter_mut().find(|known| known.name == index) {
            known.columns.push(part);
        } else {
            indexes.push(Index {
                name: index,
                columns: vec![part],
                unique: flag(row, 1)? && !flag(row, 2)?,
                drops_duplicates: flag(row, 6)?,
                filter: match filter {
                    Some(condition) => Filter::Condition(condition.to_owned()),
                    None if flag(row, 2)? => Filter::Hidden,
                    None => Filter::None,
                },
            });
        }
    }
    Ok(indexes)
}

/// Reads a row of [`COLUMNS`].
fn column(row: &Row) -> Result<Column, StoreError> {
    let type_name = text(row, 1)?;
    let length: i16 = row.try_get(2)?.unwrap_or_default();
    let precision: u8 = row.try_get(3)?.unwrap_or_default();
    let scale: u8 = row.try_get(4)?.unwrap_or_default();
    let collation: Option<&str> = row.try_get(8)?;
    let is_identity_or_computed = flag(row, 6)? || flag(row, 7)?;
    let is_period_of_temporal_table = row.try_get::<u8, _>(9)?.unwrap_or_default() > 0;
    let of_type = Column::of_type(&type_name);
    let column = Column {
        name: text(row, 0)?,
        declared: declared(&type_name, length, precision, scale),
        generated: of_type.generated || is_identity_or_computed || is_period_of_temporal_table,
        has_default: decode::optional_integer(row, 11)?.is_some_and(|id| id != 0),
        nullable: flag(row, 5)?,
        collation: collation.map(str::to_owned),
        code_page: match &*type_name {
            "char" | "varchar" | "text" => row.try_get(10)?,
            _ => None,
        },
        ..of_type
    };
    let is_encrypted = decode::optional_integer(row, 12)?.is_some();
    Ok(if is_encrypted {
        column.encrypted()
    } else {
        column
    })
}

/// Returns the type as a declaration writes it. `length` is in bytes, -1 for `max`. A row version becomes binary, because a
/// declared row version would get its own values. Money becomes a decimal of the same digits. A vector has a header of 8 bytes and 4 bytes
/// for each dimension.
pub(super) fn declared(name: &str, length: i16, precision: u8, scale: u8) -> String {
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
        "vector" => sized((length - 8) / 4),
        _ => name.to_owned(),
    }
}

fn flag(row: &Row, number: usize) -> Result<bool, StoreError> {
    Ok(row.try_get(number)?.unwrap_or_default())
}
