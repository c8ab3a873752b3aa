//! Runs handlers on the caller's runtime: one task per run.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{Abortable, Aborted};
use tokio::runtime::Handle;
use tracing::Instrument as _;

use super::context::{Cancelled, Cause, Context};
use super::endings::{BatchDone, Done, Ending, Kind};
use super::handler_error::HandlerError;
use super::item::Item;
use super::leases::{RunNumber, Start};
use super::middleware::{Handler, Next, Outcome};
use super::state::{StartHandlers, State};

/// The error of a batch whose results are for another one.
const OTHER_ITEM: &str =
    "the results name an item that is not in this batch: pass the items that the handler was given";

/// The error of middleware that leaves the item out. The item would be completed without its handler.
const NOT_ONE_ITEM: &str =
    "middleware must pass exactly one item on, because the handler of this worker takes one";

/// Makes a handler of one item a handler of batches.
pub(super) fn of_item<F, R>(handler: F) -> Handler
where
    F: Fn(Item, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Done, HandlerError>> + Send + 'static,
{
    Box::new(move |items, context| {
        let Ok([item]) = <[Item; 1]>::try_from(items) else {
            return Box::pin(async { Err(HandlerError::new(NOT_ONE_ITEM)) });
        };
        let call = handler(item.clone(), context);
        Box::pin(async move {
            let mut outcome = BatchDone::new();
            let done = call.await?;
            // An item without a result is completed too, without an allocation.
            if !done.is_plain() {
                outcome.complete(&item, done);
            }
            Ok(outcome)
        })
    })
}

/// Returns the function that runs the handler for each run, in a task of its own, and passes the endings of its items to the state.
pub(super) fn start_on(runtime: Handle, handler: Next) -> StartHandlers {
    Box::new(move |state, starts| {
        let handler = handler.clone();
        let guard = |start: Start| {
            let (state, run) = (state.clone(), Some(start.run));
            (Guard { state, run }, start)
        };
        let starts: Vec<_> = starts.into_iter().map(guard).collect();
        // A task that is spawned within the runtime costs less than one from outside.
        runtime.spawn(async move {
            for (guard, start) in starts {
                tokio::spawn(run(guard, handler.clone(), start));
            }
        });
    })
}

/// Ends a run whose task is dropped before the handler has ended. A runtime that ends drops its tasks, and a runtime that has
/// ended drops each new one.
struct Guard {
    state: Arc<State>,
    /// `None`: the handler has ended.
    run: Option<RunNumber>,
}

impl Guard {
    fn end(mut self, endings: Vec<Ending>) {
        if let Some(run) = self.run.take() {
            self.state.update(|shared| shared.end(run, endings));
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(run) = self.run {
            self.state.update(|shared| shared.end_dropped(run));
        }
    }
}

fn run(guard: Guard, handler: Next, start: Start) -> impl Future<Output = ()> {
    let first = start.items.first();
    let span = tracing::info_span!(
        "handle",
        queue = guard.state.options.queue,
        key = first.map(Item::key),
        attempt = first.map(Item::attempt),
        trace_parent = first.map(Item::trace_parent),
    );
    let run = async move {
        let Start {
            items,
            context,
            drops,
            ..
        } = start;
        // The handler's future is dropped within the outer one, because its drop can panic too.
        let call = async {
            let call = async { handler.run(items.to_vec(), context.clone()).await };
            Abortable::new(call, drops).await
        };
        let outcome = match AssertUnwindSafe(call).catch_unwind().await {
            Ok(Ok(outcome)) => outcome,
            Err(panic) => Err(HandlerError::failed(format!(
                "panic: {}",
                panic_text(panic)
            ))),
            Ok(Err(Aborted)) => {
                let cause = context.cause().unwrap_or(Cause::Shutdown);
                Err(Cancelled { cause }.into())
            }
        };
        let endings = endings_of(&guard.state, &items, outcome, context.cause());
        log_failures(&items, &endings);
        guard.end(endings);
    };
    run.instrument(span)
}

fn endings_of(
    state: &State,
    items: &[Item],
    outcome: Outcome,
    cause: Option<Cause>,
) -> Vec<Ending> {
    let limit = state.options.time_limit;
    let ending = |item: &Item, result| Ending::of_result(item.lease(), result, cause, limit);
    let error = match outcome {
        Ok(mut done) => {
            let endings = items.iter().map(|item| ending(item, done.take(item)));
            let endings = endings.collect();
            if done.is_empty() {
                return endings;
            }
            // The item that is meant would be completed as if nothing was said of it.
            HandlerError::new(OTHER_ITEM)
        }
        Err(error) => error,
    };
    let again = || HandlerError {
        kind: error.kind,
        text: error.text.clone(),
    };
    let endings = items.iter().map(|item| ending(item, Err(again())));
    endings.collect()
}

/// Logs the errors of handlers. The broker stores only the last one of each item.
fn log_failures(items: &[Item], endings: &[Ending]) {
    for (item, ending) in items.iter().zip(endings) {
        if ending.kind == Kind::Fail {
            let (key, attempt, error) = (item.key(), item.attempt(), &ending.text);
            tracing::warn!(key, attempt, error, "handler failed");
        }
    }
}

/// Returns the text of a panic. A value of a type that is not a text is not dropped, because its drop can panic.
fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let panic = match panic.downcast::<String>() {
        Ok(text) => return *text,
        Err(panic) => panic,
    };
    match panic.downcast::<&str>() {
        Ok(text) => (*text).to_owned(),
        Err(panic) => {
            std::mem::forget(panic);
            "unknown".to_owned()
        }
    }
}
