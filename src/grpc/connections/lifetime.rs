//! The lifetime of a connection: the times at which it is checked, and the result of each check.

use std::time::Duration;

use rand::RngExt as _;
use tokio::time::Instant;

use crate::config;

/// An idle connection is found after at most this part of the idle time more.
const IDLE_CHECKS: u32 = 4;
/// The time that running calls have on a connection that ends now.
const LAST_CALLS: Duration = Duration::from_secs(1);
/// The time without a call after which a connection is closed whose client has not logged in.
const UNTRUSTED_IDLE: Duration = Duration::from_secs(10);

/// The time limits of connections.
#[derive(Clone, Copy)]
pub(super) struct LifetimeLimits {
    pub(super) handshake_timeout: Duration,
    /// `None`: connections are not replaced.
    max_age: Option<Duration>,
    /// `None`: idle connections are not closed.
    max_idle: Option<Duration>,
    grace: Duration,
}

impl From<&config::Server> for LifetimeLimits {
    fn from(settings: &config::Server) -> Self {
        let unless_zero = |time: Duration| (!time.is_zero()).then_some(time);
        Self {
            handshake_timeout: settings.handshake_timeout,
            max_age: unless_zero(settings.max_connection_age),
            max_idle: unless_zero(settings.max_connection_idle),
            grace: settings.max_connection_age_grace,
        }
    }
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next check is at this time. `None`: there is none.
    Wait(Option<Instant>),
    /// Send GOAWAY, so that the client opens no further stream. The next check is at this time.
    Close(Instant),
    /// Close the connection at once.
    Cut,
}

/// The use of a connection until now, as a check needs it.
#[derive(Clone, Copy)]
pub(super) struct Activity {
    /// The client has sent the preface.
    pub(super) greeted: bool,
    /// The client has logged in.
    pub(super) is_trusted: bool,
    /// The number of streams that the client has opened.
    pub(super) started_streams: usize,
    /// A stream stays open for as long as the connection exists.
    pub(super) is_watching: bool,
}

/// The lifetime of one connection.
pub(super) struct Lifetime {
    limits: LifetimeLimits,
    phase: Phase,
    /// The time at which the connection is too old.
    replace_at: Option<Instant>,
    seen_streams: usize,
    idle_since: Instant,
}

#[derive(PartialEq, Eq)]
enum Phase {
    Greeting,
    Serving,
    Closing,
}

impl Lifetime {
    /// Starts when a connection is accepted. Also returns the time of the first check.
    pub(super) fn new(limits: LifetimeLimits, now: Instant) -> (Self, Instant) {
        // Jitter keeps the clients that connected together from connecting together again.
        let jitter = rand::rng().random_range(0.9..1.1);
        let lifetime = Self {
            limits,
            phase: Phase::Greeting,
            replace_at: limits.max_age.map(|age| now + age.mul_f64(jitter)),
            seen_streams: 0,
            idle_since: now,
        };
        (lifetime, now + limits.handshake_timeout)
    }

    /// Checks the connection. Must be called at the time that the last result gave.
    pub(super) fn step(&mut self, activity: Activity, now: Instant) -> Step {
        match self.phase {
            Phase::Greeting if !activity.greeted => return Step::Cut,
            Phase::Greeting => self.phase = Phase::Serving,
            Phase::Serving => {}
            Phase::Closing => return Step::Cut,
        }
        if activity.started_streams != self.seen_streams || activity.is_watching {
            self.seen_streams = activity.started_streams;
            self.idle_since = now;
        }
        let is_old = self.replace_at.is_some_and(|time| time <= now);
        let idle = now - self.idle_since;
        let max_idle = if activity.is_trusted {
            self.limits.max_idle
        } else {
            let configured = self.limits.max_idle.unwrap_or(UNTRUSTED_IDLE);
            Some(configured.min(UNTRUSTED_IDLE))
        };
        if is_old || max_idle.is_some_and(|max| idle >= max) {
            return if activity.is_trusted {
                self.close(now)
            } else {
                self.end(now)
            };
        }
        let idle_check = max_idle.map(|max| now + max / IDLE_CHECKS);
        let next = self.replace_at.into_iter().chain(idle_check).min();
        Step::Wait(next)
    }

    /// Starts to close the connection politely: its calls have the configured time, and the client must agree.
    pub(super) fn close(&mut self, now: Instant) -> Step {
        self.phase = Phase::Closing;
        Step::Close(now + self.limits.grace)
    }

    /// Starts to close the connection of a client that is not served any more.
    pub(super) fn end(&mut self, now: Instant) -> Step {
        self.phase = Phase::Closing;
        Step::Close(now + LAST_CALLS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: LifetimeLimits = LifetimeLimits {
        handshake_timeout: SECOND,
        max_age: Some(Duration::from_secs(100)),
        max_idle: Some(Duration::from_secs(40)),
        grace: Duration::from_secs(7),
    };

    fn activity(started_streams: usize) -> Activity {
        Activity {
            greeted: true,
            is_trusted: true,
            started_streams,
            is_watching: false,
        }
    }

    #[test]
    fn silent_connection_is_cut() {
        let now = Instant::now();
        let (mut lifetime, first) = Lifetime::new(LIMITS, now);
        assert_eq!(first, now + SECOND);
        let silent = Activity {
            greeted: false,
            ..activity(0)
        };
        assert_eq!(lifetime.step(silent, first), Step::Cut);
    }

    #[test]
    fn idle_connection_is_closed_and_then_cut() {
        let (mut lifetime, mut time) = Lifetime::new(LIMITS, Instant::now());
        let last_call = time;
        let closed = loop {
            match lifetime.step(activity(1), time) {
                Step::Wait(next) => time = next.expect("a time"),
                step => break step,
            }
        };
        assert_eq!(time, last_call + 40 * SECOND);
        assert_eq!(closed, Step::Close(time + 7 * SECOND));
        assert_eq!(lifetime.step(activity(1), time + 7 * SECOND), Step::Cut);
    }

    #[test]
    fn client_without_a_right_is_cut_after_a_second() {
        let (mut lifetime, time) = Lifetime::new(LIMITS, Instant::now());
        assert!(matches!(lifetime.close(time), Step::Close(_)));
        assert_eq!(lifetime.end(time), Step::Close(time + SECOND));
        assert_eq!(lifetime.step(activity(1), time + SECOND), Step::Cut);
    }

    #[test]
    fn idle_connection_without_login_is_closed_after_10_seconds() {
        let limits = LifetimeLimits {
            max_idle: None,
            ..LIMITS
        };
        let start = Instant::now();
        let (mut lifetime, mut time) = Lifetime::new(limits, start);
        let stranger = Activity {
            is_trusted: false,
            ..activity(0)
        };
        let closed = loop {
            match lifetime.step(stranger, time) {
                Step::Wait(next) => time = next.expect("a time"),
                step => break step,
            }
        };
        let idle = time - start;
        assert!((UNTRUSTED_IDLE..13 * SECOND).contains(&idle), "{idle:?}");
        assert_eq!(closed, Step::Close(time + LAST_CALLS));
    }

    #[test]
    fn busy_connection_is_closed_at_its_age() {
        let start = Instant::now();
        let (mut lifetime, mut time) = Lifetime::new(LIMITS, start);
        let mut calls = 0;
        while let Step::Wait(next) = lifetime.step(activity(calls), time) {
            time = next.expect("a time");
            calls += 1;
        }
        let age = time - start;
        assert!((90 * SECOND..110 * SECOND).contains(&age), "{age:?}");
    }

    #[test]
    fn watched_connection_is_not_idle() {
        let limits = LifetimeLimits {
            max_age: None,
            ..LIMITS
        };
        let (mut lifetime, mut time) = Lifetime::new(limits, Instant::now());
        let watching = Activity {
            is_watching: true,
            ..activity(1)
        };
        for _ in 0..100 {
            match lifetime.step(watching, time) {
                Step::Wait(next) => time = next.expect("a time"),
                step => panic!("{step:?}"),
            }
        }
    }
}
