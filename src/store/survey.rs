//! The description of a table for a person who wants to make it a queue, and the classes of its columns.

use super::added_parts::AddedParts;
use super::table::Table;

/// A table as `adopt` sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The columns, in the table's order.
    pub columns: Vec<SurveyedColumn>,
    /// Lists of columns that identify a row and are never NULL. The primary key is first, if the table has one.
    pub keys: Vec<Vec<String>>,
    /// As `keys`, but some of the columns can be NULL. In `SQLite` the columns of a primary key can.
    pub nullable_keys: Vec<Vec<String>>,
    /// Whether the configuration need not name the key: the first unique index, usually the primary key, can serve.
    pub has_default_key: bool,
    /// The number of rows. An estimate on SQL Server.
    pub rows: u64,
}

/// A column as `adopt` sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedColumn {
    /// The name, spelled as in the catalogue.
    pub name: String,
    /// The class of its type.
    pub class: ColumnClass,
    /// Whether a row can lack a value.
    pub nullable: bool,
    /// Whether a worker can read and write the column: the database does not set its value, and the driver knows its type.
    pub writable: bool,
    /// Whether it is a soft-lock column that an earlier adoption added.
    pub added: bool,
}

/// The class of a column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnClass {
    /// Two values, such as `bit`.
    Flag,
    /// Whole numbers.
    Integer,
    /// Text.
    Text,
    /// Dates and times.
    Time,
    /// All other types.
    Other,
}

impl ColumnClass {
    /// Returns the class of a declared type, such as `varchar(40)`. The case of letters is ignored.
    pub fn of_declaration(declared: &str) -> Self {
        let declared = declared.to_ascii_lowercase();
        let has = |part: &str| declared.contains(part);
        if matches!(&*declared, "bit" | "bool" | "boolean") {
            Self::Flag
        } else if has("date") || has("time") {
            Self::Time
        } else if has("int") {
            Self::Integer
        } else if has("char") || has("text") || has("clob") {
            Self::Text
        } else {
            Self::Other
        }
    }
}

impl Survey {
    /// Describes `table`, which has `rows` rows. `added` is the record of the table.
    pub(super) fn new<Kind>(table: &Table<Kind>, added: &AddedParts, rows: u64) -> Self {
        let is_recorded = added.has_all_columns_in(table);
        let columns = table.columns.iter().map(|column| SurveyedColumn {
            name: column.name.clone(),
            class: ColumnClass::of_declaration(&column.declared),
            nullable: column.nullable,
            writable: column.readable && !column.generated,
            added: is_recorded && added.has_column(&column.name),
        });
        let never_null = |key: &Vec<String>| {
            let mut columns = key.iter().filter_map(|name| table.column(name));
            columns.all(|column| !column.nullable)
        };
        let (keys, nullable_keys) = table.unique.iter().cloned().partition(never_null);
        Self {
            columns: columns.collect(),
            keys,
            nullable_keys,
            has_default_key: table.unique.first().is_some_and(never_null),
            rows,
        }
    }

    /// Returns the column `name`. The case of ASCII letters is ignored.
    pub fn column(&self, name: &str) -> Option<&SurveyedColumn> {
        let mut columns = self.columns.iter();
        columns.find(|column| column.name.eq_ignore_ascii_case(name))
    }
}
