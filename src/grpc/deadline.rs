//! The caller's deadline: answered as DEADLINE_EXCEEDED a little before it passes, as tonic's own layer would answer
//! CANCELLED when it does.

use std::time::Duration;

use tonic::Status;
use tonic::metadata::MetadataMap;

use super::status;

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    budget: Option<Duration>,
    margin: Duration,
}

impl Deadline {
    /// Reads the deadline that came with a call, if one did.
    pub(super) fn of(metadata: &MetadataMap) -> Self {
        let timeout = metadata
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok())
            .and_then(parse);
        // Time for the answer to travel: a tenth, within reason.
        let margin = timeout.map_or(Duration::ZERO, |timeout| {
            (timeout / 10).clamp(Duration::from_millis(1), Duration::from_millis(100))
        });
        Self {
            budget: timeout.map(|timeout| timeout.saturating_sub(margin)),
            margin,
        }
    }

    /// Returns how long a claim may wait, so that its answer leaves before the deadline.
    pub(super) fn patience(self) -> Option<Duration> {
        let budget = self.budget?;
        Some(budget.saturating_sub(self.margin))
    }

    /// Runs a call within the deadline.
    pub(super) async fn run<T>(
        self,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        match self.budget {
            None => call.await,
            Some(budget) => tokio::time::timeout(budget, call)
                .await
                .unwrap_or_else(|_| Err(status::deadline_exceeded())),
        }
    }
}

/// Parses a `grpc-timeout` header: up to eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (unit_at, unit) = text.char_indices().next_back()?;
    let digits = &text[..unit_at];
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

    fn deadline(header: &'static str) -> Deadline {
        let mut metadata = MetadataMap::new();
        metadata.insert("grpc-timeout", header.parse().expect("a header"));
        Deadline::of(&metadata)
    }

    #[test]
    fn every_unit_of_the_header_is_read_and_anything_else_is_no_deadline() {
        assert_eq!(parse("1H"), Some(Duration::from_secs(3_600)));
        assert_eq!(parse("2M"), Some(Duration::from_secs(120)));
        assert_eq!(parse("3S"), Some(Duration::from_secs(3)));
        assert_eq!(parse("4m"), Some(Duration::from_millis(4)));
        assert_eq!(parse("5u"), Some(Duration::from_micros(5)));
        assert_eq!(parse("6n"), Some(Duration::from_nanos(6)));
        for wrong in ["", "S", "1", "123456789S", "-1S", "1x", "1é", "+1S"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_wait_ends_before_the_deadline() {
        let patience = deadline("1S").patience().expect("a deadline");
        assert!(patience < Duration::from_secs(1));
        assert_eq!(Deadline::of(&MetadataMap::new()).patience(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_too_long_is_answered_before_the_deadline() {
        let start = tokio::time::Instant::now();
        let never = std::future::pending::<Result<(), Status>>();
        let status = deadline("1S").run(never).await.expect_err("too long");
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
