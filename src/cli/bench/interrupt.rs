//! Signals that end a bench before its time: it still ends its broker and removes its files.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::CommandError;

/// Listens for SIGINT and SIGTERM.
pub(super) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// Starts to listen: from now on a signal ends nothing by itself.
    pub(super) fn listen() -> Result<Self, CommandError> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| CommandError::io(format!("signals can't be handled: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Does the work unless a signal comes first.
    pub(super) async fn unless<T>(
        &mut self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        tokio::select! {
            done = work => done,
            _ = self.interrupt.recv() => Err(CommandError::failed("bench: interrupted")),
            _ = self.terminate.recv() => Err(CommandError::failed("bench: interrupted")),
        }
    }
}
