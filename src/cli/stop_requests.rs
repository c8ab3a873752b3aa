//! The signals by which a user or a supervisor asks a command to stop: SIGTERM and SIGINT.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::command_error::CommandError;

/// SIGTERM and SIGINT. Once a process listens to them, they do not end it.
pub(super) struct StopRequests {
    terminate: Signal,
    interrupt: Signal,
}

impl StopRequests {
    /// Starts to listen.
    pub(super) fn listen() -> Result<Self, CommandError> {
        Ok(Self {
            terminate: stop_signal(SignalKind::terminate())?,
            interrupt: stop_signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal. If the future is dropped, no signal is lost.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Starts to listen to a signal. From then on, it does not end the process.
pub fn stop_signal(kind: SignalKind) -> Result<Signal, CommandError> {
    signal(kind)
        .map_err(|error| CommandError::io(format!("cannot install a signal handler: {error}")))
}
