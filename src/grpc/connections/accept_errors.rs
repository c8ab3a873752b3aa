//! Errors of accepting a connection: which of them concern the whole process, and how long to wait after them.

use std::io::{Error, ErrorKind};
use std::time::Duration;

const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The errors since the last accepted connection.
#[derive(Default)]
pub(super) struct AcceptErrors {
    pause: Option<Duration>,
}

impl AcceptErrors {
    /// Starts again with the shortest pause.
    pub(super) fn clear(&mut self) {
        self.pause = None;
    }

    /// Returns the pause before the next attempt. `None`: the error concerns one connection only.
    ///
    /// Without the pause, a process without free file descriptors would use a whole core until one is free.
    pub(super) fn pause_after(&mut self, error: &Error) -> Option<Duration> {
        if matches!(
            error.kind(),
            ErrorKind::ConnectionAborted
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionRefused
                | ErrorKind::Interrupted
        ) {
            return None;
        }
        let pause = self.pause.map_or(MIN_PAUSE, |pause| pause * 2);
        let pause = pause.min(MAX_PAUSE);
        self.pause = Some(pause);
        // The log folds lines that repeat.
        tracing::error!(%error, "connections cannot be accepted");
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_up_to_a_second() {
        // Linux: too many open files.
        let no_descriptor = Error::from_raw_os_error(24);
        let mut errors = AcceptErrors::default();
        let pauses: Vec<_> = (0..10)
            .map(|_| errors.pause_after(&no_descriptor).expect("a pause"))
            .collect();
        assert_eq!(pauses[..3], [5, 10, 20].map(Duration::from_millis));
        assert_eq!(pauses[9], MAX_PAUSE);
        errors.clear();
        assert_eq!(errors.pause_after(&no_descriptor), Some(MIN_PAUSE));
    }

    #[test]
    fn error_of_one_connection_needs_no_pause() {
        let mut errors = AcceptErrors::default();
        let aborted = Error::from(ErrorKind::ConnectionAborted);
        assert_eq!(errors.pause_after(&aborted), None);
    }
}
