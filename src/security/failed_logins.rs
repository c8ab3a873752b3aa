//! The rate of failed logins, per address and on the whole broker. Above it, credentials are refused without a check.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use lru::LruCache;

/// Failed logins per second and at once, from one address and on the whole broker.
const PER_ADDRESS: Rate = Rate {
    per_second: 10.0,
    burst: 20.0,
};
const IN_ALL: Rate = Rate {
    per_second: 500.0,
    burst: 500.0,
};
/// The number of addresses that are remembered.
const MAX_ADDRESSES: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    burst: f64,
}

/// The failed logins of the last seconds.
pub(super) struct FailedLogins {
    buckets: Mutex<Buckets>,
}

struct Buckets {
    by_address: LruCache<IpAddr, Bucket>,
    all: Bucket,
}

/// The failures that are left, at a time.
#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self {
            left: rate.burst,
            at: now,
        }
    }

    fn refill(&mut self, rate: Rate, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + seconds * rate.per_second).min(rate.burst);
        self.at = now;
    }
}

impl FailedLogins {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            buckets: Mutex::new(Buckets {
                by_address: LruCache::new(MAX_ADDRESSES),
                all: Bucket::full(IN_ALL, now),
            }),
        }
    }

    /// Returns whether logins from this address are refused now. `None`: an address that many clients share.
    pub(super) fn are_too_many(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.all.refill(IN_ALL, now);
        let Some(address) = address else {
            return buckets.all.left < 1.0;
        };
        let from_address = buckets.by_address.peek_mut(&network(address));
        let is_empty = from_address.is_some_and(|bucket| {
            bucket.refill(PER_ADDRESS, now);
            bucket.left < 1.0
        });
        is_empty || buckets.all.left < 1.0
    }

    /// Counts a failed login.
    pub(super) fn count(&self, address: Option<IpAddr>, now: Instant) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.all.refill(IN_ALL, now);
        buckets.all.left -= 1.0;
        if let Some(address) = address {
            let full = || Bucket::full(PER_ADDRESS, now);
            let bucket = buckets.by_address.get_or_insert_mut(network(address), full);
            bucket.refill(PER_ADDRESS, now);
            bucket.left -= 1.0;
        }
    }
}

/// Returns the address that stands for all addresses that one client has: with IPv6, those of a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn address_with_many_failures_waits_for_its_rate() {
        let start = Instant::now();
        let failed = FailedLogins::new(start);
        let [one, same, other] = ["2001:db8::1", "2001:db8::2", "10.0.0.1"]
            .map(|address| Some(address.parse().expect("an address")));
        for _ in 0..20 {
            assert!(!failed.are_too_many(one, start));
            failed.count(one, start);
        }
        assert!(failed.are_too_many(one, start));
        assert!(failed.are_too_many(same, start));
        assert!(!failed.are_too_many(other, start));
        assert!(!failed.are_too_many(None, start));
        let later = start + Duration::from_millis(150);
        assert!(!failed.are_too_many(one, later));
        failed.count(one, later);
        assert!(failed.are_too_many(one, later));
    }

    #[test]
    fn broker_with_many_failures_refuses_every_address() {
        let start = Instant::now();
        let failed = FailedLogins::new(start);
        (0..500).for_each(|_| failed.count(None, start));
        let any = Some("10.0.0.1".parse().expect("an address"));
        assert!(failed.are_too_many(any, start));
        assert!(!failed.are_too_many(any, start + Duration::from_secs(1)));
    }
}
