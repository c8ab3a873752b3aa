//! Description of a table in the database: its columns, unique keys and indexes.
//!
//! The catalogue of each store reads it. All that follows (checking a queue, planning its adoption, rendering its SQL) works
//! on this description and not on the database. `Kind` is the store's own classification of column types.

use lease_broker_model::queue::OrderColumn;

/// A table as it is in the database.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the properties are independent of each other"
)]
pub(super) struct Table<Kind> {
    /// The columns, in the table's order.
    pub(super) columns: Vec<Column<Kind>>,
    /// Lists of columns that identify a row. The primary key is first, if the table has one.
    pub(super) unique: Vec<Vec<String>>,
    pub(super) indexes: Vec<Index>,
    /// Whether rows have ids. Always false on SQL Server.
    pub(super) has_rowid: bool,
    /// Whether a statement with many row locks may lock the whole table instead. Always false on `SQLite`.
    pub(super) lock_escalation: bool,
    /// Whether the table has enabled AFTER triggers. Always false on `SQLite`, where their errors undo the statement.
    pub(super) has_triggers: bool,
    /// Whether a deletion or a change of a key reaches enabled triggers of other tables, through foreign keys. Always false on
    /// `SQLite`.
    pub(super) cascades_to_triggers: bool,
    /// Whether the catalogue reports the filters of indexes, and their names as they were given. False on Babelfish, and
    /// on `SQLite`.
    pub(super) reports_filters: bool,
}

/// A column as it is in the database.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the properties are independent of each other"
)]
pub(super) struct Column<Kind> {
    /// The name, spelled as in the catalogue.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The type as a declaration writes it, for example `varchar(40)`.
    pub(super) declared: String,
    /// The collation of a text column. `None` on `SQLite`, where no statement has to repeat it.
    pub(super) collation: Option<String>,
    /// The code page of a `char` or `varchar`; 65001 is UTF-8. `None` for other types, and on `SQLite`.
    pub(super) code_page: Option<i32>,
    pub(super) nullable: bool,
    /// Whether the database sets the value: a computed column, an identity or a row version. An insert cannot set it.
    pub(super) generated: bool,
    /// Whether a row that is inserted without the column gets a value other than NULL, although the column is not generated.
    pub(super) has_default: bool,
    /// Whether the driver can read and write the column. False for `sql_variant`, for CLR types and for encrypted columns.
    pub(super) readable: bool,
    /// Whether an archive keeps a copy of the column.
    pub(super) archivable: bool,
}

/// An index as it is in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) columns: Vec<IndexColumn>,
    /// Whether the columns identify a row: the index is unique and has no filter.
    pub(super) unique: bool,
    /// Whether an insert drops a row whose key is already there, instead of failing (`IGNORE_DUP_KEY`). False on `SQLite`.
    pub(super) drops_duplicates: bool,
    /// Not read on Babelfish.
    pub(super) filter: Filter,
}

/// The condition that selects the rows of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// The index contains all rows.
    None,
    /// The condition, as the server writes it.
    Condition(String),
    /// The index has a condition that the login may not see, or that was not read, as on `SQLite`.
    Hidden,
}

/// One column of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexColumn {
    /// `None`: an expression.
    pub(super) name: Option<String>,
    pub(super) descending: bool,
}

impl IndexColumn {
    /// Returns whether this is the column `name`.
    pub(super) fn is(&self, name: &str) -> bool {
        let own = self.name.as_ref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    }
}

impl<Kind> Table<Kind> {
    /// Returns the column `name`. Databases ignore the case of ASCII letters, so an exact match is only preferred.
    pub(super) fn column(&self, name: &str) -> Option<&Column<Kind>> {
        let exact = self.columns.iter().find(|column| column.name == name);
        exact.or_else(|| {
            let mut columns = self.columns.iter();
            columns.find(|column| column.name.eq_ignore_ascii_case(name))
        })
    }

    /// Returns the index `name`.
    pub(super) fn index(&self, name: &str) -> Option<&Index> {
        let mut indexes = self.indexes.iter();
        indexes.find(|index| index.name.eq_ignore_ascii_case(name))
    }

    /// Returns whether `columns`, in any order, identify a row.
    pub(super) fn is_unique(&self, columns: &[String]) -> bool {
        let contains = |part: &String| {
            let mut columns = columns.iter();
            columns.any(|column| column.eq_ignore_ascii_case(part))
        };
        let mut unique = self.unique.iter();
        unique.any(|unique| unique.len() == columns.len() && unique.iter().all(contains))
    }
}

/// Returns whether an index on `columns` returns rows in `order`.
pub(super) fn sorts_by(columns: &[IndexColumn], order: &[OrderColumn]) -> bool {
    let mut pairs = columns.iter().zip(order);
    columns.len() == order.len()
        && pairs
            .all(|(column, part)| column.is(&part.column) && column.descending == part.descending)
}
