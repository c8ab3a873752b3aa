//! Middleware: functions that surround the handlers of a worker.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::context::Context;
use super::endings::BatchDone;
use super::handler_error::HandlerError;
use super::item::Item;

pub(super) type Outcome = Result<BatchDone, HandlerError>;
/// A handler of any kind as a handler of batches.
pub(super) type Handler =
    Box<dyn Fn(Vec<Item>, Context) -> BoxFuture<'static, Outcome> + Send + Sync>;
pub(super) type Middleware =
    Arc<dyn Fn(Vec<Item>, Context, Next) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// The rest of the chain: the next middleware, or the handler.
#[derive(Clone)]
pub struct Next {
    handler: Arc<Handler>,
    rest: Arc<[Middleware]>,
    at: usize,
}

impl Next {
    pub(super) fn new(handler: Handler, middleware: &[Middleware]) -> Self {
        Self {
            handler: Arc::new(handler),
            rest: middleware.into(),
            at: 0,
        }
    }

    /// Runs the rest of the chain for these items: all that this middleware was called with. An item of a batch that is left out is
    /// completed, unless this middleware adds another result for it.
    ///
    /// # Errors
    /// The error of the handler. A worker of single items gets one if `items` is not exactly one.
    pub async fn run(mut self, items: Vec<Item>, context: Context) -> Outcome {
        let Some(middleware) = self.rest.get(self.at).cloned() else {
            return (self.handler)(items, context).await;
        };
        self.at += 1;
        middleware(items, context, self).await
    }
}
