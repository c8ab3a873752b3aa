//! The rate at which signatures of unknown tokens are verified, per address and on the whole broker.
//!
//! To verify a signature takes about a hundred times as long as to refuse a call. Static tokens cost a hash and have no rate.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use lease_broker_model::network::network;
use lru::LruCache;
use parking_lot::Mutex;

/// Verifications per second, and as many at once: for all strangers, and for all clients behind listed proxies.
const IN_ALL: NonZeroU32 = NonZeroU32::new(1_000).unwrap();
/// Verifications per second and at once, from one address. Behind one address, many callers can begin together.
const PER_ADDRESS: NonZeroU32 = NonZeroU32::new(50).unwrap();
const PER_ADDRESS_AT_ONCE: NonZeroU32 = NonZeroU32::new(500).unwrap();
/// The number of addresses that are remembered, of each kind.
const MAX_ADDRESSES: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// The rates of addresses.
type Addresses = LruCache<IpAddr, DefaultDirectRateLimiter>;

/// The verifications of the last seconds.
pub(super) struct VerificationRate {
    /// The addresses without a login, which share a rate too, and those from which a token was valid. Strangers use up neither the
    /// rates of these nor their places here.
    by_address: Mutex<[Addresses; 2]>,
    strangers: DefaultDirectRateLimiter,
    /// Those of clients behind listed proxies. Strangers elsewhere do not use it up.
    proxies: DefaultDirectRateLimiter,
}

impl VerificationRate {
    pub(super) fn new() -> Self {
        Self {
            by_address: Mutex::new([LruCache::new(MAX_ADDRESSES), LruCache::new(MAX_ADDRESSES)]),
            strangers: RateLimiter::direct(Quota::per_second(IN_ALL)),
            proxies: RateLimiter::direct(Quota::per_second(IN_ALL)),
        }
    }

    /// Counts a verification. Returns whether it may begin. `None`: the address of a listed proxy, which many clients share.
    pub(super) fn admit(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address.map(network) else {
            return self.proxies.check().is_ok();
        };
        let [strangers, known] = &mut *self.by_address.lock();
        if let Some(rate) = known.get(&address) {
            return rate.check().is_ok();
        }
        let rate = strangers.get_or_insert(address, rate_of_address);
        rate.check().is_ok() && self.strangers.check().is_ok()
    }

    /// Remembers that a token from this address was valid.
    pub(super) fn has_logged_in(&self, address: Option<IpAddr>) {
        if let Some(address) = address.map(network) {
            let [strangers, known] = &mut *self.by_address.lock();
            known.get_or_insert(address, || {
                strangers.pop(&address).unwrap_or_else(rate_of_address)
            });
        }
    }
}

fn rate_of_address() -> DefaultDirectRateLimiter {
    RateLimiter::direct(Quota::per_second(PER_ADDRESS).allow_burst(PER_ADDRESS_AT_ONCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Uses up what is allowed at once. Returns the number of verifications.
    fn use_up(rate: &VerificationRate, address: Option<IpAddr>) -> usize {
        let mut count = 0;
        while rate.admit(address) {
            count += 1;
        }
        count
    }

    #[test]
    fn address_with_many_tokens_leaves_others_their_rate() {
        let rate = VerificationRate::new();
        let [one, same, other] = ["2001:db8::1", "2001:db8::2", "10.0.0.1"].map(address);
        assert!(use_up(&rate, Some(one)) >= 500);
        assert!(use_up(&rate, Some(same)) < 500, "the same /64");
        assert!(rate.admit(Some(other)));
        assert!(rate.admit(None));
    }

    #[test]
    fn strangers_do_not_use_up_the_rate_of_known_addresses_and_proxies() {
        let rate = VerificationRate::new();
        let known = Some(address("10.0.0.1"));
        rate.has_logged_in(known);
        let stranger = |number: u32| Some(IpAddr::from((0x0a01_0000 + number).to_be_bytes()));
        // Two addresses use up the rate of all strangers. The others are more than are remembered.
        let strangers = (0..5_000).map(stranger);
        let verified: usize = strangers.map(|stranger| use_up(&rate, stranger)).sum();
        assert!((1_000..100_000).contains(&verified), "{verified}");
        assert!(rate.admit(known));
        assert!(rate.admit(None));
        use_up(&rate, None);
        assert!(rate.admit(known));
    }
}
