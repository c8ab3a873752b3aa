//! The row that a handler receives.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use super::values::{MAX_DURATION, Row, row_to_proto};
use lease_broker_proto::{self as proto, UnknownKind};
use lease_broker_value::Value;

/// Numbers the leases of all workers, in the order of their arrival, and the items of tests.
pub(super) type LeaseNumber = u64;

/// The number of the next lease. All workers share it, so that the items of one are not taken for those of another.
static NEXT_LEASE: AtomicU64 = AtomicU64::new(0);

/// The leases that a worker holds. An item asks it for its own lease.
pub(super) trait HeldLeases: Send + Sync {
    /// Returns the state of a lease. `None`: it was settled or lost.
    fn look(&self, lease: LeaseNumber) -> Option<LeaseState>;
    /// Keeps bytes for the next heartbeat or settlement of a lease.
    fn save_checkpoint(&self, lease: LeaseNumber, checkpoint: &[u8]);
}

/// The state of a lease at one moment.
pub(super) struct LeaseState {
    /// The moment until which the lease is held if no further heartbeat is answered.
    pub(super) deadline: Instant,
    /// Whether the item is being worked on.
    pub(super) is_running: bool,
    /// Whether no heartbeat was answered for half of the lease.
    pub(super) in_doubt: bool,
}

/// A leased row. A clone is another handle of the same lease.
#[derive(Clone, Debug)]
pub struct Item(Arc<Leased>);

#[derive(Debug)]
struct Leased {
    columns: Row,
    /// The columns whose values are of a newer API.
    newer: BTreeSet<String>,
    /// The message, without the columns.
    message: proto::Lease,
    lease: LeaseNumber,
    /// `None`: the item has no lease. It was made for a test.
    leases: Option<Weak<dyn HeldLeases>>,
}

/// The error of a column that does not have the expected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// The item does not have the column.
    #[error("no column {column:?}; the item has {}", known.join(", "))]
    Missing {
        /// The name that was asked for.
        column: String,
        /// The names of the item's columns.
        known: Vec<String>,
    },
    /// The value has a type that only a later version of the API has. It is not NULL.
    #[error(
        "column {0:?} has a value of a newer API; a newer version of lease-broker-client reads it"
    )]
    NewerApi(String),
    /// The column is NULL.
    #[error("column {0:?} is NULL")]
    Null(String),
    /// The column has a value of another type.
    #[error("column {column:?} is {found}, not {expected}")]
    OtherType {
        /// The name of the column.
        column: String,
        /// The type of the value.
        found: &'static str,
        /// The type that was expected.
        expected: &'static str,
    },
}

/// Returns the name of a value's type, for error messages.
const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Bool(_) => "true or false",
        Value::Int(_) => "an integer",
        Value::Double(_) => "a floating-point number",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
        Value::Timestamp { .. } => "a timestamp",
        Value::Decimal(_) => "a decimal number",
    }
}

/// Defines a method that returns the value of a column of one type.
macro_rules! typed {
    ($(#[$doc:meta])* $name:ident $field:literal $type:ty: $pattern:pat => $value:expr) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// The column does not exist, is NULL, or has another type or a value of a newer API.
        pub fn $name(&self, column: &str) -> Result<$type, ColumnError> {
            match self.value(column)? {
                $pattern => Ok($value),
                Value::Null => Err(ColumnError::Null(column.to_owned())),
                other => Err(ColumnError::OtherType {
                    column: column.to_owned(),
                    found: type_name(other),
                    expected: $field,
                }),
            }
        }
    };
}

impl Item {
    pub(super) fn new(mut message: proto::Lease, leases: Option<Weak<dyn HeldLeases>>) -> Self {
        let (mut columns, mut newer) = (Row::new(), BTreeSet::new());
        let row = message.item.get_or_insert_default();
        for (name, value) in std::mem::take(&mut row.columns) {
            match value.try_into() {
                Ok(value) => drop(columns.insert(name, value)),
                Err(UnknownKind) => drop(newer.insert(name)),
            }
        }
        Self(Arc::new(Leased {
            columns,
            newer,
            message,
            lease: NEXT_LEASE.fetch_add(1, Ordering::Relaxed),
            leases,
        }))
    }

    /// Returns an item for tests of handlers, in its first attempt. It has no lease, so it is always held.
    pub fn of_row(key: impl Into<String>, columns: Row) -> Self {
        let row = proto::Item {
            key: key.into(),
            columns: row_to_proto(columns),
        };
        let message = proto::Lease {
            item: Some(row),
            attempt: 1,
            fencing_token: 1,
            ..proto::Lease::default()
        };
        Self::new(message, None)
    }

    /// Returns the same item in this attempt, with the checkpoint of the one before. For tests of handlers.
    #[must_use]
    pub fn with_attempt(&self, attempt: i32, checkpoint: Option<&[u8]>) -> Self {
        let mut item = Self::of_row(self.key(), self.0.columns.clone());
        if let Some(leased) = Arc::get_mut(&mut item.0) {
            leased.message.attempt = attempt;
            leased.message.checkpoint = checkpoint.map(<[u8]>::to_vec);
        }
        item
    }

    fn leases(&self) -> Option<Arc<dyn HeldLeases>> {
        self.0.leases.as_ref().and_then(Weak::upgrade)
    }

    fn look(&self) -> Option<LeaseState> {
        self.leases()?.look(self.0.lease)
    }

    pub(super) fn lease(&self) -> LeaseNumber {
        self.0.lease
    }

    /// Returns the identity of the row, as the broker writes it.
    pub fn key(&self) -> &str {
        self.0.message.item.as_ref().map_or("", |row| &row.key)
    }

    /// Returns the values of the row's columns. A column that is NULL is [`Value::Null`].
    ///
    /// # Errors
    /// A column has a value of a newer API.
    pub fn columns(&self) -> Result<&Row, ColumnError> {
        match self.0.newer.first() {
            None => Ok(&self.0.columns),
            Some(column) => Err(ColumnError::NewerApi(column.clone())),
        }
    }

    /// Returns the value of a column.
    ///
    /// # Errors
    /// The column does not exist, or has a value of a newer API.
    pub fn value(&self, column: &str) -> Result<&Value, ColumnError> {
        let Leased { columns, newer, .. } = &*self.0;
        columns.get(column).ok_or_else(|| {
            let column = column.to_owned();
            if newer.contains(&column) {
                return ColumnError::NewerApi(column);
            }
            let mut known: Vec<_> = columns.keys().chain(newer).cloned().collect();
            known.sort_unstable();
            ColumnError::Missing { column, known }
        })
    }

    typed!(/** Returns the value of a text column. */ text "text" &str: Value::Text(text) => text);
    typed!(/** Returns the value of an integer column. */ int "an integer" i64: Value::Int(int) => *int);
    typed!(/** Returns the value of a floating-point column. */ double "a floating-point number" f64: Value::Double(double) => *double);
    typed!(/** Returns the value of a column that is true or false. */ bool "true or false" bool: Value::Bool(bool) => *bool);
    typed!(/** Returns the value of a column of bytes. */ bytes "bytes" &[u8]: Value::Bytes(bytes) => bytes);
    typed!(/** Returns the value of an exact decimal column as text, such as `-12.50`. */ decimal "a decimal number" &str: Value::Decimal(digits) => digits);

    /// Returns whether the column is NULL.
    ///
    /// # Errors
    /// The column does not exist, or has a value of a newer API.
    pub fn is_null(&self, column: &str) -> Result<bool, ColumnError> {
        Ok(*self.value(column)? == Value::Null)
    }

    /// Returns the number of this attempt, 1 for the first.
    pub fn attempt(&self) -> i32 {
        self.0.message.attempt
    }

    /// Returns the number of attempts after which a failure makes the item dead. 0: no limit.
    pub fn max_attempts(&self) -> i32 {
        self.0.message.max_attempts
    }

    /// Returns a number that grows with every lease of this row. Systems that you write to can refuse a smaller one.
    pub fn fencing_token(&self) -> i64 {
        self.0.message.fencing_token
    }

    /// Returns the time at which the item became ready, by the database's clock. `None`: not known.
    pub fn ready_time(&self) -> Option<SystemTime> {
        SystemTime::try_from(self.0.message.ready_time?).ok()
    }

    /// Returns the bytes that an earlier lease of this item saved last. `None`: none were saved, or the queue has no
    /// checkpoints.
    pub fn checkpoint(&self) -> Option<&[u8]> {
        self.0.message.checkpoint.as_deref()
    }

    /// Returns the W3C trace context of the lease. Make it the parent of your spans.
    pub fn trace_parent(&self) -> &str {
        &self.0.message.trace_parent
    }

    /// Returns the time until the lease ends if no further heartbeat is answered. Zero if the lease was lost.
    pub fn time_left(&self) -> Duration {
        if self.0.leases.is_none() {
            return MAX_DURATION;
        }
        let deadline = self.look().map(|lease| lease.deadline);
        deadline.map_or(Duration::ZERO, |at| {
            at.saturating_duration_since(Instant::now())
        })
    }

    /// Returns whether the lease is held. Handlers of batches ask before each item.
    pub fn is_held(&self) -> bool {
        self.0.leases.is_none() || self.look().is_some_and(|lease| lease.is_running)
    }

    /// Returns whether no heartbeat was answered for half of the lease.
    pub fn in_doubt(&self) -> bool {
        self.look().is_some_and(|lease| lease.in_doubt)
    }

    /// Saves bytes that say how far the work has come. The next heartbeat stores them on the row, or the call that fails
    /// or releases the item. The next lease of the item has them as [`Self::checkpoint`]. Empty: removes the checkpoint.
    /// After the handler has ended or the lease was lost, the bytes are dropped without an error.
    ///
    /// If the queue has no checkpoints, or only shorter ones, the worker logs that and leaves the checkpoint out.
    pub fn save_checkpoint(&self, checkpoint: &[u8]) {
        if let Some(leases) = self.leases() {
            leases.save_checkpoint(self.0.lease, checkpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_of_a_test_is_held() {
        let item = Item::of_row("1", Row::new()).with_attempt(2, None);
        assert!(item.is_held());
        assert!(!item.in_doubt());
        assert_eq!(item.time_left(), MAX_DURATION);
        item.save_checkpoint(b"half");
    }
}
