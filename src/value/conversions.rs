//! Conversions of the types of Rust to the value of a column.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Value;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Implements the conversion to a [`Value`] for types of one kind of column.
macro_rules! values {
    ($($type:ty => $convert:expr;)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                $convert(value)
            }
        }
    )*};
}

values! {
    bool => Value::Bool;
    i64 => Value::Int;
    i32 => |int: i32| Value::Int(int.into());
    i16 => |int: i16| Value::Int(int.into());
    u32 => |int: u32| Value::Int(int.into());
    u16 => |int: u16| Value::Int(int.into());
    u8 => |int: u8| Value::Int(int.into());
    f64 => Value::Double;
    f32 => |double: f32| Value::Double(double.into());
    String => Value::Text;
    &str => |text: &str| Value::Text(text.to_owned());
    &String => |text: &String| Value::Text(text.clone());
    Vec<u8> => Value::Bytes;
    &[u8] => |bytes: &[u8]| Value::Bytes(bytes.to_vec());
    SystemTime => timestamp;
}

/// Returns a moment as seconds since 1970, rounded down, and the nanoseconds after them.
fn timestamp(time: SystemTime) -> Value {
    let (seconds, nanos) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i128::from(after.as_secs()), after.subsec_nanos()),
        Err(earlier) => {
            let nanos = i128::try_from(earlier.duration().as_nanos()).unwrap_or(i128::MAX);
            let fraction = (-nanos).rem_euclid(NANOS_PER_SECOND);
            (
                (-nanos).div_euclid(NANOS_PER_SECOND),
                u32::try_from(fraction).unwrap_or_default(),
            )
        }
    };
    Value::Timestamp {
        seconds: i64::try_from(seconds).unwrap_or(if seconds < 0 { i64::MIN } else { i64::MAX }),
        nanos: i32::try_from(nanos).unwrap_or_default(),
    }
}

/// `None` is NULL.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moment_before_1970_has_positive_nanoseconds() {
        let moment = UNIX_EPOCH - Duration::from_millis(250);
        let expected = Value::Timestamp {
            seconds: -1,
            nanos: 750_000_000,
        };
        assert_eq!(Value::from(moment), expected);
        let whole = UNIX_EPOCH - Duration::from_secs(2);
        let expected = Value::Timestamp {
            seconds: -2,
            nanos: 0,
        };
        assert_eq!(Value::from(whole), expected);
    }

    #[test]
    fn moment_after_1970_keeps_its_nanoseconds() {
        let moment = UNIX_EPOCH + Duration::new(1_700_000_000, 7);
        let expected = Value::Timestamp {
            seconds: 1_700_000_000,
            nanos: 7,
        };
        assert_eq!(Value::from(moment), expected);
    }
}
