//! Whether brokers answer: the events `connected` and `disconnected`, and one half of the worker's health.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::Code;

use super::events::{Event, EventLog, EventName};
use super::failure::Failure;

pub(super) struct ConnectionHealth {
    events: Arc<EventLog>,
    state: Mutex<Connection>,
}

#[derive(Default)]
struct Connection {
    connected: bool,
    /// The time of the first attempt that failed since the last one that was answered.
    failing_since: Option<Instant>,
}

impl ConnectionHealth {
    pub(super) fn new(events: Arc<EventLog>) -> Self {
        let state = Mutex::default();
        Self { events, state }
    }

    /// Notes the result of an attempt. An error of the broker is an answer, unless it says that its database is away.
    pub(super) fn note(&self, failure: Option<&Failure>) {
        let answered = failure
            .is_none_or(|failure| !failure.reason.is_empty() && failure.code != Code::Unavailable);
        let changed = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if answered {
                state.failing_since = None;
            } else {
                state.failing_since.get_or_insert_with(Instant::now);
            }
            std::mem::replace(&mut state.connected, answered) != answered
        };
        match failure {
            _ if !changed => {}
            Some(failure) if !answered => {
                let event = Event::new(EventName::Disconnected);
                self.events
                    .emit(&event.with_error(failure.message.as_str()));
            }
            _ => self.events.emit(&Event::new(EventName::Connected)),
        }
    }

    /// Returns the time for which calls have failed. Zero: the last one was answered.
    pub(super) fn failing_for(&self) -> Duration {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .failing_since
            .map_or(Duration::ZERO, |since| since.elapsed())
    }
}
