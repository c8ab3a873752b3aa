//! An identity: the name, the rights and the limits that all its callers share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use lease_broker_model::call_source::CallSource;
use lease_broker_model::lease_id::LeaseOwner;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::rights::Rights;
use crate::config::{self, IdentityLimits, LeaseScope, Role};

/// The largest number of items in an Enqueue call. A call of this size passes at every rate.
const MIN_ITEM_BURST: u32 = 1_000;

/// An identity, with the state of its limits on this broker.
pub struct Identity {
    /// The name in the configuration. Empty: callers without credentials.
    pub name: String,
    /// The rpcs that its callers may send.
    pub rights: Rights,
    /// The owner of the leases that its callers claim.
    pub lease_owner: LeaseOwner,
    /// The source of its calls, on all connections. `None`: each connection of a caller without credentials is a source.
    pub source: Option<Arc<CallSource>>,
    limits: Arc<Limits>,
}

/// The limits of an identity, and what its callers have used of them.
struct Limits {
    settings: IdentityLimits,
    calls: Option<DefaultDirectRateLimiter>,
    items: Option<DefaultDirectRateLimiter>,
    waiting_claims: Arc<Semaphore>,
}

/// The refusal of a call because a limit of its identity is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// The setting of the section `limits`.
    pub limit: &'static str,
    /// The time after which the call can be sent again.
    pub retry_after: Duration,
}

impl Identity {
    /// Creates an identity. `former`: the one that it replaces. What its callers have used of the same limits stays used.
    pub(super) fn new(
        settings: &config::Identity,
        scope: LeaseScope,
        former: Option<&Self>,
    ) -> Self {
        let is_exclusive = scope == LeaseScope::Identity;
        let same_limits = former.map(|former| &former.limits);
        let same_limits = same_limits.filter(|limits| limits.settings == settings.limits);
        Self {
            name: settings.name.clone(),
            rights: Rights::new(settings.roles.clone()),
            lease_owner: LeaseOwner::new(&settings.name, &settings.formerly, is_exclusive),
            source: Some(
                former
                    .and_then(|former| former.source.clone())
                    .unwrap_or_else(CallSource::new),
            ),
            limits: same_limits
                .cloned()
                .unwrap_or_else(|| Arc::new(Limits::new(settings.limits))),
        }
    }

    /// Creates the identity of callers without credentials. They have the roles on all queues.
    pub(super) fn anonymous(roles: &[Role], scope: LeaseScope) -> Self {
        let roles = roles.iter().map(|role| (*role, vec!["*".to_owned()]));
        Self {
            name: String::new(),
            rights: Rights::new(roles),
            lease_owner: LeaseOwner::new("", &[], scope == LeaseScope::Identity),
            source: None,
            limits: Arc::new(Limits::new(IdentityLimits::default())),
        }
    }

    /// Returns whether this is the same identity with at least the same rights.
    pub(super) fn has_rights_of(&self, former: &Self) -> bool {
        self.name == former.name && self.rights.include(&former.rights)
    }

    /// Counts a call.
    ///
    /// # Errors
    /// The limit `calls_per_second` is reached.
    pub fn count_call(&self) -> Result<(), OverLimit> {
        check(
            self.limits.calls.as_ref(),
            "calls_per_second",
            NonZeroU32::MIN,
        )
    }

    /// Counts items that a call adds.
    ///
    /// # Errors
    /// The limit `enqueued_items_per_second` is reached.
    pub fn count_items(&self, items: usize) -> Result<(), OverLimit> {
        // A call with too many items is refused for its length.
        let items = u32::try_from(items).unwrap_or(u32::MAX).min(MIN_ITEM_BURST);
        match NonZeroU32::new(items) {
            None => Ok(()),
            Some(items) => check(
                self.limits.items.as_ref(),
                "enqueued_items_per_second",
                items,
            ),
        }
    }

    /// Takes a place among the claims that wait. `None`: the limit `waiting_claims` is reached, so the claim must not wait.
    pub fn waiting_place(&self) -> Option<OwnedSemaphorePermit> {
        self.limits.waiting_claims.clone().try_acquire_owned().ok()
    }
}

impl Limits {
    fn new(settings: IdentityLimits) -> Self {
        let limiter = |rate: u32, burst: u32| {
            let rate = NonZeroU32::new(rate)?;
            let burst = NonZeroU32::new(burst).unwrap_or(rate);
            let quota = Quota::per_second(rate).allow_burst(burst.max(rate));
            Some(RateLimiter::direct(quota))
        };
        let waiting = settings.waiting_claims;
        let waiting = waiting.and_then(|claims| usize::try_from(claims).ok());
        let waiting = waiting.unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            settings,
            calls: settings
                .calls_per_second
                .and_then(|rate| limiter(rate, rate)),
            items: settings
                .enqueued_items_per_second
                .and_then(|rate| limiter(rate, MIN_ITEM_BURST)),
            waiting_claims: Arc::new(Semaphore::new(waiting)),
        }
    }
}

fn check(
    limiter: Option<&DefaultDirectRateLimiter>,
    limit: &'static str,
    count: NonZeroU32,
) -> Result<(), OverLimit> {
    let Some(Ok(Err(refused))) = limiter.map(|limiter| limiter.check_n(count)) else {
        return Ok(());
    };
    let retry_after = refused.wait_time_from(DefaultClock::default().now());
    Err(OverLimit {
        limit,
        // At least a millisecond, the unit of the trailer for retry policies.
        retry_after: retry_after.max(Duration::from_millis(1)),
    })
}
