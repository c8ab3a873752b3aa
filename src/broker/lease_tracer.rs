//! The spans of leases. `docs/observability.md` lists them with their attributes.
//!
//! A lease has one span, from its claim to its end. It is made when the lease ends, by the broker whose operation ended it. So
//! a broker keeps nothing between the claim and the end, and no lease has two spans. The ids are derived from the lease, so
//! that every broker finds the same ones.
//!
//! A trace is recorded or not as the sampler decides at the claim. The lease id carries the decision. Leases that end badly are
//! recorded in any case, up to a number per second.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{self, LeaseOrigin, LeaseRef, Secret, TracedQueue};
use lease_broker_model::lease_trace::{LeaseTrace, ReleaseReason};
use lease_broker_model::sampling::TraceSettings;
use lease_broker_model::trace_context::{Span, TraceContext};
use lease_broker_store::{EndedLease, Ending, ListedItem, QueueIndex, Reaped, Settled, Settlement};

use super::queue_counters::{LeaseCall, LeaseEnd, call_of, end_of};
use crate::span::attribute;
use crate::span::{AttributeValue, FinishedSpan, SpanKind, SpanLink, Spans};

/// A way to end badly. Each has its own number of leases that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BadEnd {
    Failed,
    Expired,
    Cancelled,
    Lost,
}

/// Makes the spans of leases.
pub(super) struct LeaseTracer {
    spans: Spans,
    settings: TraceSettings,
    secret: Secret,
    queues: Vec<TracedQueue>,
    /// The leases that may still be kept, by [`BadEnd`]. `None`: none is kept.
    kept: Option<[DefaultDirectRateLimiter; 4]>,
}

/// Whether a lease is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recording {
    No,
    Sampled,
    Kept,
}

/// The end of a lease, as its span shows it.
struct End<'a> {
    outcome: LeaseEnd,
    time: SystemTime,
    /// The state of the item afterwards.
    state: State,
    worker: Option<&'a str>,
    attributes: Vec<(&'static str, AttributeValue)>,
    links: Vec<SpanLink>,
}

impl LeaseTracer {
    pub(super) fn new(
        spans: Spans,
        settings: TraceSettings,
        secret: Secret,
        queues: Vec<TracedQueue>,
    ) -> Self {
        let limiter = |rate: NonZeroU32| {
            let burst = rate.saturating_mul(const { NonZeroU32::new(10).unwrap() });
            RateLimiter::direct(Quota::per_second(rate).allow_burst(burst))
        };
        let rate = NonZeroU32::new(settings.keep_per_second);
        Self {
            spans,
            settings,
            secret,
            queues,
            kept: rate.map(|rate| std::array::from_fn(|_| limiter(rate))),
        }
    }

    fn queue_name(&self, queue: QueueIndex) -> &str {
        &self.queues[queue.0].name
    }

    /// Returns whether spans go anywhere. If not, callers need not ask for any.
    pub(super) fn is_wanted(&self) -> bool {
        self.spans.are_wanted()
    }

    /// Returns the trace context of the span of an item's lease with this fencing token.
    pub(super) fn context(
        &self,
        queue: QueueIndex,
        key: &Key,
        fence: i64,
        origin: &LeaseOrigin,
    ) -> TraceContext {
        lease_id::trace_context(&self.secret, &self.queues[queue.0], key, fence, origin)
    }

    /// Returns the trace context of the last lease of an item without a producer. `None`: no trace is recorded, or the item was
    /// never leased.
    pub(super) fn last_context(
        &self,
        queue: QueueIndex,
        item: &ListedItem,
    ) -> Option<TraceContext> {
        let origin = LeaseOrigin::new(0, Duration::ZERO, None);
        let mut context = self.context(queue, &item.key, item.fence, &origin);
        context.sampled = self.samples(None, context.span.trace_id);
        (self.is_wanted() && item.fence > 0).then_some(context)
    }

    /// Decides before a settlement whether its lease is recorded. The span of a recorded lease shows the worker, so the settlement
    /// asks for it.
    pub(super) fn prepare(&self, settlement: &mut Settlement) {
        let Some(trace) = settlement.trace.as_mut().filter(|_| self.is_wanted()) else {
            return;
        };
        let fails = matches!(settlement.ending, Ending::Fail { .. });
        trace.kept = !trace.origin.sampled && fails && self.may_keep(BadEnd::Failed);
        trace.wants_owner = trace.origin.sampled || trace.kept;
    }

    /// Reports the result of a settlement. `owner`: the worker that held the lease. `time`: the time by the store's clock, in milliseconds since 1970.
    pub(super) fn settled(
        &self,
        queue: QueueIndex,
        settlement: &Settlement,
        result: &Settled,
        owner: Option<&str>,
        time: Option<i64>,
    ) {
        let Some(trace) = settlement.trace.as_deref().filter(|_| self.is_wanted()) else {
            return;
        };
        let time = time.map_or_else(SystemTime::now, time_of);
        match result {
            Settled::Ended(state) => {
                let recording = match trace {
                    LeaseTrace { origin, .. } if origin.sampled => Recording::Sampled,
                    LeaseTrace { kept: true, .. } => Recording::Kept,
                    LeaseTrace { .. } => return,
                };
                let mut attributes = Vec::new();
                if !trace.origin.duration.is_zero() {
                    let seconds = AttributeValue::Seconds(trace.origin.duration.as_secs_f64());
                    attributes.push((attribute::LEASE_DURATION, seconds));
                }
                attributes.extend(trace.release_reason.map(reason_attribute));
                if let (Ending::Fail { error, .. }, true) =
                    (&settlement.ending, self.settings.error_messages)
                {
                    let error = AttributeValue::Text(error.clone());
                    attributes.push((attribute::ITEM_ERROR, error));
                }
                let end = End {
                    outcome: end_of(&settlement.ending),
                    time,
                    state: *state,
                    worker: owner.or(trace.worker.as_deref()),
                    attributes,
                    links: trace.call.map(settled_by).into_iter().collect(),
                };
                self.emit(queue, &settlement.lease, &trace.origin, recording, end);
            }
            Settled::Lost => {
                let call = call_of(&settlement.ending);
                self.lost(queue, &settlement.lease, trace, call, time);
            }
            // A completion that finds no row can be a repeated one.
            Settled::Repeated(_) | Settled::Gone | Settled::Refused(_) => {}
        }
    }

    /// Reports a call for a lease that is not held.
    pub(super) fn lost(
        &self,
        queue: QueueIndex,
        lease: &LeaseRef,
        trace: &LeaseTrace,
        call: LeaseCall,
        time: SystemTime,
    ) {
        let recording = if trace.origin.sampled {
            Recording::Sampled
        } else if self.may_keep(BadEnd::Lost) {
            Recording::Kept
        } else {
            return;
        };
        let operation = AttributeValue::Word(call.name());
        let mut span = self.moment("lost", queue, lease, &trace.origin, time);
        span.error = Some("lease_lost");
        span.attributes
            .push((attribute::SETTLEMENT_OPERATION, operation));
        span.attributes.push(sampling_attribute(recording));
        self.spans.emit(span);
    }

    /// Reports an extended lease, if it is sampled.
    pub(super) fn extended(
        &self,
        queue: QueueIndex,
        lease: &LeaseRef,
        trace: &LeaseTrace,
        time: SystemTime,
        time_left: Duration,
    ) {
        if trace.origin.sampled {
            let mut span = self.moment("heartbeat", queue, lease, &trace.origin, time);
            let time_left = AttributeValue::Seconds(time_left.as_secs_f64());
            span.attributes
                .push((attribute::LEASE_TIME_LEFT, time_left));
            self.spans.emit(span);
        }
    }

    /// Reports leases that were cancelled. `call`: the span of the call that asked for it, if it is recorded.
    pub(super) fn cancelled(&self, queue: QueueIndex, leases: &[EndedLease], call: Option<Span>) {
        if self.is_wanted() {
            let link = call.map(settled_by);
            self.emit_ended(queue, leases, LeaseEnd::Cancelled, link, |_| None);
        }
    }

    /// Reports leases that were released without their lease ids. `reason`: why the broker itself has released one.
    pub(super) fn released(
        &self,
        queue: QueueIndex,
        leases: &[EndedLease],
        reason: impl Fn(&EndedLease) -> Option<ReleaseReason>,
    ) {
        if self.is_wanted() {
            self.emit_ended(queue, leases, LeaseEnd::Released, None, reason);
        }
    }

    /// Reports a run of the reaper that began at `start`, and the leases that it ended. A run whose leases are not recorded has no
    /// span.
    pub(super) fn reaped(&self, queue: QueueIndex, reaped: &Reaped, start: SystemTime) {
        if !self.is_wanted() || reaped.expired.is_empty() {
            return;
        }
        let span = Span::random();
        let link = SpanLink {
            span,
            kind: "reaper",
        };
        let count = AttributeValue::count;
        let end = LeaseEnd::Expired;
        if self.emit_ended(queue, &reaped.expired, end, Some(link), |_| None) {
            let name = self.queue_name(queue);
            self.spans.emit(FinishedSpan {
                name: format!("reap {name}").into(),
                kind: SpanKind::Internal,
                span,
                parent: None,
                start,
                end: SystemTime::now(),
                error: None,
                attributes: vec![
                    (
                        attribute::MESSAGING_DESTINATION_NAME,
                        AttributeValue::Text(name.to_owned()),
                    ),
                    (attribute::REAP_EXPIRED, count(reaped.expired.len())),
                    (attribute::REAP_PROMOTED, count(reaped.promoted)),
                ],
                links: Vec::new(),
            });
        }
    }

    /// Sends the spans of leases that an operation ended. Returns whether one of them is recorded.
    fn emit_ended(
        &self,
        queue: QueueIndex,
        leases: &[EndedLease],
        end: LeaseEnd,
        link: Option<SpanLink>,
        reason: impl Fn(&EndedLease) -> Option<ReleaseReason>,
    ) -> bool {
        let mut any = false;
        for ended in leases {
            let trace_parent = ended.trace_parent.as_deref();
            let origin = LeaseOrigin::new(ended.claim_time, Duration::ZERO, trace_parent);
            let recording = self.recording_of_row(queue, ended, &origin, end);
            if recording == Recording::No {
                continue;
            }
            any = true;
            let mut attributes = Vec::new();
            let mut time = time_of(ended.end_time);
            if end == LeaseEnd::Expired {
                let expiry = time_of(ended.expire_time);
                let delay = time.duration_since(expiry).unwrap_or_default();
                let delay = AttributeValue::Seconds(delay.as_secs_f64());
                attributes.push((attribute::REAP_DELAY, delay));
                time = expiry;
            }
            attributes.extend(reason(ended).map(reason_attribute));
            let shown = End {
                outcome: end,
                time,
                state: ended.state,
                worker: ended.owner.as_deref(),
                attributes,
                links: link.into_iter().collect(),
            };
            self.emit(queue, &ended.lease, &origin, recording, shown);
        }
        any
    }

    /// Decides whether a lease is recorded whose lease id is not known.
    fn recording_of_row(
        &self,
        queue: QueueIndex,
        ended: &EndedLease,
        origin: &LeaseOrigin,
        end: LeaseEnd,
    ) -> Recording {
        let context = self.context(queue, &ended.lease.key, ended.lease.fence, origin);
        if self.samples(origin.producer_context(), context.span.trace_id) {
            Recording::Sampled
        } else if BadEnd::of(end).is_some_and(|end| self.may_keep(end)) {
            Recording::Kept
        } else {
            Recording::No
        }
    }

    /// Returns whether leases of a trace are recorded.
    fn samples(&self, producer: Option<TraceContext>, trace_id: u128) -> bool {
        self.settings.sampler.samples(producer, trace_id)
    }

    /// Returns whether workers continue the trace of a lease. If the broker sends no spans anywhere, only a producer can have recorded
    /// the trace. A context that says "not recorded" would keep the workers from recording their own spans.
    pub(super) fn shows_trace(&self, origin: &LeaseOrigin) -> bool {
        self.is_wanted() || origin.producer.is_some()
    }

    /// Decides whether a new lease is recorded. Returns the trace context of its span.
    pub(super) fn sample(
        &self,
        queue: QueueIndex,
        lease: &LeaseRef,
        origin: &mut LeaseOrigin,
    ) -> TraceContext {
        let mut context = self.context(queue, &lease.key, lease.fence, origin);
        origin.sampled = self.samples(origin.producer_context(), context.span.trace_id);
        context.sampled = origin.sampled;
        context
    }

    fn may_keep(&self, end: BadEnd) -> bool {
        let kept = self.kept.as_ref();
        let kept = kept.is_some_and(|kept| kept[end as usize].check().is_ok());
        if !kept {
            self.spans.leave_out();
        }
        kept
    }

    /// Sends the span of a lease.
    fn emit(
        &self,
        queue: QueueIndex,
        lease: &LeaseRef,
        origin: &LeaseOrigin,
        recording: Recording,
        shown: End<'_>,
    ) {
        let name = self.queue_name(queue);
        let context_of = |fence| self.context(queue, &lease.key, fence, origin);
        // In other queues, the lease before a first attempt is of an earlier life of the item, or there was none: a restore raises fences.
        let has_previous = lease.fence > 1 && (lease.attempt > 1 || self.queues[queue.0].recurs);
        let previous = has_previous.then(|| context_of(lease.fence - 1).span);
        // A link to a span that is not recorded leads nowhere.
        let previous =
            previous.filter(|previous| self.samples(origin.producer_context(), previous.trace_id));
        let start = time_of(origin.claim_time);
        let mut attributes = self.attributes(queue, lease);
        if let Some(worker) = shown.worker {
            let worker = AttributeValue::Text(worker.to_owned());
            attributes.push((attribute::MESSAGING_CLIENT_ID, worker));
        }
        for (name, word) in [
            (attribute::LEASE_OUTCOME, shown.outcome.name()),
            (attribute::ITEM_STATE, shown.state.name()),
        ] {
            attributes.push((name, AttributeValue::Word(word)));
        }
        attributes.push(sampling_attribute(recording));
        attributes.extend(shown.attributes);
        let previous = previous.map(|span| SpanLink {
            span,
            kind: "previous_lease",
        });
        self.spans.emit(FinishedSpan {
            name: format!("lease {name}").into(),
            kind: SpanKind::Consumer,
            span: context_of(lease.fence).span,
            parent: origin.producer.map(|producer| producer.span_id),
            start,
            end: shown.time.max(start),
            error: BadEnd::of(shown.outcome).map(BadEnd::error_type),
            attributes,
            links: previous.into_iter().chain(shown.links).collect(),
        });
    }

    /// Returns a span without a duration, a child of the lease's span.
    fn moment(
        &self,
        what: &str,
        queue: QueueIndex,
        lease: &LeaseRef,
        origin: &LeaseOrigin,
        time: SystemTime,
    ) -> FinishedSpan {
        let name = self.queue_name(queue);
        let lease_span = self.context(queue, &lease.key, lease.fence, origin).span;
        FinishedSpan {
            name: Cow::Owned(format!("{what} {name}")),
            kind: SpanKind::Internal,
            span: Span::random_in(lease_span.trace_id),
            parent: Some(lease_span.span_id),
            start: time,
            end: time,
            error: None,
            attributes: self.attributes(queue, lease),
            links: Vec::new(),
        }
    }

    /// Returns the attributes that all spans of a lease have.
    fn attributes(
        &self,
        queue: QueueIndex,
        lease: &LeaseRef,
    ) -> Vec<(&'static str, AttributeValue)> {
        let number = |number| AttributeValue::Number(number);
        let mut attributes = Vec::with_capacity(16);
        attributes.extend([
            (
                attribute::MESSAGING_SYSTEM,
                AttributeValue::Word("lease_broker"),
            ),
            (
                attribute::MESSAGING_OPERATION_NAME,
                AttributeValue::Word("lease"),
            ),
            (
                attribute::MESSAGING_OPERATION_TYPE,
                AttributeValue::Word("process"),
            ),
            (
                attribute::MESSAGING_DESTINATION_NAME,
                AttributeValue::Text(self.queue_name(queue).to_owned()),
            ),
            (attribute::LEASE_ATTEMPT, number(lease.attempt.into())),
            (attribute::LEASE_FENCING_TOKEN, number(lease.fence)),
        ]);
        if self.settings.item_keys {
            let key = AttributeValue::Text(lease.key.to_string());
            attributes.push((attribute::MESSAGING_MESSAGE_ID, key));
        }
        attributes
    }
}

impl BadEnd {
    /// Returns `None` for an end that is not bad.
    fn of(end: LeaseEnd) -> Option<Self> {
        match end {
            LeaseEnd::Completed | LeaseEnd::Released => None,
            LeaseEnd::Failed => Some(Self::Failed),
            LeaseEnd::Expired => Some(Self::Expired),
            LeaseEnd::Cancelled => Some(Self::Cancelled),
        }
    }

    const fn error_type(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Expired => "lease_expired",
            Self::Cancelled => "cancelled",
            Self::Lost => "lease_lost",
        }
    }
}

fn settled_by(span: Span) -> SpanLink {
    SpanLink {
        span,
        kind: "settled_by",
    }
}

fn reason_attribute(reason: ReleaseReason) -> (&'static str, AttributeValue) {
    let word = AttributeValue::Word(reason.name());
    (attribute::RELEASE_REASON, word)
}

fn sampling_attribute(recording: Recording) -> (&'static str, AttributeValue) {
    let word = match recording {
        Recording::Kept => "kept",
        Recording::Sampled | Recording::No => "sampled",
    };
    (attribute::SAMPLING, AttributeValue::Word(word))
}

/// Returns the moment of a time by the store's clock, in milliseconds since 1970.
pub(super) fn time_of(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis.max(0).unsigned_abs())
}
