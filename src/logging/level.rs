//! The level of the log, and its changes at run time.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// The levels of targets outside this program, unless the configured level names them.
///
/// h2 writes a line for each unexpected frame of a client. tiberius writes a line for each error of the server and for
/// each connection. The broker writes its own lines about both, without values from the database. Warnings of the exporter
/// of spans are needed to count rejected spans, and are not written either.
const FOREIGN_TARGETS: &str = "h2=error,hyper=error,reqwest=error,rustls=error,tiberius=off,opentelemetry=error,opentelemetry-otlp=warn";

/// The names of levels.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// The level of the audit if it has a file: everything.
const AUDIT: &str = "lease_broker::audit=info";

/// Parses a level, such as `info` or `info,lease_broker=debug`. `has_audit_file`: the level does not hide lines of the audit.
///
/// # Errors
/// A message that quotes the level.
pub(super) fn parse(level: &str, has_audit_file: bool) -> Result<EnvFilter, String> {
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
    let audit = if has_audit_file { AUDIT } else { "" };
    parse(&format!("{FOREIGN_TARGETS},{level},{audit}")).map_err(|error| error.to_string())
}

/// The level in effect.
pub struct LogLevel {
    has_audit_file: bool,
    handle: reload::Handle<EnvFilter, Registry>,
    state: Mutex<LevelState>,
}

struct LevelState {
    configured: String,
    current: String,
    /// The time at which the configured level takes effect again.
    until: Option<Instant>,
}

impl LogLevel {
    pub(super) fn new(
        handle: reload::Handle<EnvFilter, Registry>,
        configured: String,
        has_audit_file: bool,
    ) -> Self {
        let state = LevelState {
            current: configured.clone(),
            configured,
            until: None,
        };
        Self {
            has_audit_file,
            handle,
            state: Mutex::new(state),
        }
    }

    /// Returns the level in effect, as text.
    pub fn current(&self) -> String {
        self.state.lock().current.clone()
    }

    /// Changes the level. After `duration` the configured level takes effect again. `None`: the change stays until the
    /// next one.
    ///
    /// # Errors
    /// A message if the text is not a level. The level then stays as it was.
    pub fn set(&self, level: &str, duration: Option<Duration>) -> Result<(), String> {
        let filter = parse(level, self.has_audit_file)?;
        let mut state = self.state.lock();
        let is_new = state.current != level;
        if is_new {
            // Before the change, which can hide this line.
            tracing::info!(
                target: "lease_broker::audit",
                event = "log.level", level, before = state.current, "log level changed"
            );
        }
        self.handle
            .reload(filter)
            .map_err(|error| error.to_string())?;
        level.clone_into(&mut state.current);
        state.until = duration.and_then(|duration| Instant::now().checked_add(duration));
        Ok(())
    }

    /// Checks a level without a change.
    ///
    /// # Errors
    /// The same as [`Self::set`].
    pub fn check(&self, level: &str) -> Result<(), String> {
        parse(level, self.has_audit_file).map(drop)
    }

    /// Changes the configured level, and makes it the level in effect.
    ///
    /// # Errors
    /// The same as [`Self::set`].
    pub fn set_configured(&self, level: &str) -> Result<(), String> {
        self.set(level, None)?;
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
            let _ = self.set(&configured, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level() -> (LogLevel, reload::Layer<EnvFilter, Registry>) {
        let (layer, handle) = reload::Layer::new(parse("info", false).expect("valid"));
        // The handle works as long as its layer exists.
        (LogLevel::new(handle, "info".to_owned(), false), layer)
    }

    #[test]
    fn temporary_level_ends_at_its_time() {
        let (level, _layer) = level();
        let change = level.set("debug", Some(Duration::from_secs(60)));
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
            let refused = level.set(wrong, None).expect_err("not a level");
            assert!(refused.contains("is not a log level"), "{refused}");
        }
        assert_eq!(level.current(), "info");
    }

    #[test]
    fn user_can_turn_foreign_targets_on() {
        let filter = parse("info,tiberius=debug", false)
            .expect("valid")
            .to_string();
        assert!(filter.contains("tiberius=debug"), "{filter}");
        assert!(!filter.contains("tiberius=off"), "{filter}");
    }

    #[test]
    fn audit_with_a_file_is_not_hidden() {
        for level in ["off", "error", "info,lease_broker::audit=off"] {
            let filter = parse(level, true).expect("valid").to_string();
            assert!(filter.contains("lease_broker::audit=info"), "{filter}");
            assert!(!filter.contains("lease_broker::audit=off"), "{filter}");
        }
    }
}
