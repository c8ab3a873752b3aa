//! The poller: claims items for free slots by calls that wait for items.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::calls::{CallOptions, Caller};
use super::errors::{Applied, CallError};
use super::state::{Reserved, State};
use super::values::{after, duration_from_proto, duration_to_proto};
use lease_broker_proto::{self as proto, HeldBack};

/// Spreads the first claims of workers that start together.
const MAX_START_DELAY: Duration = Duration::from_millis(250);
/// Follows an empty response that came early, because the broker stops or because the worker does not wait for items.
const EARLY_ANSWER_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before the next claim that a broker can ask for. Limits of a queue can change.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Bounds the release of abandoned claims.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Lets the broker's own limits decide how large a response is.
pub(super) const MAX_RESPONSE_BYTES: i32 = 1 << 30;

#[derive(Clone)]
pub(super) struct Poller {
    pub(super) state: Arc<State>,
    pub(super) caller: Caller,
}

impl Poller {
    /// Claims until the worker stops.
    ///
    /// # Errors
    /// The broker refuses the claim.
    pub(super) async fn run(self, stopping: CancellationToken) -> Result<(), CallError> {
        if !self.state.options.until_empty {
            let delay = MAX_START_DELAY.mul_f64(rand::random_range(0.0..1.0));
            stopping
                .run_until_cancelled(tokio::time::sleep(delay))
                .await;
        }
        while let Some(reserved) = stopping.run_until_cancelled(self.wait_for_slots()).await {
            self.claim(reserved, &stopping).await?;
        }
        Ok(())
    }

    /// Waits until a claim is useful. Returns the slots that are reserved for it.
    async fn wait_for_slots(&self) -> Reserved {
        loop {
            let changed = self.state.signals.slots_free.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let reserved = self.state.lock().slots_to_claim();
                if reserved.slots > 0 {
                    return reserved;
                }
            }
            changed.await;
        }
    }

    async fn claim(
        &self,
        reserved: Reserved,
        stopping: &CancellationToken,
    ) -> Result<(), CallError> {
        self.release_abandoned(true).await;
        let options = &self.state.options;
        // Without an answer before, a claim that waits for items looks like a broker that does not answer.
        let wait = if options.until_empty || !self.state.health.answers() {
            Duration::ZERO
        } else {
            options.wait
        };
        let request = proto::ClaimBatchRequest {
            groups: options.groups.clone(),
            queue: options.queue.clone(),
            worker_id: options.worker_id.clone(),
            max_items: i32::try_from(reserved.items).unwrap_or(i32::MAX),
            lease_duration: options.lease.map(duration_to_proto),
            wait_timeout: Some(duration_to_proto(wait)),
            request_id: Uuid::new_v4().to_string(),
            max_bytes: MAX_RESPONSE_BYTES,
            max_run: 0,
        };
        let request_id = request.request_id.clone();
        let begun = Instant::now();
        let call_options = CallOptions {
            attempt_timeout: Some(wait + Duration::from_secs(5)),
            ..CallOptions::default()
        };
        let call = self.caller.call(
            |attempt| proto::ClaimBatchRequest {
                // A claim that waits for items looks like a broker that does not answer.
                wait_timeout: request.wait_timeout.filter(|_| attempt == 1),
                ..request.clone()
            },
            call_options,
        );
        let (answer, times) = match stopping.run_until_cancelled(call).await {
            Some(Ok(answer)) => answer,
            given_up => {
                let error = given_up.and_then(Result::err);
                self.state.update(|shared| {
                    if error
                        .as_ref()
                        .is_none_or(|error| error.applied != Applied::No)
                    {
                        shared.abandoned.push(request_id);
                    }
                    shared.return_slots(reserved);
                });
                return error.map_or(Ok(()), Err);
            }
        };
        let is_empty = answer.leases.is_empty();
        // Without these, the queue has no item that the worker can get.
        let held_back = answer.held_back();
        let is_ended = matches!(
            held_back,
            HeldBack::Stopping
                | HeldBack::Released
                | HeldBack::GroupsBusy
                | HeldBack::MaxLeases
                | HeldBack::Rate
        );
        let retry_after = answer.retry_after;
        let retry_after =
            retry_after.map(|after| duration_from_proto(Some(after)).min(LONGEST_PAUSE));
        self.state.accept(answer.leases, reserved, times);
        if is_empty && options.until_empty && !is_ended {
            if held_back == HeldBack::Paused {
                let queue = &options.queue;
                tracing::warn!(queue, "queue is paused: items can be left");
            }
            self.state.update(super::state::Shared::end_claims);
        } else if is_empty
            && (retry_after.is_some()
                || options.until_empty
                || options.wait < EARLY_ANSWER_PAUSE
                || begun.elapsed() < wait / 2)
        {
            // A limit of the queue gives no item before.
            let pause = retry_after
                .unwrap_or_else(|| EARLY_ANSWER_PAUSE.mul_f64(rand::random_range(0.5..1.5)));
            stopping
                .run_until_cancelled(tokio::time::sleep(pause))
                .await;
        }
        Ok(())
    }

    /// Releases the items of claims whose response was not read. A worker that stops calls it twice: the first request may
    /// reach one broker before another has run the claim. Several pollers can call it at the same time, with the same claims.
    pub(super) async fn release_abandoned(&self, forget: bool) {
        let ids = self.state.lock().abandoned.clone();
        if ids.is_empty() {
            return;
        }
        let request = proto::ReleaseClaimsRequest {
            queue: self.state.options.queue.clone(),
            worker_id: self.state.options.worker_id.clone(),
            request_ids: ids.clone(),
        };
        let until = after(Instant::now(), RELEASE_TIMEOUT);
        let options = CallOptions {
            until: Some(&|| until),
            ..CallOptions::default()
        };
        let mut is_done = forget;
        if let Err(error) = self.caller.call(|_| request.clone(), options).await {
            is_done = !error.temporary;
            if forget || is_done {
                tracing::warn!(%error, "items of abandoned claims may stay leased until they expire");
            }
        }
        if is_done {
            self.state.lock().abandoned.retain(|id| !ids.contains(id));
        }
    }
}
