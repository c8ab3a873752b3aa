//! The progress line of a run on standard error: updated in place on a terminal, printed every 5 s elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::run_state::RunState;
use crate::samples::RateMeter;

const TERMINAL_INTERVAL: Duration = Duration::from_millis(500);
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the progress until it is dropped.
pub(crate) struct Progress {
    task: JoinHandle<()>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts to show the progress of a run.
    pub(crate) fn show(state: Arc<RunState>) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let bar = (!dumb && stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{wide_msg}");
            let bar = ProgressBar::no_length();
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self {
            task: tokio::spawn(update(state, bar.clone())),
            bar,
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

async fn update(state: Arc<RunState>, bar: Option<ProgressBar>) {
    let interval = if bar.is_some() {
        TERMINAL_INTERVAL
    } else {
        LOG_INTERVAL
    };
    let start = Instant::now();
    let mut rate = RateMeter::new(start, 0);
    loop {
        tokio::time::sleep(interval).await;
        let counts = state.ledger.counts();
        let (settled, extended) = (counts.settled(), counts.leases_extended);
        let line = format!(
            "load {:4.0} s  {:8.0} leases/s  enqueued {}  settled {settled}  extended {extended}",
            start.elapsed().as_secs_f64(),
            rate.update(settled + extended),
            counts.enqueued,
        );
        match &bar {
            Some(bar) => bar.set_message(line),
            None => eprintln!("{line}"),
        }
    }
}
