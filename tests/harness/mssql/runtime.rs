//! The shared tokio runtime that all connections of a test run belong to.
//!
//! A connection outlives the test that opened it, and each test has its own runtime. A connection that belonged to the
//! runtime of a test would stop with it.

use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Runtime};

static SHARED: LazyLock<Runtime> = LazyLock::new(new);

pub(super) fn new() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

/// Runs a future that opens or uses connections in the context of the shared runtime. Dropping the returned future
/// drops `work` too.
pub(super) async fn shared<Work: Future>(work: Work) -> Work::Output {
    // Boxed, because the futures of the driver are large.
    Shared(Box::pin(work)).await
}

/// Enters the shared runtime each time that the inner future is polled.
struct Shared<Work>(Pin<Box<Work>>);

impl<Work: Future> Future for Shared<Work> {
    type Output = Work::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Work::Output> {
        let _entered = SHARED.enter();
        self.0.as_mut().poll(context)
    }
}
