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
            has_rowid: !without_rowid,
            lock_escalation: false,
            has_triggers: false,
            cascades_to_triggers: false,
            reports_filters: false,
        };
        if is_rowid && !primary.is_empty() {
            table.unique.push(primary);
        }
        table.read_indexes(connection, name)?;
        Ok(Some(table))
    }

    /// Adds the indexes, and the keys that they make unique, to a table with its columns.
    fn read_indexes(&mut self, connection: &Connection, name: &str) -> Result<(), StoreError> {
        let indexes = rows(
            connection,
            "SELECT name, \"unique\" AND NOT partial, partial FROM pragma_index_list(?1) ORDER BY origin <> 'pk', seq",
            name,
            |row| {
                let filter = if row.get(2)? {
                    Filter::Hidden
                } else {
                    Filter::None
                };
                Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, filter))
            },
        )?;
        for (index, unique, filter) in indexes {
            // Statements compare keys in the way of the columns. Another collation in the index tells rows apart that they do not.
            let mut compares_alike = true;
            let columns: Vec<IndexColumn> = rows(
                connection,
                "SELECT name, \"desc\", coll FROM pragma_index_xinfo(?1) WHERE \"key\" ORDER BY seqno",
                &index,
                |row| {
                    let column: Option<String> = row.get(0)?;
                    let collation: String = row.get(2)?;
                    if let Some(column) = &column {
                        compares_alike &= collation_of(connection, name, column)?
                            .eq_ignore_ascii_case(&collation);
                    }
                    Ok(IndexColumn {
                        name: column,
                        descending: row.get(1)?,
                    })
                },
            )?;
            if unique && compares_alike {
                let names = columns.iter().map(|column| column.name.clone());
                // The columns of an index on an expression do not identify a row.
                self.unique.extend(names.collect::<Option<Vec<_>>>());
            }
            self.indexes.push(Index {
                name: index,
                columns,
                unique,
                drops_duplicates: false,
                filter,
            });
        }
        Ok(())
    }
}

/// Returns the collation of a column.
fn collation_of(connection: &Connection, table: &str, column: &str) -> rusqlite::Result<String> {
    let (_, collation, ..) = connection.column_metadata(Some("main"), table, column)?;
    let collation = collation.map(|name| name.to_string_lossy().into_owned());
    Ok(collation.unwrap_or_else(|| "BINARY".to_owned()))
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
