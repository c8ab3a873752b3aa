//! Rows, new items, and their conversion to the messages of the API.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lease_broker_proto as proto;
use lease_broker_value::Value;

/// The values of columns, by column name.
pub type Row = BTreeMap<String, Value>;

/// The longest duration of the API. It also bounds the durations that a program sets.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The seconds since 1970 of the years 0001 to 9999.
const YEARS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// An item to add to a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewItem {
    columns: Row,
    delay: Option<Duration>,
    trace_parent: String,
}

impl NewItem {
    /// Returns an item without columns. A column that is not set gets the table's default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a column.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.columns.insert(name.into(), value.into());
        self
    }

    /// Sets the time until the item is ready, up to 366 days. Default: it is ready immediately.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Sets the W3C trace context that the leases of the item continue. Default: none, and for a follow-up that of the
    /// completed lease.
    #[must_use]
    pub fn trace_parent(mut self, text: impl Into<String>) -> Self {
        self.trace_parent = text.into();
        self
    }

    /// Returns the first column whose value no broker takes, and the reason.
    pub(super) fn refused_column(&self) -> Option<(&str, String)> {
        self.columns.iter().find_map(|(name, value)| {
            let problem = problem_of(value)?;
            Some((name.as_str(), format!("{} {problem}", value.type_name())))
        })
    }

    pub(super) fn into_proto(self) -> proto::NewItem {
        proto::NewItem {
            columns: row_to_proto(self.columns),
            delay: self.delay.map(duration_to_proto),
            trace_parent: self.trace_parent,
        }
    }
}

impl From<Row> for NewItem {
    fn from(columns: Row) -> Self {
        Self {
            columns,
            ..Self::default()
        }
    }
}

/// Returns the reason why no broker takes a value.
fn problem_of(value: &Value) -> Option<&'static str> {
    match value {
        Value::Double(double) if double.is_nan() => Some("is not a number"),
        Value::Timestamp { seconds, nanos }
            if !YEARS.contains(seconds) || !(0..1_000_000_000).contains(nanos) =>
        {
            Some("is outside the years 0001 to 9999")
        }
        Value::Decimal(digits) if !is_decimal(digits) => {
            Some("must be decimal digits such as -12.50")
        }
        _ => None,
    }
}

fn is_decimal(digits: &str) -> bool {
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    all_digits(whole) && all_digits(fraction)
}

pub(super) fn row_to_proto(row: Row) -> BTreeMap<String, proto::ColumnValue> {
    let convert = |(name, value): (String, Value)| (name, value.into());
    row.into_iter().map(convert).collect()
}

/// Converts a duration. A longer one than the API allows is cut.
pub(super) fn duration_to_proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration.min(MAX_DURATION)).unwrap_or_default()
}

/// Converts a duration. An absent or negative one is zero.
pub(super) fn duration_from_proto(duration: Option<prost_types::Duration>) -> Duration {
    let duration = duration.and_then(|duration| Duration::try_from(duration).ok());
    duration.unwrap_or_default().min(MAX_DURATION)
}

/// Returns the moment after a duration, which is cut at 366 days.
pub(super) fn after(moment: Instant, duration: Duration) -> Instant {
    moment + duration.min(MAX_DURATION)
}
