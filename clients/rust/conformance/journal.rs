//! Prints the events of the worker. Each line is written before the act that follows the event.

use std::io::{self, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lease_broker_client::{Event, EventName};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;

pub(crate) struct Journal {
    /// True: events are not printed.
    quiet: bool,
    /// The number of completed items after which the worker stops. 0: it does not.
    until: u64,
    completed: AtomicU64,
    begun: Mutex<Clock>,
    finished: Notify,
}

impl Journal {
    pub(crate) fn new(quiet: bool, until: u64) -> Self {
        Self {
            quiet,
            until,
            completed: AtomicU64::new(0),
            begun: Mutex::new(Clock::read()),
            finished: Notify::new(),
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Reports that the worker runs.
    pub(crate) fn ready(&self) {
        *self.begun.lock().expect("no thread has panicked") = Clock::read();
        print(json!({"ev": "ready"}));
    }

    /// Waits until the number of items is completed.
    pub(crate) async fn finished(&self) {
        self.finished.notified().await;
    }

    pub(crate) fn event(&self, event: &Event) {
        if self.quiet {
            let is_end = event.name == EventName::Completed
                && self.completed.fetch_add(1, Ordering::Relaxed) + 1 == self.until;
            if is_end {
                self.done(self.until);
                self.finished.notify_one();
            }
            return;
        }
        let mut line = json!({"ev": event.name.as_str()});
        if let Some(item) = &event.item {
            line["key"] = json!(item.key());
            line["attempt"] = json!(item.attempt());
            line["fence"] = json!(item.fencing_token());
            if event.name == EventName::Started {
                line["checkpoint"] = json!(item.checkpoint().map(String::from_utf8_lossy));
            }
        }
        let texts = [
            (
                "cause",
                event.cause.map_or("", lease_broker_client::Cause::name),
            ),
            ("reason", &event.reason),
            ("error", &event.error),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            line[name] = json!(text);
        }
        if event.name == EventName::Heartbeat {
            line["count"] = json!(event.count);
        }
        if let Some(retry) = &event.retry {
            line["rpc"] = json!(retry.rpc);
            line["code"] = json!(format!("{:?}", retry.code));
            line["attempt"] = json!(retry.attempt);
            line["wait_ms"] = json!(retry.wait.as_millis());
        }
        print(line);
    }

    /// Prints the number of items, and the times since `ready`.
    pub(crate) fn done(&self, items: u64) {
        let begun = *self.begun.lock().expect("no thread has panicked");
        let now = Clock::read();
        print(json!({
            "ev": "done",
            "items": items,
            "seconds": now.monotonic.saturating_sub(begun.monotonic).as_secs_f64(),
            "cpu_seconds": now.processor.saturating_sub(begun.processor).as_secs_f64(),
        }));
    }
}

/// Prints a line with the present time.
pub(crate) fn print(mut line: Json) {
    line["at_ms"] = json!(Clock::read().monotonic.as_millis());
    let mut out = io::stdout().lock();
    // The harness that reads the lines may have ended.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The monotonic time of the machine and the processor time of this program.
#[derive(Clone, Copy)]
struct Clock {
    monotonic: Duration,
    processor: Duration,
}

impl Clock {
    fn read() -> Self {
        let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        Self {
            monotonic: read(ClockId::Monotonic),
            processor: read(ClockId::ProcessCPUTime),
        }
    }
}
