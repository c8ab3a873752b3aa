//! The health of the calls to the brokers: the events `connected` and `disconnected`, the warnings while no call is
//! answered, and one half of the worker's health.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Code;

use super::events::{Event, EventLog, EventName};
use super::failure::Failure;

/// The time without an answer before the first warning.
const FIRST_WARNING: Duration = Duration::from_secs(2);
/// The time between two warnings.
const NEXT_WARNING: Duration = Duration::from_secs(30);

pub(super) struct ConnectionHealth {
    events: Arc<EventLog>,
    connected: AtomicBool,
    /// The time since which no call was answered. `None`: the last call was answered.
    failing_since: watch::Sender<Option<Instant>>,
    /// The text of the last failure.
    cause: Mutex<String>,
}

impl ConnectionHealth {
    /// Expects the first answer from now on. The first attempt can take long to fail.
    pub(super) fn new(events: Arc<EventLog>) -> Self {
        Self {
            events,
            connected: AtomicBool::new(false),
            failing_since: watch::Sender::new(Some(Instant::now())),
            cause: Mutex::new("no answer yet".to_owned()),
        }
    }

    /// Notes the result of an attempt. An error of the broker is an answer, unless it says that its database is away.
    pub(super) fn note(&self, failure: Option<&Failure>) {
        let unanswered = failure
            .filter(|failure| failure.reason.is_empty() || failure.code == Code::Unavailable);
        if let Some(failure) = unanswered {
            *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = failure.text();
        }
        let since = unanswered.map(|_| Instant::now());
        self.failing_since.send_if_modified(|failing_since| {
            let changes = failing_since.is_some() != since.is_some();
            if changes {
                *failing_since = since;
            }
            changes
        });
        let answered = unanswered.is_none();
        let changed = self.connected.swap(answered, Ordering::Relaxed) != answered;
        match unanswered {
            _ if !changed => {}
            Some(failure) => {
                let event = Event::new(EventName::Disconnected);
                self.events.emit(event.with_error(failure.message.as_str()));
            }
            None => self.events.emit(Event::new(EventName::Connected)),
        }
    }

    /// Returns whether the last call was answered.
    pub(super) fn answers(&self) -> bool {
        self.failing_since.borrow().is_none()
    }

    /// Returns the time for which calls have failed. Zero: the last one was answered.
    pub(super) fn failing_for(&self) -> Duration {
        let since = *self.failing_since.borrow();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn cause(&self) -> String {
        let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        cause.clone()
    }

    /// Warns while no call is answered, until the future is dropped.
    pub(super) async fn warn(&self, address: &str) {
        let mut failing_since = self.failing_since.subscribe();
        loop {
            let Some(since) = *failing_since.borrow_and_update() else {
                // An error means that the sender is gone, and the sender is in `self`.
                let _ = failing_since.changed().await;
                continue;
            };
            let mut next = since + FIRST_WARNING;
            while tokio::time::timeout_at(next, failing_since.changed())
                .await
                .is_err()
            {
                let cause = self.cause();
                let seconds = since.elapsed().as_secs();
                tracing::warn!(address, seconds, cause, "calls to the broker fail");
                next += NEXT_WARNING;
            }
            if next > since + FIRST_WARNING {
                // A warning too: a log that shows the problem also shows its end.
                let seconds = since.elapsed().as_secs();
                tracing::warn!(address, seconds, "broker answers again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_log::MemoryLog;
    use super::*;

    fn health() -> ConnectionHealth {
        ConnectionHealth::new(Arc::new(EventLog::new(String::new(), None)))
    }

    #[tokio::test(start_paused = true)]
    async fn warning_is_repeated_with_the_latest_cause() {
        let log = MemoryLog::default();
        let _guard = log.collect();
        let health = health();
        let away = Failure {
            reason: "STORE_UNAVAILABLE".to_owned(),
            ..Failure::new(Code::Unavailable, "no database")
        };
        let story = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            health.note(Some(&away));
            tokio::time::sleep(Duration::from_secs(60)).await;
            health.note(None);
            // Short failures are not worth a warning.
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                health.note(Some(&away));
                tokio::time::sleep(Duration::from_secs(1)).await;
                health.note(None);
            }
            tokio::time::sleep(Duration::from_secs(100)).await;
        };
        tokio::select! {
            () = health.warn("a:1") => {}
            () = story => {}
        }
        let database = r#" WARN calls to the broker fail address="a:1" seconds=32 cause="Unavailable (STORE_UNAVAILABLE): no database""#;
        assert_eq!(
            log.lines(),
            [
                r#" WARN calls to the broker fail address="a:1" seconds=2 cause="no answer yet""#,
                database,
                &database.replace("32", "62"),
                r#" WARN broker answers again address="a:1" seconds=63"#,
            ]
        );
    }

    #[tokio::test]
    async fn error_with_a_reason_is_an_answer() {
        let health = health();
        let overloaded = Failure {
            reason: "OVERLOADED".to_owned(),
            ..Failure::new(Code::ResourceExhausted, "")
        };
        health.note(Some(&overloaded));
        assert!(health.answers());
        health.note(Some(&Failure::new(Code::Unavailable, "refused")));
        assert!(!health.answers());
    }
}
