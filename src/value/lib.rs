//! Values of columns and keys, independent of the types of a particular database.
//!
//! The broker and the worker library share them.

mod conversions;

/// The value of one column in one row. The API's message `Value` has the same cases. [`From`] converts the types of
/// Rust.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// SQL NULL.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A signed integer of up to 64 bits.
    Int(i64),
    /// A double-precision floating-point number. NaN is refused.
    Double(f64),
    /// Text.
    Text(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// A point in time in UTC. The API allows the years 0001 to 9999.
    Timestamp {
        /// Seconds since 1970-01-01T00:00:00Z.
        seconds: i64,
        /// Nanoseconds within the second, 0 to 999,999,999.
        nanos: i32,
    },
    /// An exact decimal number as text, such as `-12.50`.
    Decimal(String),
}

impl Value {
    /// Returns the name of the value's field in the API's message `Value`, for error messages.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Bool(_) => "bool_value",
            Self::Int(_) => "int64_value",
            Self::Double(_) => "double_value",
            Self::Text(_) => "string_value",
            Self::Bytes(_) => "bytes_value",
            Self::Timestamp { .. } => "timestamp_value",
            Self::Decimal(_) => "decimal_value",
        }
    }

    /// Returns an estimate of the value's size in a protobuf message, in bytes.
    pub fn wire_size(&self) -> usize {
        match self {
            Self::Null => 4,
            Self::Text(text) | Self::Decimal(text) => text.len() + 4,
            Self::Bytes(bytes) => bytes.len() + 4,
            _ => 12,
        }
    }
}
