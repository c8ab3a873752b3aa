//! The methods of a worker that set its options.

use std::time::Duration;

use super::context::Context;
use super::credentials::{Credentials, Token};
use super::endings::BatchDone;
use super::events::Event;
use super::handler_error::HandlerError;
use super::item::Item;
use super::middleware::Next;
use super::worker::Worker;

/// Defines methods that set the options of their names.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty)?) => $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $($argument: $type)?) -> Self {
            self.options.$name = $value;
            self
        }
    )*};
}

impl Worker {
    setters! {
        /// Sets the name of the worker, for people who look for the holder of a lease. 1 to 128 UTF-16 units. Default: host,
        /// process id and random digits.
        worker_id(id: impl Into<String>) => id.into();

        /// Sets the number of handlers that run at the same time. Default: 1.
        concurrency(handlers: usize) => handlers;

        /// Sets the duration of the leases, more than 0. Default: the queue's.
        lease(duration: Duration) => Some(duration);

        /// Turns heartbeats on or off. Default: on. Without them the lease is all the time that a handler has: after half of
        /// it the handler is cancelled with [`Cause::TimeLimit`](super::Cause::TimeLimit).
        heartbeat(on: bool) => on;

        /// Sets the longest time that a handler may run, more than 0. The handler is then cancelled, and its item fails unless
        /// the handler returns within 5 s. Default: no limit.
        time_limit(limit: Duration) => Some(limit);

        /// Sets the time that a claim waits for items, up to 60 s. Default: 20 s.
        wait(time: Duration) => time;

        /// Sets the groups whose items are claimed, up to 100, each in the form of [`Item::key`]. Default: any item is claimed.
        groups(groups: impl IntoIterator<Item = impl Into<String>>) => groups.into_iter().map(Into::into).collect();

        /// Sets the time that handlers have to end when the worker stops. They are then cancelled, and have 5 s more. Keep
        /// this time plus 10 s below the time after which your supervisor kills the process. Default: 15 s, for the 30 s of Kubernetes.
        grace(time: Duration) => time;

        /// Sets the time after its cancellation at which a handler that still runs is stuck. Its future is dropped 5 s after the
        /// cancellation, or after half of this time if that is less. Default: 30 s.
        stuck_after(time: Duration) => time;

        /// Sets the number of stuck handlers whose slots are replaced. With more of them the worker claims no items and is
        /// not healthy. At least 1. Default: as the concurrency.
        max_stuck(handlers: usize) => Some(handlers);

        /// Protects the connection. Default: plaintext, to this machine only.
        credentials(credentials: Credentials) => credentials;

        /// Sends a bearer token with each call. Default: none.
        token(token: Token) => Some(token);

        /// Sets a function that is called with each event, on the thread on which the event happens. It must not block.
        on_event(observer: impl Fn(&Event) + Send + Sync + 'static) => Some(std::sync::Arc::new(observer));

        /// Ends the worker after this number of items. Default: it works until it is stopped.
        max_items(items: usize) => Some(items);

        /// Ends the worker when a claim finds no item. Default: it waits for more.
        until_empty() => true;
    }

    /// Surrounds the handler with a function. It calls [`Next::run`](super::Next::run) to run the handler. The first function is the
    /// outermost. Workers of single items call it with one item.
    pub fn middleware<F, R>(mut self, surround: F) -> Self
    where
        F: Fn(Vec<Item>, Context, Next) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BatchDone, HandlerError>> + Send + 'static,
    {
        let surround = move |items, context, next| -> futures_util::future::BoxFuture<'static, _> {
            Box::pin(surround(items, context, next))
        };
        self.options.middleware.push(std::sync::Arc::new(surround));
        self
    }

    /// Returns the name of the worker.
    pub fn id(&self) -> &str {
        &self.options.worker_id
    }
}
