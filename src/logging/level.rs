//! The level of the log, and its changes at run time.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::Filter;
use tracing_subscriber::{EnvFilter, Registry, reload};

use super::folding::{AUDIT_SUMMARY_TARGET, AUDIT_TARGET, OWN_TARGET};

/// The levels of targets outside this program, unless the configured level names them.
///
/// h2 writes a line for each unexpected frame of a client. tiberius writes a line for each error of the server and for
/// each connection. The broker writes its own lines about both, without values from the database.
const FOREIGN_TARGETS: &str =
    "h2=error,hyper=error,reqwest=error,rustls=error,tiberius=off,opentelemetry=error";

/// The changes by clients: this number at once, and then evenly over each minute.
const CHANGES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// The names of levels.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Parses a level, such as `info` or `info,lease_broker=debug`.
///
/// # Errors
/// A message that quotes the level.
pub(super) fn parse(level: &str) -> Result<EnvFilter, String> {
    // The parser takes empty text and numbers for levels, and a single word that is no level for the name of a target.
    let is_known = |word: &str| {
        let (_, named) = word.rsplit_once('=').unwrap_or(("", word));
        word.contains('[') || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(named))
    };
    if let Some(word) = level.split(',').map(str::trim).find(|word| !is_known(word)) {
        return Err(format!(
            "{word:?} is not a log level: use error, warn, info, debug, trace or off, or a target with a level such as \
             lease_broker=debug"
        ));
    }
    let parse = |text: &str| EnvFilter::builder().parse(text);
    // Parsed alone first, so that the message is about the user's text.
    parse(level).map_err(|error| format!("{level:?} is not a log level: {error}"))?;
    parse(&format!("{FOREIGN_TARGETS},{level}")).map_err(|error| error.to_string())
}

/// Returns the filter of lines: a level, which hides no line of the audit and none about lines that are missing.
///
/// These lines never reach the level's own filter, so no text of a level can hide them.
pub(super) fn filter<S: Subscriber>(level: impl Filter<S>) -> impl Filter<S> {
    let kept = [AUDIT_TARGET, AUDIT_SUMMARY_TARGET, OWN_TARGET];
    let is_kept =
        move |line: &Metadata<'_>| *line.level() <= Level::INFO && kept.contains(&line.target());
    let kept = filter_fn(is_kept).with_max_level_hint(LevelFilter::INFO);
    kept.or(level)
}

/// The level in effect.
pub struct LogLevel {
    handle: reload::Handle<EnvFilter, Registry>,
    state: Mutex<LevelState>,
    /// Limits the changes by clients, because each has a line that is never left out.
    rate: DefaultDirectRateLimiter,
}

struct LevelState {
    configured: String,
    current: String,
    /// The time at which the configured level takes effect again.
    until: Option<Instant>,
}

impl LogLevel {
    /// The message of a change that comes too soon after others.
    pub const TOO_OFTEN: &str = "the level was changed too often: try again in a few seconds";

    pub(super) fn new(handle: reload::Handle<EnvFilter, Registry>, configured: String) -> Self {
        let state = LevelState {
            current: configured.clone(),
            configured,
            until: None,
        };
        Self {
            handle,
            state: Mutex::new(state),
            rate: RateLimiter::direct(Quota::per_minute(CHANGES_PER_MINUTE)),
        }
    }

    /// Returns the level in effect, as text.
    pub fn current(&self) -> String {
        self.state.lock().current.clone()
    }

    /// Changes the level. After `duration` the configured level takes effect again. `None`: the change stays until the
    /// next one. `peer`: the address of the client that demands it.
    ///
    /// # Errors
    /// A message if the text is not a level, or [`Self::TOO_OFTEN`]. The level then stays as it was.
    pub fn set(&self, level: &str, duration: Option<Duration>, peer: IpAddr) -> Result<(), String> {
        if level != self.current() && self.rate.check().is_err() {
            return Err(Self::TOO_OFTEN.to_owned());
        }
        self.change(level, duration, Some(peer))
    }

    fn change(
        &self,
        level: &str,
        duration: Option<Duration>,
        peer: Option<IpAddr>,
    ) -> Result<(), String> {
        let filter = parse(level)?;
        let mut state = self.state.lock();
        let is_new = state.current != level;
        if is_new {
            let peer = peer.map(tracing::field::display);
            tracing::info!(
                target: "lease_broker::audit",
                event = "log.level", peer, before = state.current, after = level, "log level changed"
            );
        }
        self.handle
            .reload(filter)
            .map_err(|error| error.to_string())?;
        level.clone_into(&mut state.current);
        state.until = duration.and_then(|duration| Instant::now().checked_add(duration));
        Ok(())
    }

    /// Changes the configured level, and makes it the level in effect.
    ///
    /// # Errors
    /// The same as [`Self::set`].
    pub fn set_configured(&self, level: &str) -> Result<(), String> {
        self.change(level, None, None)?;
        level.clone_into(&mut self.state.lock().configured);
        Ok(())
    }

    /// Returns to the configured level if the time of a temporary level is over.
    pub(super) fn end_temporary_level(&self, now: Instant) {
        let state = self.state.lock();
        if state.until.is_some_and(|until| until <= now) {
            let configured = state.configured.clone();
            drop(state);
            // The configured level has been in effect before, so it is valid.
            let _ = self.change(&configured, None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level() -> (LogLevel, reload::Layer<EnvFilter, Registry>) {
        let (layer, handle) = reload::Layer::new(parse("info").expect("valid"));
        // The handle works as long as its layer exists.
        (LogLevel::new(handle, "info".to_owned()), layer)
    }

    #[test]
    fn temporary_level_ends_at_its_time() {
        let (level, _layer) = level();
        let change = level.change("debug", Some(Duration::from_secs(60)), None);
        assert_eq!(change, Ok(()));
        let now = Instant::now();
        level.end_temporary_level(now);
        assert_eq!(level.current(), "debug");
        level.end_temporary_level(now + Duration::from_secs(61));
        assert_eq!(level.current(), "info");
    }

    #[test]
    fn invalid_level_is_refused_and_changes_nothing() {
        let (level, _layer) = level();
        for wrong in [
            "loud",
            "info,lease_broker=loud",
            "",
            "5",
            "info,",
            "info,lease_broker=",
        ] {
            let refused = level.change(wrong, None, None).expect_err("not a level");
            assert!(refused.contains("is not a log level"), "{refused}");
        }
        assert_eq!(level.current(), "info");
    }

    #[test]
    fn user_can_turn_foreign_targets_on() {
        let filter = parse("info,tiberius=debug").expect("valid").to_string();
        assert!(filter.contains("tiberius=debug"), "{filter}");
        assert!(!filter.contains("tiberius=off"), "{filter}");
    }
}
