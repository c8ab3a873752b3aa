//! What the database knows of a table: its columns, its key, its indexes.

use rusqlite::Connection;

use super::types::ColumnType;
use crate::store::StoreError;

/// A table as it is.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    /// The unique lists of columns: the primary key first, if there is one.
    pub(super) unique: Vec<Vec<String>>,
    pub(super) indexes: Vec<Index>,
}

/// An index as it is.
#[derive(Debug)]
pub(super) struct Index {
    name: String,
    /// The columns, and whether each descends; an expression has no name.
    pub(super) columns: Vec<(Option<String>, bool)>,
}

/// A column as it is.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) declared: String,
    pub(super) kind: ColumnType,
    /// Whether it may hold NULL; the integer primary key never does.
    pub(super) nullable: bool,
    /// Whether the database computes it.
    pub(super) generated: bool,
}

impl Table {
    /// Reads the table called `name`; none if there is none.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if `name` is a view or a virtual table, whose rows can't be leased.
    pub(super) fn read(connection: &Connection, name: &str) -> Result<Option<Self>, StoreError> {
        let kind: Vec<(String, bool)> = rows(
            connection,
            "SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1 COLLATE NOCASE",
            name,
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let without_rowid = match kind.first() {
            None => return Ok(None),
            Some((kind, without_rowid)) if kind == "table" => *without_rowid,
            Some((kind, _)) => {
                return Err(StoreError::Misconfigured(format!(
                    "{name:?} is a {kind}: only the rows of a table can be leased"
                )));
            }
        };
        let mut primary: Vec<(i64, String)> = Vec::new();
        let mut columns = rows(
            connection,
            "SELECT name, type, \"notnull\", pk, hidden FROM pragma_table_xinfo(?1)",
            name,
            |row| {
                let column = Column {
                    name: row.get(0)?,
                    declared: row.get(1)?,
                    kind: ColumnType::of_declaration(&row.get::<_, String>(1)?),
                    nullable: !row.get::<_, bool>(2)?,
                    generated: row.get::<_, i64>(4)? != 0,
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
        // An INTEGER PRIMARY KEY is the row's number, and the key of a table without one is declared NOT NULL for us.
        let is_number =
            |column: &Column| primary.len() == 1 && column.declared.eq_ignore_ascii_case("INTEGER");
        for column in &mut columns {
            if primary.contains(&column.name) && (without_rowid || is_number(column)) {
                column.nullable = false;
            }
        }
        let mut table = Self {
            columns,
            unique: Vec::new(),
            indexes: Vec::new(),
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
            let columns: Vec<(Option<String>, bool)> = rows(
                connection,
                "SELECT name, \"desc\" FROM pragma_index_xinfo(?1) WHERE \"key\" ORDER BY seqno",
                &index,
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            if unique {
                let names = columns.iter().map(|(name, _)| name.clone());
                // An index on an expression identifies no row by its columns.
                table.unique.extend(names.collect::<Option<Vec<_>>>());
            }
            table.indexes.push(Index {
                name: index,
                columns,
            });
        }
        Ok(Some(table))
    }

    /// Returns the column called `name`; databases ignore the case of ASCII letters.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns
            .iter()
            .find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Returns whether these columns, in any order, identify a row.
    pub(super) fn is_unique(&self, columns: &[String]) -> bool {
        self.unique.iter().any(|unique| {
            unique.len() == columns.len()
                && unique.iter().all(|part| {
                    columns
                        .iter()
                        .any(|column| column.eq_ignore_ascii_case(part))
                })
        })
    }

    /// Returns the table's index called `name`.
    pub(super) fn index(&self, name: &str) -> Option<&Index> {
        self.indexes
            .iter()
            .find(|index| index.name.eq_ignore_ascii_case(name))
    }
}

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
