//! The demo's live display: bars where the terminal can draw them, plain lines where not.

use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::cli::output::print_line;
use crate::item_state::State;
use crate::store::Stats;

/// The pause between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(1);

pub(super) enum Progress {
    Drawn {
        bars: MultiProgress,
        completed: ProgressBar,
        states: ProgressBar,
        holders: ProgressBar,
    },
    Lines {
        start: Instant,
        next: Instant,
    },
}

impl Progress {
    pub(super) fn new(events: u64) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if dumb || !stderr().is_terminal() {
            let now = Instant::now();
            return Self::Lines {
                start: now,
                next: now,
            };
        }
        let style = |template| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let bars = MultiProgress::new();
        let bar = |template| bars.add(ProgressBar::new(events).with_style(style(template)));
        Self::Drawn {
            completed: bar("completed {wide_bar} {pos}/{len}  {elapsed}"),
            states: bar("{wide_msg}"),
            holders: bar("{wide_msg}"),
            bars,
        }
    }

    /// Shows where the rows are and who holds them.
    pub(super) fn show(&mut self, events: &Stats, outbox: &Stats, holders: &[(String, usize)]) {
        let states: Vec<String> = State::ALL
            .into_iter()
            .filter(|state| *state != State::Completed && events.count_of(*state) > 0)
            .map(|state| format!("{} {}", state.name(), events.count_of(state)))
            .collect();
        let waiting: u64 = outbox.count.iter().sum();
        let states = format!("{}  outbox {waiting}", states.join("  "));
        let held: Vec<String> = holders
            .iter()
            .map(|(name, rows)| format!("{name} {rows}"))
            .collect();
        let held = format!(
            "held by: {}",
            if held.is_empty() {
                "nobody".to_owned()
            } else {
                held.join(", ")
            }
        );
        match self {
            Self::Drawn {
                completed,
                states: line,
                holders,
                ..
            } => {
                completed.set_position(events.count_of(State::Completed));
                line.set_message(states);
                holders.set_message(held);
            }
            Self::Lines { start, next } if Instant::now() >= *next => {
                *next = Instant::now() + LINE_EVERY;
                let at = start.elapsed().as_secs_f64();
                print_line!(
                    "{at:5.1} s  completed {}  {states}  {held}",
                    events.count_of(State::Completed)
                );
            }
            Self::Lines { .. } => {}
        }
    }

    /// Says something that happened.
    pub(super) fn say(&self, text: &str) {
        match self {
            Self::Drawn { bars, .. } => {
                let _ = bars.println(text);
            }
            Self::Lines { start, .. } => {
                print_line!("{:5.1} s  {text}", start.elapsed().as_secs_f64());
            }
        }
    }

    /// Leaves the last picture as it is.
    pub(super) fn end(&self) {
        if let Self::Drawn {
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
