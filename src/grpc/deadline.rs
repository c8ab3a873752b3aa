//! The caller's deadline, from the header `grpc-timeout`.
//!
//! A call that reaches its deadline is answered with `DEADLINE_EXCEEDED` shortly before the deadline. tonic has a
//! timeout layer, but it would answer CANCELLED, and only when the deadline has passed and the caller no longer waits.

use std::time::Duration;

use lease_broker_store::Applied;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::status;
use crate::broker::CallContext;

/// The time that a call can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    /// The time until the call must be answered. `None`: the caller set no deadline.
    time_to_answer: Option<Duration>,
    /// The time that is reserved for the response to reach the caller.
    margin: Duration,
}

impl Deadline {
    /// Reads the deadline from the call's headers. A malformed header is ignored.
    pub(super) fn of(metadata: &MetadataMap) -> Self {
        let timeout = metadata
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok())
            .and_then(parse_timeout);
        // A tenth of the timeout, between 1 and 100 ms, is left for the response to reach the caller.
        let margin = timeout.map_or(Duration::ZERO, |timeout| {
            (timeout / 10).clamp(Duration::from_millis(1), Duration::from_millis(100))
        });
        Self {
            time_to_answer: timeout.map(|timeout| timeout.saturating_sub(margin)),
            margin,
        }
    }

    /// Returns how long a claim can wait for an item. `None`: the caller set no deadline.
    ///
    /// It is one margin shorter than the time to the answer. A claim that found no item then returns an empty list, and
    /// not `DEADLINE_EXCEEDED`.
    pub(super) fn time_for_claim(self) -> Option<Duration> {
        let time_to_answer = self.time_to_answer?;
        Some(time_to_answer.saturating_sub(self.margin))
    }

    /// Runs a call, and answers `DEADLINE_EXCEEDED` if it does not end in time. A call that has not begun by then never begins.
    ///
    /// Libraries send the time that is left of their caller's deadline. A call that has waited in the client for long can arrive without
    /// enough time for any answer.
    pub(super) async fn run<T>(
        self,
        context: &CallContext,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let Some(time) = self.time_to_answer else {
            return call.await;
        };
        // `timeout` polls the call before its timer.
        if time.is_zero() {
            return Err(status::deadline_exceeded(Applied::No));
        }
        let outcome = tokio::time::timeout(time, call).await;
        outcome.unwrap_or_else(|_| {
            let applied = if context.beginning.withdraw() {
                Applied::No
            } else {
                Applied::Unknown
            };
            Err(status::deadline_exceeded(applied))
        })
    }
}

/// Parses a `grpc-timeout` header: one to eight digits and a unit, as the gRPC specification for HTTP/2 defines it.
pub(super) fn parse_timeout(text: &str) -> Option<Duration> {
    let (unit_index, unit) = text.char_indices().next_back()?;
    let digits = &text[..unit_index];
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(number * 3_600),
        'M' => Duration::from_secs(number * 60),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_parsed_and_malformed_headers_are_ignored() {
        assert_eq!(parse_timeout("1H"), Some(Duration::from_secs(3_600)));
        assert_eq!(parse_timeout("2M"), Some(Duration::from_secs(120)));
        assert_eq!(parse_timeout("3S"), Some(Duration::from_secs(3)));
        assert_eq!(parse_timeout("4m"), Some(Duration::from_millis(4)));
        assert_eq!(parse_timeout("5u"), Some(Duration::from_micros(5)));
        assert_eq!(parse_timeout("6n"), Some(Duration::from_nanos(6)));
        for malformed in ["", "S", "1", "123456789S", "-1S", "1x", "1é", "+1S"] {
            assert_eq!(parse_timeout(malformed), None, "{malformed}");
        }
    }
}
