//! The thread that does the log's periodic work: summaries of folded lines, the report of dropped lines, and the end of
//! a temporary level.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::Level;

use super::counters::LogCounters;
use super::folding::{AUDIT_SUMMARY_TARGET, Folding, OWN_TARGET, Subject, Summary};
use super::level::LogLevel;

/// Interval of the work.
const INTERVAL: Duration = Duration::from_millis(500);

/// The running thread. Dropping it writes the last summaries.
pub(super) struct Maintenance {
    folding: Arc<Folding>,
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub(super) fn start(
        folding: Arc<Folding>,
        counters: LogCounters,
        level: Arc<LogLevel>,
    ) -> Self {
        let (stop, stopped) = channel::<()>();
        let windows = folding.clone();
        let run = move || {
            let mut reported = 0;
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                windows.end_windows(now).iter().for_each(write);
                level.end_temporary_level(now);
                reported = report_dropped(&counters, reported);
            }
        };
        let thread = std::thread::Builder::new()
            .name("log-maintenance".to_owned())
            .spawn(run);
        Self {
            folding,
            stop: Some(stop),
            // Without the thread, lines are still folded and counted. Only the summaries are missing.
            thread: thread.ok(),
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.folding.last_summaries().iter().for_each(write);
    }
}

/// Reports the lines that were dropped since `reported`, because a reader was slow. Returns the number of dropped lines that are
/// reported now. A writer reports the lines that it could not write.
fn report_dropped(counters: &LogCounters, reported: u64) -> u64 {
    let dropped = counters.dropped_in_queues();
    if dropped == reported {
        return reported;
    }
    let lines = dropped - reported;
    tracing::warn!(target: OWN_TARGET, lines, "log lines dropped: standard error was not read in time");
    // While the reader stalls, the report is dropped too. It is then repeated.
    if counters.dropped_in_queues() == dropped {
        dropped
    } else {
        reported
    }
}

fn write(summary: &Summary) {
    let Summary {
        level,
        subject,
        message: of,
        left_out,
    } = summary;
    if *subject != Subject::Process {
        tracing::warn!(
            target: AUDIT_SUMMARY_TARGET, of, %subject, left_out, "similar audit lines left out"
        );
        return;
    }
    macro_rules! write_at {
        ($level:expr) => {
            tracing::event!(target: OWN_TARGET, $level, of, left_out, "similar log lines left out")
        };
    }
    match *level {
        Level::ERROR => write_at!(Level::ERROR),
        Level::WARN => write_at!(Level::WARN),
        _ => write_at!(Level::INFO),
    }
}
