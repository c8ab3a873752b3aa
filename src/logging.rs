//! Logging: formats the events of the crate `tracing` as lines on standard error.
//!
//! An event passes three parts on its way:
//!
//! 1. the level, which can be changed while the process runs, and which hides no line of the audit (`level.rs`)
//! 2. the folding of repeated lines (`folding.rs`)
//! 3. a queue of 8,192 lines to a thread that writes them. If the reader of standard error stalls, the queue
//!    fills, and further lines are dropped and counted. No call ever waits for the reader. Lines of the audit also
//!    go to a file of their own, through a queue of their own (`audit_file.rs`)
//!
//! Lines never contain connection strings, lease ids, tokens, values of columns, error texts of workers or headers.

mod audit_file;
mod counters;
mod folding;
mod level;
mod maintenance;
mod rejected_spans;
mod standard_error;
mod trace_ids;
#[cfg(test)]
mod written_lines;

pub use self::counters::LogCounters;
pub use self::level::LogLevel;

use std::io::IsTerminal as _;
use std::sync::Arc;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{FilterExt as _, Targets};
use tracing_subscriber::fmt::writer::MakeWriterExt as _;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use self::audit_file::AuditFile;
use self::folding::{AUDIT_TARGET, Folding};
use self::maintenance::Maintenance;
use self::rejected_spans::RejectedSpans;
use self::standard_error::StandardError;
use self::trace_ids::{FieldsWithIds, JsonWithIds};
use crate::config::{Log, LogFormat};

/// The number of lines that wait while the reader of standard error stalls.
const BUFFERED_LINES: usize = 8_192;

/// Checks the level in the settings of a log.
///
/// # Errors
/// A message that names the setting and quotes the level.
pub fn check_level(log: &Log) -> Result<(), String> {
    parse_level(log).map(drop)
}

fn parse_level(log: &Log) -> Result<EnvFilter, String> {
    level::parse(&log.level).map_err(|reason| format!("log.level: {reason}"))
}

/// The running log. Dropping it writes the lines that wait, for at most about a second.
pub struct Logging {
    /// The level, to read and to change.
    pub level: Arc<LogLevel>,
    /// The numbers of lines that were not written.
    pub counters: LogCounters,
    // The fields are dropped in this order: maintenance writes its last lines, and then the guard waits for the writer.
    _maintenance: Maintenance,
    _writers: Vec<WorkerGuard>,
}

/// Starts logging for the whole process.
///
/// # Errors
/// A message if the level is invalid, if the file of the audit cannot be opened, or if logging has been started before.
pub fn start(log: &Log) -> Result<Logging, String> {
    let has_audit_file = !log.audit_file.as_os_str().is_empty();
    let (level, handle) = reload::Layer::new(parse_level(log)?);
    let standard_error = StandardError::default();
    let unwritten = standard_error.lost();
    let (writer, guard) = queue("log", standard_error);
    let mut guards = vec![guard];
    let path = &log.audit_file;
    let file = has_audit_file.then(|| AuditFile::open(path)).transpose();
    let file = file.map_err(|error| format!("log.audit_file: {}: {error}", path.display()))?;
    let lost = file.as_ref().map(AuditFile::lost).unwrap_or_default();
    let audit = file.map(|file| {
        let (writer, guard) = queue("audit", file);
        guards.push(guard);
        writer
    });
    let audit_errors = audit.as_ref().map(NonBlocking::error_counter);
    let folding = Arc::new(Folding::default());
    let rejected_spans = RejectedSpans::default();
    let counters = LogCounters::new(
        [Some(writer.error_counter()), audit_errors],
        [unwritten, lost],
        folding.clone(),
        rejected_spans.clone(),
    );
    let lines = fmt::layer().with_writer(writer);
    let lines = match log.format {
        LogFormat::Human => lines
            .with_ansi(std::io::stderr().is_terminal())
            .fmt_fields(FieldsWithIds)
            .boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .map_event_format(JsonWithIds)
            .boxed(),
    };
    let audit = audit.map(|writer| {
        let writer = writer.with_filter(|line| line.target().starts_with(AUDIT_TARGET));
        fmt::layer()
            .with_writer(writer)
            .json()
            .flatten_event(true)
            .map_event_format(JsonWithIds)
    });
    let lines = lines.and_then(audit);
    subscriber(level, folding.clone(), lines, rejected_spans)
        .try_init()
        .map_err(|error| error.to_string())?;
    let level = Arc::new(LogLevel::new(handle, log.level.clone()));
    Ok(Logging {
        _maintenance: Maintenance::start(folding, counters.clone(), level.clone()),
        level,
        counters,
        _writers: guards,
    })
}

/// Returns the parts through which an event passes.
///
/// Each layer says which events it wants. If one did not, every library would ask all layers about each event that the level hides,
/// and a call makes many of these.
fn subscriber(
    level: reload::Layer<EnvFilter, Registry>,
    folding: Arc<Folding>,
    lines: impl Layer<Registry> + Send + Sync,
    rejected_spans: RejectedSpans,
) -> impl Subscriber + Send + Sync {
    let filter = level::filter(level).and(folding::Filter(folding));
    let of_exporter = Targets::new().with_target(rejected_spans::TARGET, LevelFilter::WARN);
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(rejected_spans.with_filter(of_exporter))
}

/// Starts a thread that writes lines. Those that do not fit into its queue are dropped.
fn queue(thread: &str, writer: impl std::io::Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default()
        .buffered_lines_limit(BUFFERED_LINES)
        .lossy(true)
        .thread_name(thread)
        .finish(writer)
}

#[cfg(test)]
mod tests {
    use super::written_lines::WrittenLines;
    use super::*;

    #[test]
    fn levels_that_are_off_are_known_before_an_event_is_made() {
        let level = level::parse("info").expect("a level");
        let (level, _handle) = reload::Layer::new(level);
        let subscriber = subscriber(
            level,
            Arc::default(),
            fmt::layer(),
            RejectedSpans::default(),
        );
        assert_eq!(subscriber.max_level_hint(), Some(LevelFilter::INFO));
    }

    #[test]
    fn no_level_hides_a_line_of_the_audit() {
        for level in [
            "off",
            "off,lease_broker::audit=off",
            "lease_broker::audit[{event}]=off",
            "lease_broker::audit[{peer}]=off",
            "lease_broker::audit::summary=off,lease_broker::logging=off",
        ] {
            let written = WrittenLines::default();
            let lines = fmt::layer().with_writer(written.writers()).with_ansi(false);
            let filter = level::parse(level).expect("a level");
            let (filter, _handle) = reload::Layer::new(filter);
            let subscriber = subscriber(filter, Arc::default(), lines, RejectedSpans::default());
            tracing::subscriber::with_default(subscriber, || {
                tracing::error!("hidden");
                tracing::info!(target: "lease_broker::audit", event = "e", peer = "p", "changed");
                tracing::warn!(target: "lease_broker::audit::summary", "left out");
                tracing::warn!(target: "lease_broker::logging", "lost");
            });
            let written = written.text();
            let messages = written.lines().map(|line| {
                let (_, message) = line.split_once(": ").expect("a target");
                message.split(" event=").next().unwrap_or_default()
            });
            let messages: Vec<&str> = messages.collect();
            assert_eq!(messages, ["changed", "left out", "lost"], "{level}");
        }
    }
}
