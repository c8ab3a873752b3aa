//! What a run is doing, while it lasts: one line that changes on a terminal, a line every few seconds elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

use super::course::Course;
use super::measured::per_second;

const DRAW_EVERY: Duration = Duration::from_millis(500);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shown until it is dropped.
pub(super) struct View {
    task: JoinHandle<()>,
    bar: Option<ProgressBar>,
}

impl View {
    pub(super) fn show(name: &'static str, course: Arc<Course>) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let bar = (!dumb && stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{wide_msg}");
            let bar = ProgressBar::no_length();
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self {
            task: tokio::spawn(follow(name, course, bar.clone())),
            bar,
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

async fn follow(name: &'static str, course: Arc<Course>, bar: Option<ProgressBar>) {
    let every = if bar.is_some() {
        DRAW_EVERY
    } else {
        LINE_EVERY
    };
    let start = Instant::now();
    let mut last = (start, 0);
    loop {
        tokio::time::sleep(every).await;
        let tally = course.ledger.tally();
        let handled = tally.settled + tally.extended;
        let rate = per_second(handled - last.1, last.0.elapsed());
        last = (Instant::now(), handled);
        let line = format!(
            "{name} {:4.0} s  {rate:8.0} leases/s  added {}  settled {}  extended {}",
            start.elapsed().as_secs_f64(),
            tally.added,
            tally.settled,
            tally.extended
        );
        match &bar {
            Some(bar) => bar.set_message(line),
            None => eprintln!("{line}"),
        }
    }
}
