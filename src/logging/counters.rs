//! Numbers of lines that were not written.

use std::sync::Arc;

use tracing_appender::non_blocking::ErrorCounter;

use super::folding::Folding;

/// Counts the lines that were not written, since the start.
#[derive(Clone)]
pub struct LogCounters {
    dropped: ErrorCounter,
    folding: Arc<Folding>,
}

impl LogCounters {
    pub(super) fn new(dropped: ErrorCounter, folding: Arc<Folding>) -> Self {
        Self { dropped, folding }
    }

    /// Returns the number of lines that were dropped because standard error was not read.
    pub fn dropped(&self) -> u64 {
        self.dropped.dropped_lines() as u64
    }

    /// Returns the number of repeated lines that were left out.
    pub fn folded(&self) -> u64 {
        self.folding.folded()
    }
}
