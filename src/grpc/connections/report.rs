//! Counts events, to log many of them in one line.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two log lines about refused connections.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Counts events of one kind, to log them together.
#[derive(Default)]
pub(super) struct Report {
    count: u64,
    last: Option<Instant>,
}

impl Report {
    /// Counts an event. Returns the number of events since the last report if a report is due.
    pub(super) fn add(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        if self.last.is_some_and(|last| now < last + REPORT_INTERVAL) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_connections_are_reported_once_a_minute() {
        let mut report = Report::default();
        let start = Instant::now();
        assert_eq!(report.add(start), Some(1));
        assert_eq!(report.add(start + Duration::from_secs(1)), None);
        assert_eq!(report.add(start + Duration::from_secs(59)), None);
        assert_eq!(report.add(start + REPORT_INTERVAL), Some(3));
    }
}
