//! The health of the calls to the brokers: the events `connected` and `disconnected`, the warnings while no call is
//! answered, and one half of the worker's health.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tonic::Code;

use super::events::{Event, EventLog, EventName};
use super::failure::Failure;

/// The time without an answer before the first warning.
const FIRST_WARNING: Duration = Duration::from_secs(2);
/// The time between two warnings.
const NEXT_WARNING: Duration = Duration::from_secs(30);

pub(super) struct ConnectionHealth {
    events: Arc<EventLog>,
    calls: watch::Sender<Calls>,
}

struct Calls {
    /// The time since which no call was answered. `None`: the last call was answered.
    failing_since: Option<Instant>,
    /// Whether the last call was answered. False before the first one.
    connected: bool,
    /// The text of the last failure.
    cause: String,
}

impl ConnectionHealth {
    /// Expects the first answer from now on. The first attempt can take long to fail.
    pub(super) fn new(events: Arc<EventLog>) -> Self {
        let calls = watch::Sender::new(Calls {
            failing_since: Some(Instant::now()),
            connected: false,
            cause: "no answer yet".to_owned(),
        });
        Self { events, calls }
    }

    /// Notes the result of an attempt. An error of the broker is an answer, unless it says that its database is away.
    pub(super) fn note(&self, failure: Option<&Failure>) {
        let unanswered = failure
            .filter(|failure| failure.reason.is_empty() || failure.code == Code::Unavailable);
        let mut changed = false;
        self.calls.send_if_modified(|calls| {
            changed = calls.connected == unanswered.is_some();
            calls.connected = unanswered.is_none();
            if let Some(failure) = unanswered {
                calls.cause = failure.text();
            }
            let differs = calls.failing_since.is_some() != unanswered.is_some();
            if differs {
                calls.failing_since = unanswered.map(|_| Instant::now());
            }
            differs
        });
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
        self.calls.borrow().failing_since.is_none()
    }

    /// Returns the time for which calls have failed. Zero: the last one was answered.
    pub(super) fn failing_for(&self) -> Duration {
        let since = self.calls.borrow().failing_since;
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Warns while no call is answered, until the future is dropped.
    pub(super) async fn warn(&self, address: &str) {
        let mut calls = self.calls.subscribe();
        loop {
            let since = calls.borrow_and_update().failing_since;
            let Some(since) = since else {
                // An error means that the sender is gone, and the sender is in `self`.
                let _ = calls.changed().await;
                continue;
            };
            let mut next = since + FIRST_WARNING;
            while timeout_at(next, calls.changed()).await.is_err() {
                let cause = calls.borrow().cause.clone();
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
