//! SIGINT and SIGTERM: end a bench early, but not before it has stopped its broker and removed its files.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::CommandError;

/// Receives both signals.
pub(super) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// Starts to listen. From then on, the signals do not end the process.
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

    /// Runs `work`, and stops it with an error if a signal arrives.
    pub(super) async fn unless_interrupted<T>(
        &mut self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        tokio::select! {
            result = work => result,
            _ = self.interrupt.recv() => Err(CommandError::failed("bench: interrupted")),
            _ = self.terminate.recv() => Err(CommandError::failed("bench: interrupted")),
        }
    }
}
