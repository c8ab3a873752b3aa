//! The runtime to which all connections of a test run belong: they outlive the test that opened them, and with it the
//! runtime that the test runs on.

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

/// Runs what opens or uses connections. Dropped early, `work` is dropped too.
pub(super) async fn shared<Work: Future>(work: Work) -> Work::Output {
    // The driver's futures are large.
    Shared(Box::pin(work)).await
}

struct Shared<Work>(Pin<Box<Work>>);

impl<Work: Future> Future for Shared<Work> {
    type Output = Work::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Work::Output> {
        let _entered = SHARED.enter();
        self.0.as_mut().poll(context)
    }
}
