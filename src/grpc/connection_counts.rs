//! Counts the connections that were refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lease_broker_model::named_enum;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The time between two reports of refused connections.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

named_enum! {
    /// Why a connection was refused. Metrics have the names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RefusedConnection {
        /// `server.max_connections` were open.
        Full = "max_connections",
        /// Its TLS handshake failed, or was not complete in time.
        Handshake = "handshake",
        /// It had made no call yet, and another connection needed its place.
        Displaced = "displaced",
    }
}

/// The counts of a server's connections.
#[derive(Default)]
pub struct ConnectionCounts {
    refused: [AtomicU64; RefusedConnection::ALL.len()],
    /// Notified when a connection was refused.
    report_wanted: Notify,
}

impl ConnectionCounts {
    /// Returns the number of connections that were refused for this reason.
    pub fn refused(&self, reason: RefusedConnection) -> u64 {
        self.refused[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts a refused connection.
    pub(super) fn refuse(&self, reason: RefusedConnection) {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
        self.report_wanted.notify_one();
    }

    /// Reports how many connections the limit has refused: the first at once, and further ones together, every minute. Also reports
    /// those that are left when `stop` is cancelled.
    pub(super) async fn report_full(&self, stop: CancellationToken, report: impl Fn(u64)) {
        let mut reported = 0;
        while !stop.is_cancelled() {
            stop.run_until_cancelled(self.report_wanted.notified())
                .await;
            let refused = self.refused(RefusedConnection::Full);
            if refused > reported {
                report(refused - reported);
                reported = refused;
                let pause = tokio::time::sleep(REPORT_INTERVAL);
                stop.run_until_cancelled(pause).await;
            }
        }
        let refused = self.refused(RefusedConnection::Full);
        if refused > reported {
            report(refused - reported);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_refused_connection_is_reported() {
        let counts = Arc::new(ConnectionCounts::default());
        let stop = CancellationToken::new();
        let (sender, mut reports) = mpsc::unbounded_channel();
        let reporting = tokio::spawn({
            let (counts, stop) = (counts.clone(), stop.clone());
            async move {
                let report = |count| sender.send(count).expect("the test reads");
                counts.report_full(stop, report).await;
            }
        });
        counts.refuse(RefusedConnection::Handshake);
        counts.refuse(RefusedConnection::Full);
        assert_eq!(reports.recv().await, Some(1));
        let first = Instant::now();
        (0..179).for_each(|_| counts.refuse(RefusedConnection::Full));
        // No further connection is refused.
        assert_eq!(reports.recv().await, Some(179));
        assert_eq!(first.elapsed(), REPORT_INTERVAL);
        counts.refuse(RefusedConnection::Full);
        tokio::task::yield_now().await;
        stop.cancel();
        assert_eq!(reports.recv().await, Some(1));
        assert_eq!(reports.recv().await, None);
        reporting.await.expect("a task");
        assert_eq!(counts.refused(RefusedConnection::Handshake), 1);
    }
}
