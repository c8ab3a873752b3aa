//! The span of the call that a task serves. Log lines name it, so that a line leads to the trace and back.

use tokio::task::futures::TaskLocalFuture;

use crate::trace_context::Span;

tokio::task_local! {
    static CALL: Option<Span>;
}

/// Runs a future as part of the call with this span. `None`: the call has no span.
pub fn in_call<F: Future>(span: Option<Span>, future: F) -> TaskLocalFuture<Option<Span>, F> {
    CALL.scope(span, future)
}

/// Returns the span of the call that this task serves.
pub fn current() -> Option<Span> {
    CALL.try_with(|span| *span).ok().flatten()
}
