//! The signals by which a user or a supervisor asks a command to stop.

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::command_error::CommandError;

/// Signals that ask to stop. Once a process listens to them, they do not end it.
pub(super) struct StopRequests(Vec<Signal>);

impl StopRequests {
    /// Starts to listen to SIGTERM and SIGINT.
    pub(super) fn listen() -> Result<Self, CommandError> {
        let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(stop_signal);
        signals.into_iter().collect::<Result<_, _>>().map(Self)
    }

    /// Starts to listen also to the signals of a terminal, SIGHUP and SIGQUIT. They stay ignored if they are, as `nohup` wants it.
    pub(super) fn listen_to_terminal() -> Result<Self, CommandError> {
        let Self(mut signals) = Self::listen()?;
        let ignored = ignored_signals();
        for kind in [SignalKind::hangup(), SignalKind::quit()] {
            if ignored & (1 << (kind.as_raw_value() - 1)) == 0 {
                signals.push(stop_signal(kind)?);
            }
        }
        Ok(Self(signals))
    }

    /// Waits for the next signal. If the future is dropped, no signal is lost.
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

/// Starts to listen to a signal. From then on, it does not end the process.
pub fn stop_signal(kind: SignalKind) -> Result<Signal, CommandError> {
    signal(kind)
        .map_err(|error| CommandError::io(format!("cannot install a signal handler: {error}")))
}

/// Returns the signals that this process ignores, as a set of bits. On a system without `/proc` none is known.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
