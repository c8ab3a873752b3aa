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

impl Worker {
    /// Sets the name of the worker, for people who look for the holder of a lease. 1 to 128 UTF-16 units. Default: host,
    /// process id and random digits.
    pub fn worker_id(mut self, id: impl Into<String>) -> Self {
        self.options.worker_id = id.into();
        self
    }

    /// Sets the number of handlers that run at the same time. Default: 1.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.options.concurrency = handlers;
        self
    }

    /// Sets the duration of the leases, more than 0. Default: the queue's.
    pub fn lease(mut self, duration: Duration) -> Self {
        self.options.lease = Some(duration);
        self
    }

    /// Turns heartbeats on or off. Default: on. Without them the lease is all the time that a handler has: after half of
    /// it the handler is cancelled with [`Cause::TimeLimit`](super::Cause::TimeLimit).
    pub fn heartbeat(mut self, on: bool) -> Self {
        self.options.heartbeat = on;
        self
    }

    /// Sets the longest time that a handler may run, more than 0. The handler is then cancelled, and its item fails unless
    /// the handler returns within 5 s. Default: no limit.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.options.time_limit = Some(limit);
        self
    }

    /// Sets the time that a claim waits for items, up to 60 s. Default: 20 s.
    pub fn wait(mut self, time: Duration) -> Self {
        self.options.wait = time;
        self
    }

    /// Sets the groups whose items are claimed, up to 100, each in the form of [`Item::key`]. Default: any item is claimed.
    pub fn groups(mut self, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.groups = groups.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the time that handlers have to end when the worker stops. They are then cancelled, and have 5 s more. Keep
    /// this time plus 10 s below the time after which your supervisor kills the process. Default: 15 s, for the 30 s of Kubernetes.
    pub fn grace(mut self, time: Duration) -> Self {
        self.options.grace = time;
        self
    }

    /// Sets the time after its cancellation at which a handler that still runs is stuck. Its future is dropped 5 s after the
    /// cancellation, or after half of this time if that is less. Default: 30 s.
    pub fn stuck_after(mut self, time: Duration) -> Self {
        self.options.stuck_after = time;
        self
    }

    /// Sets the number of stuck handlers whose slots are replaced. With more of them the worker claims no items and is
    /// not healthy. At least 1. Default: as the concurrency.
    pub fn max_stuck(mut self, handlers: usize) -> Self {
        self.options.max_stuck = Some(handlers);
        self
    }

    /// Protects the connection. Default: plaintext, to this machine only.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.options.credentials = credentials;
        self
    }

    /// Sends a bearer token with each call. Default: none.
    pub fn token(mut self, token: Token) -> Self {
        self.options.token = Some(token);
        self
    }

    /// Sets a function that is called with each event, on the thread on which the event happens. It must not block.
    pub fn on_event(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.options.on_event = Some(std::sync::Arc::new(observer));
        self
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

    /// Ends the worker after this number of items. Default: it works until it is stopped.
    pub fn max_items(mut self, items: usize) -> Self {
        self.options.max_items = Some(items);
        self
    }

    /// Ends the worker when a claim finds no item. Default: it waits for more.
    pub fn until_empty(mut self) -> Self {
        self.options.until_empty = true;
        self
    }

    /// Returns the name of the worker.
    pub fn id(&self) -> &str {
        &self.options.worker_id
    }
}
