//! Tells systemd, or another service manager with its protocol, that the service is ready, works and stops.
//!
//! The manager restarts a service that does not report in time. On SQLite this also ends the wait of all other brokers for a lock that
//! a stopped process holds.

use sd_notify::NotifyState;
use tokio_util::task::AbortOnDropHandle;

/// Reports that the service is ready. From then on a task reports that it works, twice within the time of the watchdog, until the
/// result is dropped. Without a service manager, nothing is reported.
pub(super) fn ready() -> Option<AbortOnDropHandle<()>> {
    send(NotifyState::Ready);
    let limit = sd_notify::watchdog_enabled()?;
    let task = tokio::spawn(async move {
        loop {
            send(NotifyState::Watchdog);
            tokio::time::sleep(limit / 2).await;
        }
    });
    Some(AbortOnDropHandle::new(task))
}

/// Reports that the service stops.
pub(super) fn stopping() {
    send(NotifyState::Stopping);
}

fn send(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "service manager not reached");
    }
}
