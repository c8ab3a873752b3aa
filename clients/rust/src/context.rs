//! The context of a handler: its cancellation, and the cause of it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use futures_util::future::{AbortHandle, AbortRegistration};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// The reason why a handler was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Another worker may have the item. Nothing is sent for the lease any more.
    LeaseLost,
    /// The handler has run for the worker's time limit or, without heartbeats, for half of the lease.
    TimeLimit,
    /// The worker stops, and its grace has passed.
    Shutdown,
}

impl Cause {
    /// Returns the name of the cause in events: `lease_lost`, `time_limit` or `shutdown`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaseLost => "lease_lost",
            Self::TimeLimit => "time_limit",
            Self::Shutdown => "shutdown",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::LeaseLost => "the lease was lost",
            Self::TimeLimit => "the time limit has passed",
            Self::Shutdown => "the worker stops",
        })
    }
}

/// The error of a handler that ends because it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
#[non_exhaustive]
pub struct Cancelled {
    /// The reason of the cancellation.
    pub cause: Cause,
}

/// The context of one call of a handler.
#[derive(Clone, Debug)]
pub struct Context(Arc<Cancellation>);

/// The two steps by which a handler is ended.
#[derive(Debug)]
struct Cancellation {
    cause: OnceLock<Cause>,
    /// Step 1: the handler is asked to end. Most handlers end before anybody asks for the token.
    cancelled: OnceLock<CancellationToken>,
    /// Step 2: the handler's future is dropped.
    dropped: AbortHandle,
}

/// A context that is not cancelled, for tests of handlers.
impl Default for Context {
    fn default() -> Self {
        Self::new().0
    }
}

impl Context {
    /// Returns a context, and the registration of the future that step 2 drops.
    pub(super) fn new() -> (Self, AbortRegistration) {
        let (dropped, registration) = AbortHandle::new_pair();
        let cancellation = Cancellation {
            cause: OnceLock::new(),
            cancelled: OnceLock::new(),
            dropped,
        };
        (Self(Arc::new(cancellation)), registration)
    }

    /// Returns a context that is cancelled already, for tests of handlers.
    pub fn cancelled_by(cause: Cause) -> Self {
        let context = Self::default();
        context.cancel(cause);
        context
    }

    pub(super) fn cancel(&self, cause: Cause) {
        // A handler is cancelled once: the first cause stays.
        let _ = self.0.cause.set(cause);
        self.signal().cancel();
    }

    pub(super) fn drop_handler(&self) {
        self.0.dropped.abort();
    }

    fn signal(&self) -> &CancellationToken {
        self.0.cancelled.get_or_init(CancellationToken::new)
    }

    /// Waits until the handler is cancelled. The handler's future is dropped 5 s later, or after half of
    /// [`Worker::stuck_after`](super::Worker::stuck_after) if that is less.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.signal().cancelled()
    }

    /// Returns a token that is cancelled together with the handler, for code that takes one.
    pub fn token(&self) -> CancellationToken {
        self.signal().child_token()
    }

    /// Returns the reason of the cancellation. `None`: the handler was not cancelled.
    pub fn cause(&self) -> Option<Cause> {
        self.0.cause.get().copied()
    }

    /// Returns an error if the handler was cancelled.
    ///
    /// # Errors
    /// [`Cancelled`]. Return it from the handler: after [`Cause::Shutdown`] the item is released.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cause()
            .map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }

    /// Waits for a future, or until the handler is cancelled. The future is then dropped.
    ///
    /// # Errors
    /// [`Cancelled`], as [`Self::check`].
    pub async fn unless_cancelled<F: Future>(&self, future: F) -> Result<F::Output, Cancelled> {
        let output = self.signal().run_until_cancelled(future).await;
        // The cause is set before the token is cancelled.
        let cause = self.cause().unwrap_or(Cause::Shutdown);
        output.ok_or(Cancelled { cause })
    }
}
