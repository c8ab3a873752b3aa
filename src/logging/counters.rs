//! Numbers of lines that were not written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_appender::non_blocking::ErrorCounter;

use super::folding::Folding;
use super::rejected_spans::RejectedSpans;

/// Counts the lines that were not written, and the spans that lines report as rejected, since the start.
#[derive(Clone)]
pub struct LogCounters {
    dropped: [Option<ErrorCounter>; 2],
    /// The lines that standard error did not take, and the lines of the audit that its file did not take.
    lost: [Arc<AtomicU64>; 2],
    folding: Arc<Folding>,
    rejected_spans: RejectedSpans,
}

impl LogCounters {
    pub(super) fn new(
        dropped: [Option<ErrorCounter>; 2],
        lost: [Arc<AtomicU64>; 2],
        folding: Arc<Folding>,
        rejected_spans: RejectedSpans,
    ) -> Self {
        Self {
            dropped,
            lost,
            folding,
            rejected_spans,
        }
    }

    /// Returns the number of lines that were dropped because standard error was not read, or a file was not written, in time, or
    /// because one of them could not be written.
    pub fn dropped(&self) -> u64 {
        let lost = self.lost.iter().map(|lost| lost.load(Ordering::Relaxed));
        self.dropped_in_queues() + lost.sum::<u64>()
    }

    /// Returns the number of lines that were dropped because standard error was not read, or a file was not written, in time.
    pub(super) fn dropped_in_queues(&self) -> u64 {
        let counters = self.dropped.iter().flatten();
        counters.map(|counter| counter.dropped_lines() as u64).sum()
    }

    /// Returns the number of repeated lines that were left out, without those of the audit.
    pub fn folded(&self) -> u64 {
        self.folding.folded()
    }

    /// Returns the number of lines of the audit that were left out because they repeated, or because their subject had too many.
    pub fn audit_folded(&self) -> u64 {
        self.folding.audit_folded()
    }

    /// Returns the number of spans that the collector has rejected.
    pub fn rejected_spans(&self) -> u64 {
        self.rejected_spans.count()
    }
}
