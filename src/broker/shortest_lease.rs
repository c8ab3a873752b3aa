//! The shortest lease in use: the shortest one that this broker gave or extended in the last minute or two. The watch of the
//! store's clock must notice a step that passes it. Leases of a minute or more do not matter to it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A lease that is at least this long does not count.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// The shortest lease of one queue.
#[derive(Debug, Default)]
pub(super) struct ShortestLease(Mutex<Option<Minutes>>);

/// The shortest leases of two minutes.
#[derive(Clone, Copy, Debug)]
struct Minutes {
    /// The start of the present one.
    start: Instant,
    present: Duration,
    last: Duration,
}

impl ShortestLease {
    /// Notes a lease that was given or extended now.
    pub(super) fn note(&self, duration: Duration, now: Instant) {
        if duration < LONG {
            let mut minutes = self.0.lock();
            let mut noted = minutes.unwrap_or_else(|| Minutes::new(now)).at(now);
            noted.present = noted.present.min(duration);
            *minutes = Some(noted);
        }
    }

    /// Returns the shortest lease in use, at most [`LONG`].
    pub(super) fn get(&self, now: Instant) -> Duration {
        let minutes = self.0.lock();
        minutes.map_or(LONG, |minutes| {
            let Minutes { present, last, .. } = minutes.at(now);
            present.min(last)
        })
    }
}

impl Minutes {
    fn new(start: Instant) -> Self {
        Self {
            start,
            present: LONG,
            last: LONG,
        }
    }

    /// Returns the minutes as they are at `now`.
    fn at(self, now: Instant) -> Self {
        match now.saturating_duration_since(self.start) {
            age if age < LONG => self,
            age if age < 2 * LONG => Self {
                last: self.present,
                ..Self::new(self.start + LONG)
            },
            _ => Self::new(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_lease_counts_while_it_can_be_held() {
        let (shortest, start) = (ShortestLease::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let [ten, twenty] = [10, 20].map(Duration::from_secs);
        assert_eq!(shortest.get(start), LONG);
        shortest.note(Duration::from_secs(3_600), start);
        assert_eq!(shortest.get(start), LONG);
        shortest.note(twenty, start);
        shortest.note(ten, at(50));
        shortest.note(twenty, at(55));
        for seconds in [55, 60, 119] {
            assert_eq!(shortest.get(at(seconds)), ten, "{seconds}");
        }
        shortest.note(twenty, at(119));
        assert_eq!(shortest.get(at(120)), twenty);
        assert_eq!(shortest.get(at(300)), LONG);
    }
}
