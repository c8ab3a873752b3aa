//! How long the settler waits for further endings, so that handlers that end one after the other share a call.

use std::time::Duration;

/// The wait. Each slot that has ended is idle for at most this long.
const GATHER_TIME: Duration = Duration::from_millis(1);
const MIN_SLOTS: usize = 8;
/// Handlers that are shorter would lose more by the wait than the broker gains.
const MIN_HANDLER_TIME: Duration = GATHER_TIME.saturating_mul(10);

/// Knows how long the handlers of a worker take.
#[derive(Debug)]
pub(super) struct Gathering {
    slots: usize,
    /// The mean time of handlers, in which a new one has a weight of one eighth. `None`: none has returned.
    mean: Option<Duration>,
}

impl Gathering {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots, mean: None }
    }

    /// Notes the time of a handler that has returned.
    pub(super) fn note(&mut self, taken: Duration) {
        let mean = self.mean.unwrap_or(taken);
        self.mean = Some((mean * 7 + taken) / 8);
    }

    /// Returns the time to wait while this number of handlers runs.
    pub(super) fn wait(&self, running: usize) -> Duration {
        let is_long = self.mean.is_some_and(|mean| mean >= MIN_HANDLER_TIME);
        if is_long && 2 * running > self.slots && self.slots >= MIN_SLOTS {
            GATHER_TIME
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settler_gathers_as_the_vectors_say() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors/gathering.json");
        let vectors = std::fs::read_to_string(file).expect("the file is read");
        let vectors: serde_json::Value = serde_json::from_str(&vectors).expect("JSON");
        for case in vectors["cases"].as_array().expect("a list") {
            let number = |name: &str| case[name].as_u64().expect("a number");
            let milliseconds = |value: &serde_json::Value| {
                Duration::from_secs_f64(value.as_f64().expect("a number") / 1_000.0)
            };
            let slots = usize::try_from(number("slots")).expect("a small number");
            let running = usize::try_from(number("running")).expect("a small number");
            let mut gathering = Gathering::new(slots);
            for taken in case["handler_ms"].as_array().expect("a list") {
                gathering.note(milliseconds(taken));
            }
            assert_eq!(
                gathering.wait(running),
                milliseconds(&case["wait_ms"]),
                "{case}"
            );
        }
    }
}
