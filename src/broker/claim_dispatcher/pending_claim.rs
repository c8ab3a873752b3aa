//! A claim that has not been answered, and the part of it that its caller sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_broker_model::call_source::{CallSource, SourceNumber};
use lease_broker_store::{Beginning, ClaimCall, Claimed, Limited, TooLargeItem};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::broker::admission::{Arrival, ClaimPlace, Held, InTurn, Turn};
use crate::broker::error::Error;
use crate::broker::held_back::HeldBack;
use crate::broker::undelivered::{LeasedQueue, UndeliveredLeases};
use crate::call_trace::RecordedCall;

/// A claim that has not been answered.
pub(super) struct PendingClaim {
    pub(super) call: ClaimCall,
    /// The time until which the claim waits for an item. `None`: it is answered after the first store operation, with
    /// or without items.
    pub(super) wait_until: Option<Instant>,
    pub(super) arrival: Arrival,
    /// The number of the store operation that started last when the dispatcher received the claim.
    pub(super) after: u64,
    pub(super) source: Option<Arc<CallSource>>,
    /// The turn in the queue from which the claim was taken last.
    pub(super) turn: Turn,
    /// Whether the claim has waited for an item.
    pub(super) has_waited: bool,
    pub(super) status: Arc<ClaimStatus>,
    /// The call, if it is recorded.
    pub(super) recorded: Option<Arc<RecordedCall>>,
    pub(super) beginning: Beginning,
    pub(super) caller: oneshot::Sender<Result<UndeliveredLeases, Error>>,
}

/// The part of a claim that its caller sees while the claim waits.
pub(super) struct ClaimStatus {
    /// True while a store operation for this claim runs or is about to run. False while the claim only waits.
    pub(super) in_flight: AtomicBool,
    /// The ready items that the last store operation passed over, because each is too large for this claim.
    pub(super) too_large: Mutex<Vec<TooLargeItem>>,
    /// Whether the last store operation has kept items from this claim because of a suspect.
    pub(super) is_behind_suspects: AtomicBool,
    pub(super) place: ClaimPlace,
}

impl ClaimStatus {
    pub(super) fn set_too_large(&self, too_large: Vec<TooLargeItem>) {
        *self.too_large.lock() = too_large;
    }

    /// Notes the result of a store operation.
    pub(super) fn note(&self, claimed: &Claimed) {
        let is_behind = claimed.limited == Some(Limited::Suspects);
        self.is_behind_suspects.store(is_behind, Ordering::Relaxed);
    }

    /// Returns the reason of this claim, if the last store operation left claims without items for `last`.
    pub(super) fn reason(
        &self,
        last: (HeldBack, Option<Duration>),
    ) -> (HeldBack, Option<Duration>) {
        match last.0 {
            HeldBack::NothingReady if self.is_behind_suspects.load(Ordering::Relaxed) => {
                (HeldBack::Suspects, None)
            }
            _ => last,
        }
    }

    pub(super) fn take_too_large(&self) -> Vec<TooLargeItem> {
        std::mem::take(&mut *self.too_large.lock())
    }
}

/// Returns the place of a claim when the claim is answered or its caller goes away. A claim whose caller is gone can stay
/// with the dispatcher for long.
pub(super) struct PlaceHolder(pub(super) Arc<ClaimStatus>);

impl Drop for PlaceHolder {
    fn drop(&mut self) {
        self.0.place.give_back();
    }
}

impl InTurn for PendingClaim {
    fn source(&self) -> SourceNumber {
        let source = self.source.as_ref();
        source.map_or(SourceNumber::default(), |source| source.number())
    }

    fn items(&self) -> usize {
        self.call.max_items
    }
}

impl PendingClaim {
    /// Returns whether the caller still waits.
    pub(super) fn is_wanted(&self) -> bool {
        !self.caller.is_closed()
    }

    /// Returns whether the claim waits no longer for an item.
    pub(super) fn is_over(&self) -> bool {
        self.wait_until.is_none_or(|until| until <= Instant::now())
    }

    /// Answers the claim without leases.
    pub(super) fn answer_empty(
        self,
        reason: (HeldBack, Option<Duration>),
        leased_queue: &Arc<LeasedQueue>,
    ) {
        let too_large = self.status.take_too_large();
        let reason = self.status.reason(reason);
        let empty = UndeliveredLeases::none(too_large, reason, leased_queue.clone());
        let _ = self.caller.send(Ok(empty));
    }

    /// Answers the claim. If its caller is gone, the leases are dropped (see [`UndeliveredLeases`]).
    pub(super) fn answer(
        self,
        outcome: Result<Claimed, Error>,
        counted: Option<Held>,
        leased_queue: &Arc<LeasedQueue>,
    ) {
        let outcome = outcome.map(|claimed| {
            UndeliveredLeases::new(claimed, counted, &self.call, leased_queue.clone())
        });
        let _ = self.caller.send(outcome);
    }
}
