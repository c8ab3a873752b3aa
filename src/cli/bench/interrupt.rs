//! SIGINT and SIGTERM: end a bench early, but not before it has stopped its broker and removed its files.

use tokio::signal::unix::{Signal, SignalKind};

use crate::cli::CommandError;
use crate::cli::serve::stop_signal;

/// Receives both signals.
pub(super) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// Starts to listen. From then on, the signals do not end the process.
    pub(super) fn listen() -> Result<Self, CommandError> {
        Ok(Self {
            interrupt: stop_signal(SignalKind::interrupt())?,
            terminate: stop_signal(SignalKind::terminate())?,
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
