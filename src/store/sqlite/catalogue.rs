//! Reads the description of a table from `SQLite`'s catalogue.

use rusqlite::Connection;

use super::types::ColumnType;
use crate::StoreError;
use crate::table::{self, Filter, Index, IndexColumn};

pub(super) type Table = table::Table<ColumnType>;
pub(super) type Column = table::Column<ColumnType>;

impl Table {
    /// Reads the table `name`. `None`: it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if `name` is a view or a virtual table. Their rows cannot be leased.
    pub(super) fn read(connection: &Connection, name: &str) -> Result<Option<Self>, StoreError> {
        let Some(Options {
            without_rowid,
            is_strict,
        }) = Options::read(connection, name)?
        else {
            return Ok(None);
        };
        let mut primary: Vec<(i64, String)> = Vec::new();
        let mut columns = rows(
            connection,
            "SELECT name, type, \"notnull\", pk, hidden, dflt_value IS NOT NULL FROM pragma_table_xinfo(?1)",
            name,
            |row| {
                let declared: String = row.get(1)?;
                let generated = row.get::<_, i64>(4)? != 0;
                let column = Column {
                    name: row.get(0)?,
                    kind: ColumnType::of_declaration(&declared, is_strict),
                    declared,
                    collation: None,
                    code_page: None,
                    nullable: !row.get::<_, bool>(2)?,
                    generated,
                    has_default: row.get(5)?,
                    readable: true,
                    archivable: !generated,
                };
                let position: i64 = row.get(3)?;
                if position > 0 {
                    primary.push((position, column.name.clone()));
                }
                Ok(column)
            },
        )?;
        primary.sort();
        let primary: Vec<String> = primary.into_iter().map(|(_, name)| name).collect();
        // Two primary keys are never NULL although they are not declared so: the key of a table WITHOUT ROWID, and an
        // INTEGER PRIMARY KEY, which is the rowid. Only the rowid has no index, because the table itself is one. (INTEGER
        // PRIMARY KEY DESC is not the rowid.)
        let indexes_of_primary: Vec<i64> = rows(
            connection,
            "SELECT count(*) FROM pragma_index_list(?1) WHERE origin = 'pk'",
            name,
            |row| row.get(0),
        )?;
        let is_rowid = indexes_of_primary == [0];
        for column in &mut columns {
            if primary.contains(&column.name) && (without_rowid || is_rowid) {
                column.nullable = false;
            }
            if primary.contains(&column.name) && is_rowid {
                column.kind = ColumnType::RowNumber;
                column.has_default = true;
            }
        }
        let mut table = Self {
            columns,
            unique: Vec::new(),
            indexes: Vec::new(),
            lock_escalation: false,
            has_triggers: false,
            cascades_to_triggers: false,
            reports_filters: false,
        };
        if !primary.is_empty() {
            table.unique.push(primary);
        }
        let indexes = rows(
            connection,
            "SELECT name, \"unique\" AND NOT partial FROM pragma_index_list(?1)",
            name,
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)),
        )?;
        for (index, unique) in indexes {
            let columns: Vec<IndexColumn> = rows(
                connection,
                "SELECT name, \"desc\" FROM pragma_index_xinfo(?1) WHERE \"key\" ORDER BY seqno",
                &index,
                |row| {
                    Ok(IndexColumn {
                        name: row.get(0)?,
                        descending: row.get(1)?,
                    })
                },
            )?;
            if unique {
                let names = columns.iter().map(|column| column.name.clone());
                // The columns of an index on an expression do not identify a row.
                table.unique.extend(names.collect::<Option<Vec<_>>>());
            }
            table.indexes.push(Index {
                name: index,
                columns,
                unique,
                drops_duplicates: false,
                filter: Filter::None,
            });
        }
        Ok(Some(table))
    }
}

/// The options at the end of a table's definition.
struct Options {
    without_rowid: bool,
    is_strict: bool,
}

impl Options {
    /// Reads the options of the table `name`. `None`: it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if `name` is no table.
    fn read(connection: &Connection, name: &str) -> Result<Option<Self>, StoreError> {
        let found: Vec<(String, Self)> = rows(
            connection,
            "SELECT type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ?1 COLLATE NOCASE",
            name,
            |row| {
                let options = Self {
                    without_rowid: row.get(1)?,
                    is_strict: row.get(2)?,
                };
                Ok((row.get(0)?, options))
            },
        )?;
        match found.into_iter().next() {
            None => Ok(None),
            Some((kind, options)) if kind == "table" => Ok(Some(options)),
            Some((kind, _)) => Err(StoreError::Misconfigured(format!(
                "{name:?} is a {kind}: only the rows of a table can be leased"
            ))),
        }
    }
}

/// Runs a query with one parameter and reads its rows.
fn rows<T>(
    connection: &Connection,
    sql: &str,
    parameter: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([parameter], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
