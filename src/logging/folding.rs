//! The folding of repeated lines.
//!
//! A line of level info, warn or error is left out in two cases:
//!
//! - The same line, with the same fields, was written during the last [`WINDOW`].
//! - Its place in the code has written [`MAX_LINES`] different lines during the last [`WINDOW`].
//!
//! A line of the audit about a change of an operator, of the configuration or of a file is never left out.
//!
//! Each identity has its own part of these limits for the lines of the audit, and so has each network from which callers
//! without an identity come. So nobody can hide what others do behind lines of their own.
//!
//! Events of the exporter of spans are never written: the export queue (`telemetry/export_queue.rs`) and `rejected_spans.rs` write
//! lines of their own.
//!
//! At the end of the window, one line per place says how many lines were left out, and of whom. So a failure that repeats
//! thousands of times writes one line at first, one per window, and one when it is over. Lines of level debug and trace are
//! never left out.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lease_broker_model::network::network;
use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{self, Context};

use super::rejected_spans;

/// The time after which a repeated line is reported again.
const WINDOW: Duration = Duration::from_secs(30);
/// The number of different lines that a place in the code may write per window.
const MAX_LINES: usize = 20;
/// The number of networks whose lines of one kind have limits of their own. Those of further networks share one.
const MAX_NETWORKS: usize = 256;
/// The number of different lines of one kind that a network may write per window.
const MAX_LINES_OF_NETWORK: usize = 5;
/// The target of the audit's lines.
pub(super) const AUDIT_TARGET: &str = "lease_broker::audit";
/// The field `event` of the audit's lines about changes of operators, of the configuration, of files and of the
/// level. Callers without rights make none, or few.
const CHANGES: [&str; 6] = [
    "operator.change",
    "config.changed",
    "config.refused",
    "file.read",
    "file.refused",
    "log.level",
];
/// The target of the audit's summaries. They are never folded themselves.
pub(super) const AUDIT_SUMMARY_TARGET: &str = "lease_broker::audit::summary";
/// The target of the lines about folding. They are never folded themselves.
pub(super) const OWN_TARGET: &str = "lease_broker::logging";

/// The layer filter that leaves repeated lines out.
pub(super) struct Filter(pub(super) std::sync::Arc<Folding>);

impl<S: Subscriber> layer::Filter<S> for Filter {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // Without a hint, that of the level would not count.
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if metadata.target() == rejected_spans::TARGET {
            return false;
        }
        let is_summary = [OWN_TARGET, AUDIT_SUMMARY_TARGET].contains(&metadata.target());
        if *metadata.level() > Level::INFO || is_summary {
            return true;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let place = (metadata.callsite(), *metadata.level());
        let is_audit = metadata.target() == AUDIT_TARGET;
        if is_audit && CHANGES.contains(&line.event.trim_matches('"')) {
            return true;
        }
        let subject = if is_audit {
            line.subject()
        } else {
            Subject::Process
        };
        self.0.admit(place, subject, line, Instant::now())
    }
}

/// A place in the code that writes lines.
type Place = (Identifier, Level);

/// The one that a line is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// This process. The line is not one of the audit.
    Process,
    /// Nobody whom the line names.
    Nobody,
    /// An identity of the configuration.
    Identity(String),
    /// The network of a caller without an identity.
    Network(IpAddr),
    /// The networks beyond [`MAX_NETWORKS`].
    OtherNetworks,
}

impl Subject {
    /// The number of different lines of one kind that it may write per window.
    fn max_lines(&self) -> usize {
        match self {
            Self::Network(_) => MAX_LINES_OF_NETWORK,
            _ => MAX_LINES,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process | Self::Nobody => Ok(()),
            Self::Identity(name) => out.write_str(name),
            Self::Network(address) => write!(out, "{address}"),
            Self::OtherNetworks => out.write_str("other networks"),
        }
    }
}

/// The lines that were written and left out in the current window of each place and subject.
#[derive(Default)]
pub(super) struct Folding {
    windows: Mutex<HashMap<Place, HashMap<Subject, Window>>>,
    folded: AtomicU64,
    audit_folded: AtomicU64,
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
    pub(super) subject: Subject,
    /// The message of the first line.
    pub(super) message: String,
    pub(super) left_out: u64,
}

impl Folding {
    /// Returns whether the line is written.
    fn admit(&self, place: Place, subject: Subject, line: Line, now: Instant) -> bool {
        let hash = line.hash.finish();
        let mut windows = self.windows.lock();
        let windows = windows.entry(place).or_default();
        let is_new_network =
            matches!(subject, Subject::Network(_)) && !windows.contains_key(&subject);
        let networks = windows.keys();
        let networks = networks.filter(|subject| matches!(subject, Subject::Network(_)));
        let subject = if is_new_network && networks.count() >= MAX_NETWORKS {
            Subject::OtherNetworks
        } else {
            subject
        };
        let is_audit = subject != Subject::Process;
        let max_lines = subject.max_lines();
        let window = match windows.entry(subject) {
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
        } else if window.lines.len() < max_lines {
            window.lines.push((hash, 0));
            return true;
        }
        window.left_out += 1;
        let folded = if is_audit {
            &self.audit_folded
        } else {
            &self.folded
        };
        folded.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Ends the windows that are over, and returns a summary of each in which lines were left out.
    ///
    /// Lines that were repeated in a window stay known in the next one. The others are written again when they come.
    pub(super) fn end_windows(&self, now: Instant) -> Vec<Summary> {
        let mut places = self.windows.lock();
        let mut summaries = Vec::new();
        places.retain(|(_, level), windows| {
            windows.retain(|subject, window| {
                if now.duration_since(window.start) < WINDOW {
                    return true;
                }
                summaries.extend(window.summary(*level, subject));
                window.start = now;
                window.left_out = 0;
                window.lines.retain(|(_, repeated)| *repeated > 0);
                window
                    .lines
                    .iter_mut()
                    .for_each(|(_, repeated)| *repeated = 0);
                !window.lines.is_empty()
            });
            !windows.is_empty()
        });
        summaries
    }

    /// Returns the summaries of the windows that are not over yet, for the end of the process.
    pub(super) fn last_summaries(&self) -> Vec<Summary> {
        let places = self.windows.lock();
        let mut summaries = Vec::new();
        for ((_, level), windows) in places.iter() {
            let open = windows.iter();
            summaries.extend(open.filter_map(|(subject, window)| window.summary(*level, subject)));
        }
        summaries
    }

    /// Returns the number of lines that were left out since the start, without those of the audit.
    pub(super) fn folded(&self) -> u64 {
        self.folded.load(Ordering::Relaxed)
    }

    /// Returns the number of lines of the audit that were left out since the start.
    pub(super) fn audit_folded(&self) -> u64 {
        self.audit_folded.load(Ordering::Relaxed)
    }
}

impl Window {
    fn summary(&self, level: Level, subject: &Subject) -> Option<Summary> {
        (self.left_out > 0).then(|| Summary {
            level,
            subject: subject.clone(),
            message: self.message.clone(),
            left_out: self.left_out,
        })
    }
}

/// The hash of a line's fields, and the fields that are shown in summaries.
#[derive(Default)]
struct Line {
    hash: DefaultHasher,
    message: String,
    event: String,
    identity: String,
    peer: String,
}

impl Line {
    /// Returns the one that a line of the audit is about.
    fn subject(&self) -> Subject {
        // The name is quoted. Callers without credentials have an empty one.
        let identity = self.identity.trim_matches('"');
        if !identity.is_empty() {
            return Subject::Identity(identity.to_owned());
        }
        let peer = self.peer.parse();
        peer.map_or(Subject::Nobody, |peer| Subject::Network(network(peer)))
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        field.name().hash(&mut self.hash);
        // Writing to a hasher or to a string cannot fail.
        let _ = write!(HashWriter(&mut self.hash), "{value:?}");
        let shown = match field.name() {
            "message" => &mut self.message,
            "event" => &mut self.event,
            "identity" => &mut self.identity,
            "peer" => &mut self.peer,
            _ => return,
        };
        let _ = write!(shown, "{value:?}");
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
        admit_of(folding, Subject::Process, text, now)
    }

    fn admit_of(folding: &Folding, subject: Subject, text: &str, now: Instant) -> bool {
        let place = (tracing::callsite::Identifier(&SITE), Level::WARN);
        folding.admit(place, subject, line(text), now)
    }

    fn summary(left_out: u64) -> Summary {
        summary_of(Subject::Process, left_out)
    }

    fn summary_of(subject: Subject, left_out: u64) -> Summary {
        Summary {
            level: Level::WARN,
            subject,
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
    fn audit_line_of_one_is_not_left_out_because_of_another() {
        let folding = Folding::default();
        let start = Instant::now();
        let loud = Subject::Identity("loud".to_owned());
        let quiet = Subject::Identity("quiet".to_owned());
        for number in 0..100 {
            admit_of(&folding, loud.clone(), &number.to_string(), start);
        }
        for number in 0..70_000_u32 {
            let network = Subject::Network(IpAddr::from(number.to_be_bytes()));
            admit_of(&folding, network, &number.to_string(), start);
        }
        assert!(admit_of(&folding, quiet.clone(), "once", start));
        assert!(!admit_of(&folding, quiet.clone(), "once", start));
        let summaries = folding.end_windows(start + WINDOW);
        assert_eq!(summaries.len(), 3, "{summaries:?}");
        for (subject, left_out) in [
            (loud, 80),
            (quiet, 1),
            (Subject::OtherNetworks, 70_000 - 256 - 20),
        ] {
            assert!(
                summaries.contains(&summary_of(subject, left_out)),
                "{summaries:?}"
            );
        }
        assert_eq!(
            (folding.folded(), folding.audit_folded()),
            (0, 80 + 1 + 69_724)
        );
    }

    #[test]
    fn audit_line_is_about_its_identity_or_its_network() {
        let of = |identity: &str, peer: &str| {
            let line = Line {
                identity: identity.to_owned(),
                peer: peer.to_owned(),
                ..Line::default()
            };
            line.subject()
        };
        let loader = Subject::Identity("loader".to_owned());
        assert_eq!(of("\"loader\"", "10.0.0.1"), loader);
        let network = Subject::Network("2001:db8::".parse().expect("an address"));
        assert_eq!(of("\"\"", "2001:db8::7"), network);
        assert_eq!(of("", ""), Subject::Nobody);
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
