//! The folding of repeated lines.
//!
//! A line of level info, warn or error is left out in two cases:
//!
//! - The same line, with the same fields, was written during the last [`WINDOW`].
//! - Its place in the code has written [`MAX_LINES`] different lines during the last [`WINDOW`].
//!
//! Events of the exporter of spans are never written: the export queue (`telemetry/export_queue.rs`) writes its own lines.
//!
//! At the end of the window, one line per place says how many lines were left out. So a failure that repeats thousands
//! of times writes one line at first, one per window, and one when it is over. Lines of level debug and trace are never
//! left out.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{self, Context};

use super::rejected_spans;

/// The time after which a repeated line is reported again.
const WINDOW: Duration = Duration::from_secs(30);
/// The number of different lines that a place in the code may write per window.
const MAX_LINES: usize = 20;
/// The target of the lines about folding. They are never folded themselves.
pub(super) const OWN_TARGET: &str = "lease_broker::logging";

/// The layer filter that leaves repeated lines out.
pub(super) struct Filter(pub(super) std::sync::Arc<Folding>);

impl<S: Subscriber> layer::Filter<S> for Filter {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if metadata.target() == rejected_spans::TARGET {
            return false;
        }
        if *metadata.level() > Level::INFO || metadata.target() == OWN_TARGET {
            return true;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let place = (metadata.callsite(), *metadata.level());
        self.0.admit(place, line, Instant::now())
    }
}

/// A place in the code that writes lines.
type Place = (Identifier, Level);

/// The lines that were written and left out in the current window of each place.
#[derive(Default)]
pub(super) struct Folding {
    places: Mutex<HashMap<Place, Window>>,
    folded: AtomicU64,
}

struct Window {
    start: Instant,
    /// The hash of each line that was written, and the number of its repetitions in this window.
    lines: Vec<(u64, u64)>,
    /// The number of lines that were left out in this window.
    left_out: u64,
    message: String,
}

/// The report of a window that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) level: Level,
    /// The message of the first line.
    pub(super) message: String,
    pub(super) left_out: u64,
}

impl Folding {
    /// Returns whether the line is written.
    fn admit(&self, place: Place, line: Line, now: Instant) -> bool {
        let hash = line.hash.finish();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let window = match places.entry(place) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Window {
                start: now,
                lines: Vec::new(),
                left_out: 0,
                message: line.message,
            }),
        };
        if let Some((_, repeated)) = window.lines.iter_mut().find(|(seen, _)| *seen == hash) {
            *repeated += 1;
        } else if window.lines.len() < MAX_LINES {
            window.lines.push((hash, 0));
            return true;
        }
        window.left_out += 1;
        self.folded.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Ends the windows that are over, and returns a summary of each in which lines were left out.
    ///
    /// Lines that were repeated in a window stay known in the next one. The others are written again when they come.
    pub(super) fn end_windows(&self, now: Instant) -> Vec<Summary> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut summaries = Vec::new();
        places.retain(|(_, level), window| {
            if now.duration_since(window.start) < WINDOW {
                return true;
            }
            summaries.extend(window.summary(*level));
            window.start = now;
            window.left_out = 0;
            window.lines.retain(|(_, repeated)| *repeated > 0);
            window
                .lines
                .iter_mut()
                .for_each(|(_, repeated)| *repeated = 0);
            !window.lines.is_empty()
        });
        summaries
    }

    /// Returns the summaries of the windows that are not over yet, for the end of the process.
    pub(super) fn last_summaries(&self) -> Vec<Summary> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let open = places.iter();
        open.filter_map(|((_, level), window)| window.summary(*level))
            .collect()
    }

    /// Returns the number of lines that were left out since the start.
    pub(super) fn folded(&self) -> u64 {
        self.folded.load(Ordering::Relaxed)
    }
}

impl Window {
    fn summary(&self, level: Level) -> Option<Summary> {
        (self.left_out > 0).then(|| Summary {
            level,
            message: self.message.clone(),
            left_out: self.left_out,
        })
    }
}

/// The hash of a line's fields, and its message.
#[derive(Default)]
struct Line {
    hash: DefaultHasher,
    message: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        field.name().hash(&mut self.hash);
        // Writing to a hasher or to a string cannot fail.
        let _ = write!(HashWriter(&mut self.hash), "{value:?}");
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        }
    }
}

/// Hashes formatted text without storing it.
struct HashWriter<'a>(&'a mut DefaultHasher);

impl fmt::Write for HashWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Site;

    impl tracing::Callsite for Site {
        fn set_interest(&self, _: tracing::subscriber::Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            unreachable!("only the identifier is used")
        }
    }

    static SITE: Site = Site;

    fn line(text: &str) -> Line {
        let mut line = Line::default();
        text.hash(&mut line.hash);
        line.message = "message".to_owned();
        line
    }

    fn admit(folding: &Folding, text: &str, now: Instant) -> bool {
        let place = (tracing::callsite::Identifier(&SITE), Level::WARN);
        folding.admit(place, line(text), now)
    }

    fn summary(left_out: u64) -> Summary {
        Summary {
            level: Level::WARN,
            message: "message".to_owned(),
            left_out,
        }
    }

    #[test]
    fn repeated_line_is_written_once_and_then_summed_up() {
        let folding = Folding::default();
        let start = Instant::now();
        let written = (0..10_000)
            .filter(|_| admit(&folding, "same", start))
            .count();
        assert_eq!(written, 1);
        assert_eq!(folding.folded(), 9_999);
        assert_eq!(folding.end_windows(start + WINDOW / 2), []);
        assert_eq!(folding.end_windows(start + WINDOW), [summary(9_999)]);
        // The failure goes on: only the summary of the next window reports it.
        assert!(!admit(&folding, "same", start + WINDOW));
        assert_eq!(folding.end_windows(start + 2 * WINDOW), [summary(1)]);
        // A window without the line: the next one is written.
        assert_eq!(folding.end_windows(start + 3 * WINDOW), []);
        assert!(admit(&folding, "same", start + 3 * WINDOW));
    }

    #[test]
    fn place_writes_at_most_20_different_lines_per_window() {
        let folding = Folding::default();
        let start = Instant::now();
        let lines = |text: &str, now| {
            let different = (0..100).map(|number| format!("{text} {number}"));
            different.filter(|line| admit(&folding, line, now)).count()
        };
        assert_eq!(lines("first", start), MAX_LINES);
        assert_eq!(folding.end_windows(start + WINDOW), [summary(80)]);
        assert_eq!(lines("second", start + WINDOW), MAX_LINES);
        assert_eq!(folding.last_summaries(), [summary(80)]);
    }
}
