//! The description of a table, independent of the database. Each harness creates tables from it.

use lease_broker_value::Value;

/// Kinds of columns that every database has. Each harness maps them to its SQL types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 32 bits.
    Int,
    /// 64 bits.
    BigInt,
    /// 64 bits. A row inserted without a value gets the next number.
    Counter,
    /// Unicode text of up to 200 characters, compared as bytes.
    Text,
    /// Up to 300 bytes.
    Blob,
    /// Unicode text of any length. Too long for a key or an order column.
    LongText,
    /// Any number of bytes.
    LongBlob,
    Bool,
    Decimal,
    Timestamp,
    Double,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
    /// For a computed column: the column whose value it returns.
    pub(crate) copy_of: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<String>,
    pub(crate) unique: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            columns: Vec::new(),
            key: Vec::new(),
            unique: Vec::new(),
        }
    }

    /// Adds a nullable column.
    pub(crate) fn column(mut self, name: &str, kind: Kind) -> Self {
        self.columns.push(Column {
            name: name.to_owned(),
            kind,
            required: false,
            default: None,
            copy_of: None,
        });
        self
    }

    /// Adds a NOT NULL column.
    pub(crate) fn required(self, name: &str, kind: Kind) -> Self {
        let mut table = self.column(name, kind);
        table.last().required = true;
        table
    }

    /// Adds a NOT NULL column with a default.
    pub(crate) fn defaulted(self, name: &str, kind: Kind, default: Value) -> Self {
        let mut table = self.required(name, kind);
        table.last().default = Some(default);
        table
    }

    /// Adds a computed column that returns the value of another column.
    pub(crate) fn copy(self, name: &str, kind: Kind, of: &str) -> Self {
        let mut table = self.column(name, kind);
        table.last().copy_of = Some(of.to_owned());
        table
    }

    /// Sets the primary key.
    pub(crate) fn key(mut self, columns: &[&str]) -> Self {
        self.key = columns.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Adds a unique constraint.
    pub(crate) fn unique(mut self, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&name| name.to_owned());
        self.unique.push(columns.collect());
        self
    }

    fn last(&mut self) -> &mut Column {
        self.columns.last_mut().expect("a column")
    }
}
