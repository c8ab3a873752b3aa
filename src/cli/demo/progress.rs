//! The demo's progress display: bars if standard error is a terminal, else one line per second.

use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lease_broker_model::item_state::State;
use lease_broker_store::Stats;

use super::service::LeasedKeys;
use crate::cli::output::print_line;

/// The interval between two lines, without bars.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) enum Progress {
    Bars {
        all: MultiProgress,
        completed: ProgressBar,
        states: ProgressBar,
        holders: ProgressBar,
    },
    Lines {
        start: Instant,
        next_line: Instant,
    },
}

impl Progress {
    pub(super) fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if dumb || !stderr().is_terminal() {
            let now = Instant::now();
            return Self::Lines {
                start: now,
                next_line: now,
            };
        }
        let style = |template| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let all = MultiProgress::new();
        let bar = |template| all.add(ProgressBar::new(0).with_style(style(template)));
        Self::Bars {
            completed: bar("completed {wide_bar} {pos}/{len}  {elapsed}"),
            states: bar("{wide_msg}"),
            holders: bar("{wide_msg}"),
            all,
        }
    }

    /// Shows the number of rows in each state, of results in the outbox, and of rows that each worker holds.
    pub(super) fn show(&mut self, events: &Stats, outbox: &Stats, leased: &LeasedKeys) {
        let states: Vec<String> = State::ALL
            .into_iter()
            .filter(|state| *state != State::Completed && events.count_of(*state) > 0)
            .map(|state| format!("{} {}", state.name(), events.count_of(state)))
            .collect();
        let waiting: u64 = outbox.count.iter().sum();
        let state_text = format!("{}  outbox {waiting}", states.join("  "));
        let holders: Vec<String> = leased
            .iter()
            .map(|(worker, keys)| format!("{worker} {}", keys.len()))
            .collect();
        let holder_text = if holders.is_empty() {
            "no leases".to_owned()
        } else {
            format!("held by: {}", holders.join(", "))
        };
        match self {
            Self::Bars {
                completed,
                states,
                holders,
                ..
            } => {
                // The demo can insert more rows while it runs.
                completed.set_length(events.count.iter().sum());
                completed.set_position(events.count_of(State::Completed));
                states.set_message(state_text);
                holders.set_message(holder_text);
            }
            Self::Lines { start, next_line } if Instant::now() >= *next_line => {
                *next_line = Instant::now() + LINE_INTERVAL;
                print_line!(
                    "{:5.1} s  completed {}  {state_text}  {holder_text}",
                    start.elapsed().as_secs_f64(),
                    events.count_of(State::Completed)
                );
            }
            Self::Lines { .. } => {}
        }
    }

    /// Prints an event of the demo above the bars or as a line.
    pub(super) fn print(&self, text: &str) {
        match self {
            Self::Bars { all, .. } => {
                let _ = all.println(text);
            }
            Self::Lines { start, .. } => {
                print_line!("{:5.1} s  {text}", start.elapsed().as_secs_f64());
            }
        }
    }

    /// Ends the display. The bar of completed rows stays visible.
    pub(super) fn end(&self) {
        if let Self::Bars {
            completed,
            states,
            holders,
            ..
        } = self
        {
            completed.abandon();
            states.finish_and_clear();
            holders.finish_and_clear();
        }
    }
}
