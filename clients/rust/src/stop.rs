//! The thread for calls: starts the poller and the settler, waits for a reason to stop, and stops in order.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::errors::{CallError, WorkerError};
use super::events::{Event, EventName};
use super::keeper::CANCEL_GRACE;
use super::poller::Poller;
use super::settler::Settler;
use super::signals::Signals;
use super::state::{Claims, Shared, State};

/// The time that the last settling calls have after the handlers.
const SETTLE_GRACE: Duration = Duration::from_secs(5);
/// The time in which a future that was dropped reports its end.
const DROP_GRACE: Duration = Duration::from_millis(250);

/// The parts of a worker on the thread for calls.
pub(super) struct Calls {
    pub(super) state: Arc<State>,
    pub(super) poller: Poller,
    pub(super) settler: Settler,
    /// Ends the keeper.
    pub(super) stop_keeper: CancellationToken,
    /// Is cancelled when the keeper has ended.
    pub(super) keeper_ended: CancellationToken,
}

impl Calls {
    pub(super) async fn run(self) {
        let stop_polling = CancellationToken::new();
        let mut pollers = JoinSet::new();
        for _ in 0..self.state.options.pollers() {
            pollers.spawn(self.poller.clone().run(stop_polling.clone()));
        }
        let settler = tokio::spawn(self.settler.clone().run());
        let signals = tokio::spawn(stop_on_signals(self.state.clone()));
        let grace = self.wait_for_stop(&mut pollers).await;

        let state = &self.state;
        state.events.emit(Event::new(EventName::Stopping));
        state.update(|shared| shared.claims = Claims::Stopped);
        let settle_until =
            Instant::now() + grace.saturating_add(CANCEL_GRACE + SETTLE_GRACE).min(FAR);
        stop_polling.cancel();
        while pollers.join_next().await.is_some() {}
        let poller = self.poller.clone();
        let released = tokio::spawn(async move { poller.release_abandoned(false).await });
        tokio::select! {
            () = self.handlers_ended() => {}
            () = sleep(grace) => {}
            () = state.control.hurry.cancelled() => {}
        }
        self.cancel_handlers().await;
        state.update(|shared| {
            shared.settled_all = true;
            shared.leave_handlers();
        });
        if !state.lock().runs.is_empty() {
            state.control.set_error(WorkerError::HandlersLeft);
        }
        state.signals.endings_ready.notify_one();
        let settler_stop = settler.abort_handle();
        tokio::select! {
            _ = settler => {}
            () = sleep_until(settle_until) => {
                settler_stop.abort();
                state.update(Shared::leave_endings);
            }
        }
        self.stop_keeper.cancel();
        self.keeper_ended.cancelled().await;
        let last_release = async {
            let _ = released.await;
            self.poller.release_abandoned(true).await;
        };
        // Settlements that no broker has answered leave no time.
        if timeout_at(settle_until, last_release).await.is_err() {
            tracing::warn!("items of abandoned claims may stay leased until they expire");
        }
        signals.abort();
        state.events.emit(Event::new(EventName::Stopped));
    }

    /// Waits until the worker shall stop. Returns the grace.
    async fn wait_for_stop(&self, pollers: &mut JoinSet<Result<(), CallError>>) -> Duration {
        let control = &self.state.control;
        let fail = |text: &str| control.fail(WorkerError::Internal(text.to_owned()));
        let mut stop = control.stop.subscribe();
        loop {
            if let Some(grace) = *stop.borrow_and_update() {
                return grace;
            }
            let (is_finished, claims) = {
                let shared = self.state.lock();
                (shared.is_finished(), shared.claims)
            };
            if claims == Claims::Stopped {
                fail("the tokio runtime of the handlers has ended");
            }
            if is_finished || claims == Claims::Stopped {
                return self.state.options.grace;
            }
            tokio::select! {
                // An error means that the sender is gone, and the sender is in `self`.
                _ = stop.changed() => {}
                () = self.state.signals.changed.notified() => {}
                Some(ended) = pollers.join_next() => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => control.fail(error.into()),
                    Err(_) => fail("a task of the worker has panicked"),
                },
                () = self.keeper_ended.cancelled() => fail("the thread for heartbeats has panicked"),
            }
        }
    }

    async fn handlers_ended(&self) {
        while !self.state.lock().runs.is_empty() {
            self.state.signals.changed.notified().await;
        }
    }

    /// Cancels the handlers, and drops them after 5 s.
    async fn cancel_handlers(&self) {
        let runs = || -> Vec<_> { self.state.lock().runs.keys().copied().collect() };
        self.state.update(Shared::cancel_all);
        if timeout(CANCEL_GRACE, self.handlers_ended()).await.is_err() {
            for run in runs() {
                self.state.update(|shared| shared.drop_handler(run));
            }
            let _ = timeout(DROP_GRACE, self.handlers_ended()).await;
        }
    }
}

/// Stands for a grace without a limit.
const FAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Stops the worker at the first signal, and cancels its handlers at the second. Runs on the thread for calls, because
/// handlers may block all threads of the caller's runtime.
async fn stop_on_signals(state: Arc<State>) {
    let control = &state.control;
    control.obey_signals.cancelled().await;
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "signals cannot be received");
            return;
        }
    };
    signals.next().await;
    control.request_stop(None);
    signals.next().await;
    control.hurry.cancel();
}
