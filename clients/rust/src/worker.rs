//! A worker: claims the items of one queue, runs a handler for each, and settles them.

use std::process::ExitCode;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::runtime::{Builder, Handle as RuntimeHandle};
use tokio_util::sync::CancellationToken;

use super::calls::Caller;
use super::connection::{Connection, Link, internal};
use super::context::Context;
use super::credentials::Token;
use super::endings::{BatchDone, Done};
use super::errors::WorkerError;
use super::events::{Event, EventName};
use super::failure::Failure;
use super::handler_error::HandlerError;
use super::item::Item;
use super::keeper::Keeper;
use super::middleware::{Handler, Next};
use super::options::Options;
use super::poller::Poller;
use super::runners;
use super::running::{Handle, RunningWorker, run_all};
use super::settler::Settler;
use super::state::State;
use super::stop::Calls;

/// A worker that was not started yet. Its other methods set options.
#[derive(Clone)]
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    pub(super) options: Options,
}

impl Connection {
    /// Returns a worker for a queue over this connection, which then has the credentials of the connection.
    pub fn worker(&self, queue: impl Into<String>) -> Worker {
        let mut worker = Worker::new(self.address.as_str(), queue);
        worker.options.connection = Some(self.clone());
        worker
    }
}

impl Worker {
    /// Returns a worker for a queue. The address is `host:port`, `dns:///host:port` for all addresses of a name, or
    /// several of the first kind with commas between them.
    pub fn new(address: impl Into<String>, queue: impl Into<String>) -> Self {
        let options = Options::new(address.into(), queue.into());
        Self { options }
    }

    /// Runs the worker as the whole program: until SIGTERM or SIGINT arrives. Writes an error to standard error.
    ///
    /// Returns the exit code for `main`: 0, or 1 if handlers were left or the broker refuses the worker. Handlers that are
    /// left end with the process.
    pub fn main<F, R>(self, handler: F) -> ExitCode
    where
        F: Fn(Item, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Done, HandlerError>> + Send + 'static,
    {
        let runtime = Builder::new_multi_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => {
                let result = runtime.block_on(self.run(handler));
                // Dropping the runtime would wait for handlers that block their threads.
                runtime.shutdown_background();
                result
            }
            Err(error) => Err(internal("the async runtime", &error)),
        };
        if let Err(error) = &result {
            eprintln!("{error}");
        }
        ExitCode::from(u8::from(result.is_err()))
    }

    /// Runs the worker until SIGTERM or SIGINT arrives. A second signal cancels the handlers. Must be called on a tokio
    /// runtime, which then runs the handlers. After it, these signals do not end the process: see
    /// [`RunningWorker::stop_on_signals`].
    ///
    /// If this future is dropped, as by `select!` or `try_join!`, the worker begins to stop, but nothing waits for it. If the process
    /// then ends, its leases expire. [`run_all`] runs several workers.
    ///
    /// # Errors
    /// An option is malformed, the broker refuses the worker, or handlers did not end. In the last case end the process
    /// by [`std::process::exit`]: a tokio runtime waits for handlers that block their threads.
    pub async fn run<F, R>(self, handler: F) -> Result<(), WorkerError>
    where
        F: Fn(Item, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Done, HandlerError>> + Send + 'static,
    {
        run_all([self.start(handler)?]).await
    }

    /// Starts the worker, for programs that handle signals themselves. Must be called on a tokio runtime, which then runs
    /// the handlers. If the runtime ends before the worker, the worker releases its items and ends with
    /// [`WorkerError::Internal`].
    ///
    /// # Errors
    /// An option is malformed.
    pub fn start<F, R>(self, handler: F) -> Result<RunningWorker, WorkerError>
    where
        F: Fn(Item, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Done, HandlerError>> + Send + 'static,
    {
        start(self.options, runners::of_item(handler))
    }

    /// Starts a worker whose handler gets up to `batch` items, 1 to 1,000. The concurrency is then the number of batches.
    ///
    /// # Errors
    /// An option is malformed.
    pub fn start_batches<F, R>(
        mut self,
        batch: usize,
        handler: F,
    ) -> Result<RunningWorker, WorkerError>
    where
        F: Fn(Vec<Item>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BatchDone, HandlerError>> + Send + 'static,
    {
        self.options.batch = batch;
        let handler =
            move |items, context| -> BoxFuture<'static, _> { Box::pin(handler(items, context)) };
        start(self.options, Box::new(handler))
    }
}

fn start(options: Options, handler: Handler) -> Result<RunningWorker, WorkerError> {
    options.check()?;
    options.token.as_ref().map_or(Ok(()), Token::check)?;
    let connection = match options.connection.clone() {
        Some(connection) => connection,
        None => Connection::new(&options.address, options.credentials.clone())?,
    };
    let runtime = RuntimeHandle::try_current()
        .map_err(|error| internal("the worker outside of a tokio runtime", &error))?;
    let handler = Next::new(handler, &options.middleware);
    let state = Arc::new(State::new(options, runners::start_on(runtime, handler)));

    let caller = |link: &Link| Caller {
        transport: link.transport.clone(),
        token: state.options.token.clone(),
        on_attempt: {
            let state = state.clone();
            Arc::new(move |failure| state.health.note(failure))
        },
        on_retry: {
            let state = state.clone();
            Arc::new(move |retry, failure: &Failure| {
                let event = Event::new(EventName::Retry).with_error(failure.message.as_str());
                let mut event = event.with_reason(failure.reason.as_str());
                event.retry = Some(retry);
                state.events.emit(event);
            })
        },
    };
    let keeper = Keeper {
        state: state.clone(),
        caller: caller(&connection.keep),
        fresh_token: Arc::default(),
    };
    let caller = caller(&connection.calls);
    let calls = Calls {
        poller: Poller {
            state: state.clone(),
            caller: caller.clone(),
        },
        settler: Settler {
            state: state.clone(),
            caller,
        },
        state: state.clone(),
        stop_keeper: CancellationToken::new(),
        keeper_ended: CancellationToken::new(),
    };
    let (keeper_ended, stop_keeper) = (calls.keeper_ended.clone(), calls.stop_keeper.clone());
    let kept = state.clone();
    connection.keep.spawn(keeper_ended, async move {
        tokio::select! {
            () = keeper.run(stop_keeper) => {}
            () = kept.health.warn(&kept.options.address) => {}
        }
    });
    let stopped = state.control.stopped.clone();
    connection.calls.spawn(stopped, calls.run());
    Ok(RunningWorker(Arc::new(Handle(state))))
}
