//! The types of columns, derived from their declared types, as workers read them.

/// The kind of a column's values.
///
/// SQLite derives an affinity from the declared type (<https://sqlite.org/datatype3.html>, section 3.1). Most declared types
/// have numeric affinity, so their names decide further. They mean what they mean for SQL Server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Integer,
    /// An `INTEGER PRIMARY KEY`. It is the number of the row, and SQLite gives a new row the next one.
    RowNumber,
    Text,
    /// Bytes.
    Blob,
    /// A column without a declared type, or of the type `ANY` in a `STRICT` table. It keeps every value as it is.
    Any,
    Real,
    /// A truth value, stored as 0 or 1.
    Bool,
    /// An exact number with at least `scale` decimal places.
    Decimal {
        scale: u8,
    },
    Timestamp,
    /// A date as text.
    Date,
    /// A time of day as text.
    Time,
    Uuid,
    /// Any other declared type. The column has numeric affinity.
    Numeric,
}

/// The largest row number that a caller can set: 2^53. SQLite counts on from the largest one, so a row with the largest
/// integer would be the last of its table.
pub(super) const MAX_ROW_NUMBER: i64 = 1 << 53;

impl ColumnType {
    /// Returns the type for a declared type such as `nvarchar(100)`. `is_strict`: the table is declared as `STRICT`.
    pub(super) fn of_declaration(declared: &str, is_strict: bool) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Self::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Self::Text
        } else if has("BLOB") {
            Self::Blob
        } else if declared.trim().is_empty() || (is_strict && declared == "ANY") {
            Self::Any
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Self::Real
        } else {
            Self::of_name(&declared)
        }
    }

    /// Returns the type for a declared type of numeric affinity.
    fn of_name(declared: &str) -> Self {
        let (name, sizes) = declared.split_once('(').unwrap_or((declared, ""));
        match name.split_whitespace().next().unwrap_or_default() {
            "BOOL" | "BOOLEAN" | "BIT" => Self::Bool,
            "DEC" | "DECIMAL" | "NUMERIC" | "NUMBER" => Self::Decimal {
                scale: scale_of(sizes),
            },
            "MONEY" | "SMALLMONEY" => Self::Decimal { scale: 4 },
            "DATETIME" | "DATETIME2" | "SMALLDATETIME" | "DATETIMEOFFSET" | "TIMESTAMP"
            | "TIMESTAMPTZ" => Self::Timestamp,
            "DATE" => Self::Date,
            "TIME" => Self::Time,
            "UUID" | "GUID" | "UNIQUEIDENTIFIER" => Self::Uuid,
            "BINARY" | "VARBINARY" | "IMAGE" | "BYTEA" | "ROWVERSION" => Self::Blob,
            _ => Self::Numeric,
        }
    }

    /// Returns whether SQLite turns a text that looks like a number into one.
    pub(super) const fn makes_numbers(self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::Decimal { .. }
                | Self::Timestamp
                | Self::Date
                | Self::Time
                | Self::Uuid
                | Self::Numeric
        )
    }
}

/// Returns the second of two sizes such as `18, 4)`, or 0.
fn scale_of(sizes: &str) -> u8 {
    /// The most decimal places of any number in SQL Server.
    const MAX_SCALE: u8 = 38;

    let (sizes, _) = sizes.split_once(')').unwrap_or((sizes, ""));
    let scale = sizes.split_once(',').map(|(_, scale)| scale.trim());
    let scale = scale.and_then(|scale| scale.parse().ok());
    scale.unwrap_or(0).min(MAX_SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_type_has_documented_affinity() {
        use ColumnType::{Any, Blob, Bool, Integer, Numeric, Real, Text};
        for (declared, expected) in [
            ("bigint", Integer),
            ("BIT", Bool),
            ("boolean", Bool),
            ("nvarchar(100)", Text),
            ("CLOB", Text),
            ("", Any),
            ("blob", Blob),
            ("double precision", Real),
            ("FLOATING POINT", Integer),
            ("STRING", Numeric),
            ("ANY", Numeric),
        ] {
            let found = ColumnType::of_declaration(declared, false);
            assert_eq!(found, expected, "{declared}");
        }
        assert_eq!(ColumnType::of_declaration("ANY", true), Any);
    }

    #[test]
    fn name_of_a_declared_type_decides_the_kind() {
        use ColumnType::{Blob, Date, Decimal, Time, Timestamp, Uuid};
        for (declared, expected) in [
            ("decimal(38,4)", Decimal { scale: 4 }),
            ("DECIMAL (9, 2) ", Decimal { scale: 2 }),
            ("numeric", Decimal { scale: 0 }),
            ("numeric(5)", Decimal { scale: 0 }),
            ("numeric(5,-2)", Decimal { scale: 0 }),
            ("decimal(99,99)", Decimal { scale: 38 }),
            ("money", Decimal { scale: 4 }),
            ("datetime", Timestamp),
            ("datetime2(7)", Timestamp),
            ("timestamp without time zone", Timestamp),
            ("date", Date),
            ("time(3)", Time),
            ("uniqueidentifier", Uuid),
            ("varbinary(16)", Blob),
        ] {
            let found = ColumnType::of_declaration(declared, false);
            assert_eq!(found, expected, "{declared}");
        }
    }
}
