//! Leases that the store has given and that no worker has received yet.
//!
//! A caller can go away at any time between the store's answer and the response. The leases that it would have received
//! must be released. Otherwise their items would stay leased, with no worker, until the leases expire. Three places
//! release leases:
//!
//! | case | released by |
//! |---|---|
//! | The claim failed because the store became unhealthy, and the store leases the items later. | `release_late_leases` in `recorded_leases.rs` |
//! | The caller is gone before the response is built, or the response has no room for all leases. | the `Drop` of [`UndeliveredLeases`] |
//! | The caller is gone before the response begins to leave. | the `Drop` of [`Delivery`] |
//!
//! Of a run, only the first of the leases is released: the store releases those behind it together with it.
//!
//! If the caller of a call with a request id is gone, all keep the leases. The caller may have sent the call again, and another
//! broker may have given it the same leases. If it does not want them, it releases them by the request id.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_broker_model::lease_id::{self, LeaseOrigin, LeaseOwner, LeaseRef, SigningSecrets};
use lease_broker_model::lease_trace::{LeaseTrace, ReleaseReason};
use lease_broker_model::millis::millis_rounded_up;
use lease_broker_model::trace_context::TraceContext;
use lease_broker_store::{
    ClaimCall, Claimed, ClaimedItem, Ending, ItemSize, QueueIndex, Settled, Settlement,
    TooLargeItem,
};

use super::admission::{Budgets, Held};
use super::group_commit::GroupCommit;
use super::held_back::HeldBack;
use super::lease_tracer::LeaseTracer;

/// Leases of one claim until they are put into a response. Those that are dropped are released at once, in the background, unless
/// they are kept for a call that is sent again.
pub struct UndeliveredLeases {
    items: Vec<ClaimedItem>,
    /// The size of the items together, in bytes.
    bytes: usize,
    /// The bytes of the budget that the items take. `None`: they are not counted.
    counted: Option<Held>,
    too_large: Vec<TooLargeItem>,
    /// Why there is no lease. `None`: there is one.
    held_back: Option<HeldBack>,
    /// The time to wait before the next claim. `None`: it is not known.
    retry_after: Option<Duration>,
    /// The duration that the claim asked for.
    duration: Duration,
    /// True: the call has a request id, so the leases are kept if the caller is gone.
    has_request_id: bool,
    /// True: those leases that fitted are in the response. The others are left here.
    has_response: bool,
    queue: Arc<LeasedQueue>,
}

/// The parts of a queue that its leases need on their way to a worker.
pub(super) struct LeasedQueue {
    /// The queue's name.
    pub(super) name: String,
    /// The names of the columns that workers receive.
    pub(super) columns: Arc<[String]>,
    /// The number of attempts of an item. `None`: no limit.
    pub(super) max_attempts: Option<u32>,
    /// Whether it has groups or limits.
    pub(super) takes_turns: bool,
    /// Whether a worker's id can be refused by a column of the team's own.
    pub(super) shows_worker: bool,
    /// The secrets that sign lease ids.
    pub(super) secrets: Arc<SigningSecrets>,
    /// The queue's index.
    pub(super) index: QueueIndex,
    /// Decides which leases are recorded.
    pub(super) tracer: Arc<LeaseTracer>,
    /// The group commit that releases leases.
    pub(super) settlements: GroupCommit<Settlement, Settled>,
    pub(super) budgets: Arc<Budgets>,
}

/// A lease that its worker receives.
pub struct DeliveredLease {
    /// The lease id, which the worker sends to extend or settle the lease.
    pub id: String,
    /// The trace context of the lease's span. `None`: there is no trace that the worker could continue.
    pub trace_context: Option<TraceContext>,
    /// The number of attempts of the item. `None`: no limit.
    pub max_attempts: Option<u32>,
    /// The lease and its item.
    pub item: ClaimedItem,
}

impl UndeliveredLeases {
    pub(super) fn new(
        claimed: Claimed,
        counted: Option<Held>,
        call: &ClaimCall,
        queue: Arc<LeasedQueue>,
    ) -> Self {
        Self {
            bytes: claimed.bytes,
            counted,
            items: claimed.items,
            too_large: claimed.too_large,
            held_back: None,
            retry_after: None,
            duration: call.duration,
            has_request_id: call.has_request_id,
            has_response: false,
            queue,
        }
    }

    /// Returns the answer to a claim that gets no lease.
    pub(super) fn none(
        too_large: Vec<TooLargeItem>,
        (held_back, retry_after): (HeldBack, Option<Duration>),
        queue: Arc<LeasedQueue>,
    ) -> Self {
        Self {
            held_back: Some(match (&*too_large, held_back) {
                ([_, ..], HeldBack::NothingReady | HeldBack::Suspects) => HeldBack::TooLarge,
                (_, held_back) => held_back,
            }),
            retry_after,
            items: Vec::new(),
            bytes: 0,
            counted: None,
            too_large,
            duration: Duration::ZERO,
            has_request_id: false,
            has_response: false,
            queue,
        }
    }

    /// Returns the names of the columns in [`ClaimedItem::columns`].
    pub fn columns(&self) -> Arc<[String]> {
        self.queue.columns.clone()
    }

    /// Returns whether there is no lease.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns why there is no lease. `None`: there is one.
    pub fn held_back(&self) -> Option<HeldBack> {
        self.held_back
    }

    /// Returns the time to wait before the next claim, if there is no lease and the time is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Takes the items that were passed over because each is larger than the response may be.
    pub fn take_too_large(&mut self) -> Vec<TooLargeItem> {
        std::mem::take(&mut self.too_large)
    }

    /// Takes the bytes of the budget that the items take. They must be kept until the response has been sent. `None`: the
    /// items are so small that they are not counted.
    pub fn take_counted_bytes(&mut self) -> Option<Held> {
        self.counted.take()
    }

    /// Returns for `owner` the leases that fit into `max_bytes`, and their delivery, and releases the others. `None`: the leases
    /// are kept if the response does not leave.
    ///
    /// A claim leases only items that fit. Leases are released here if the size of an item was underestimated, or if a
    /// claim with a request id is sent again with a smaller limit. The first lease always fits.
    ///
    /// An item whose key is too long for a lease id becomes dead instead. No worker could settle its lease. If it is not the first of its
    /// run, it is released with those behind it. It becomes dead when a claim gets it as the first.
    pub fn deliver(
        mut self,
        owner: LeaseOwner,
        max_bytes: usize,
    ) -> (impl Iterator<Item = DeliveredLease>, Option<Delivery>) {
        let count = if self.bytes <= max_bytes {
            self.items.len()
        } else {
            let item_size = ItemSize::new(&self.queue.columns);
            let mut bytes = 0;
            let fits = self.items.iter().take_while(|item| {
                bytes += item_size.of(item);
                bytes <= max_bytes
            });
            fits.count().max(1).min(self.items.len())
        };
        let rest = self.items.split_off(count);
        let delivered = std::mem::replace(&mut self.items, rest);
        self.has_response = true;
        let (queue, duration) = (self.queue.clone(), self.duration);
        let is_released = !self.has_request_id && !delivered.is_empty();
        let delivery = is_released.then(|| {
            let leases = delivered.iter().filter(first_of_runs());
            Delivery {
                leases: leases
                    .map(|item| (item.lease.clone(), origin_of(item, duration)))
                    .collect(),
                queue: queue.clone(),
                has_left: AtomicBool::new(false),
            }
        });
        let (mut is_first, mut ended_run) = (first_of_runs(), 0);
        let leases = delivered.into_iter().filter_map(move |item| {
            let is_first = is_first(&&item);
            if item.run != 0 && item.run == ended_run {
                return None;
            }
            let LeasedQueue { name, secrets, .. } = &*queue;
            let mut origin = origin_of(&item, duration);
            let trace_context = queue.tracer.sample(queue.index, &item.lease, &mut origin);
            let Some(id) = lease_id::encode(secrets, name, &owner, &item.lease, &origin) else {
                ended_run = item.run;
                if is_first {
                    queue.settlements.submit_detached(vec![dead_item(item)]);
                } else {
                    queue.release(ReleaseReason::ResponseFull, [(item.lease, origin)]);
                }
                return None;
            };
            Some(DeliveredLease {
                id,
                trace_context: queue.tracer.shows_trace(&origin).then_some(trace_context),
                max_attempts: queue.max_attempts,
                item,
            })
        });
        (leases, delivery)
    }
}

/// Leases in a response that has not left yet. If it is dropped before [`Self::confirm`], they are released at once, in the
/// background: no worker can know them.
pub struct Delivery {
    /// The leases to release. Of a run, it is the first.
    leases: Vec<(LeaseRef, LeaseOrigin)>,
    queue: Arc<LeasedQueue>,
    has_left: AtomicBool,
}

impl Delivery {
    /// Notes that the first byte of the response leaves. The broker does not release the leases any more.
    pub fn confirm(&self) {
        self.has_left.store(true, Ordering::Relaxed);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !*self.has_left.get_mut() {
            let leases = std::mem::take(&mut self.leases);
            self.queue.release(ReleaseReason::CallerGone, leases);
        }
    }
}

impl Drop for UndeliveredLeases {
    fn drop(&mut self) {
        let reason = if self.has_response {
            ReleaseReason::ResponseFull
        } else if self.has_request_id {
            return;
        } else {
            ReleaseReason::CallerGone
        };
        let undelivered = std::mem::take(&mut self.items);
        self.queue
            .release(reason, leases_to_release(undelivered, self.duration));
    }
}

impl LeasedQueue {
    /// Releases leases in the background.
    fn release(
        &self,
        reason: ReleaseReason,
        leases: impl IntoIterator<Item = (LeaseRef, LeaseOrigin)>,
    ) {
        let releases = release_all(&self.tracer, self.index, reason, leases);
        self.settlements.submit_detached(releases.collect());
    }
}

/// Returns the origin of a lease that a claim of `duration` got.
fn origin_of(item: &ClaimedItem, duration: Duration) -> LeaseOrigin {
    LeaseOrigin::new(
        item.expiry.claim_time(duration),
        Duration::from_millis(millis_rounded_up(duration).unsigned_abs()),
        item.trace_parent.as_deref(),
    )
}

/// Returns the leases to release so that none of these items, which a claim of `duration` got, stays leased. Of a run, it is the first.
pub(super) fn leases_to_release(
    items: Vec<ClaimedItem>,
    duration: Duration,
) -> impl Iterator<Item = (LeaseRef, LeaseOrigin)> {
    let mut is_first = first_of_runs();
    let first = items.into_iter().filter(move |item| is_first(&item));
    first.map(move |item| {
        let origin = origin_of(&item, duration);
        (item.lease, origin)
    })
}

/// Returns a filter that leaves one item of each run: the first.
fn first_of_runs() -> impl FnMut(&&ClaimedItem) -> bool {
    let mut last_run = 0;
    move |item| item.run == 0 || std::mem::replace(&mut last_run, item.run) != item.run
}

/// Returns the settlement that makes an item dead because its key is too long for a lease id.
fn dead_item(item: ClaimedItem) -> Settlement {
    let bytes = lease_id::key_bytes(&*item.lease.key.0);
    let max = lease_id::MAX_KEY_BYTES;
    Settlement::new(
        item.lease,
        Ending::Fail {
            error: format!("the key takes {bytes} bytes in a lease id; at most {max} fit"),
            retry: None,
        },
    )
}

/// Returns the settlements that release these leases without a delay.
pub(super) fn release_all(
    tracer: &LeaseTracer,
    queue: QueueIndex,
    reason: ReleaseReason,
    leases: impl IntoIterator<Item = (LeaseRef, LeaseOrigin)>,
) -> impl Iterator<Item = Settlement> {
    leases.into_iter().map(move |(lease, origin)| {
        let mut trace = LeaseTrace::new(origin);
        trace.release_reason = Some(reason);
        let delay = Duration::ZERO;
        let mut release = Settlement::new(lease, Ending::Release { delay });
        tracer.sample(queue, &release.lease, &mut trace.origin);
        release.trace = Some(Box::new(trace));
        tracer.prepare(&mut release);
        release
    })
}

#[cfg(test)]
mod tests {
    use lease_broker_model::key::Key;
    use lease_broker_store::LeaseExpiry;
    use lease_broker_value::Value;

    use super::*;

    /// Returns leased items of these runs. Their keys count up from 0.
    fn items(runs: &[u32]) -> Vec<ClaimedItem> {
        let item = |(key, &run): (i64, &u32)| ClaimedItem {
            lease: LeaseRef {
                key: Key(vec![Value::Int(key)].into()),
                token: uuid::Uuid::nil(),
                fence: 1,
                attempt: 1,
            },
            columns: Vec::new(),
            expiry: LeaseExpiry {
                expire_time: 0,
                time_left: Duration::ZERO,
            },
            ready_time: None,
            trace_parent: None,
            checkpoint: None,
            run,
        };
        (0..).zip(runs).map(item).collect()
    }

    #[test]
    fn first_lease_of_each_run_is_released() {
        let released = |runs: &[u32]| -> Vec<String> {
            let leases = leases_to_release(items(runs), Duration::ZERO);
            leases.map(|(lease, _)| lease.key.to_string()).collect()
        };
        assert_eq!(released(&[0, 0, 0]), ["0", "1", "2"]);
        assert_eq!(
            released(&[1, 1, 2, 0, 3, 3, 3, 0]),
            ["0", "2", "3", "4", "7"]
        );
    }
}
