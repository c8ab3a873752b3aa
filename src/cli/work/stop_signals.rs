//! The signals that stop `work`: SIGTERM, and those of a terminal.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT, SIGHUP and SIGQUIT. A command has a process group of its own, so a terminal that closes does not end it.
pub(super) struct StopSignals(Vec<Signal>);

impl StopSignals {
    /// Starts to listen. SIGHUP and SIGQUIT stay ignored if they are, as `nohup` wants it.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored_signals();
        let of_terminal = [SignalKind::hangup(), SignalKind::quit()];
        let of_terminal = of_terminal
            .into_iter()
            .filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) == 0);
        let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
        let signals = kinds.into_iter().chain(of_terminal).map(signal);
        signals.collect::<Result<_, _>>().map(Self)
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        poll_fn(|context| {
            let received = |signal: &mut Signal| signal.poll_recv(context).is_ready();
            if self.0.iter_mut().any(received) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// Returns the signals that this process ignores, as a set of bits. On a system without `/proc` none is known.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
