//! The span of the call that a task serves. Log lines name it, so that a line leads to the trace and back.

use std::sync::Arc;

use lease_broker_model::trace_context::Span;
use parking_lot::Mutex;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static CALL: Option<CallTrace>;
}

/// The place of a call in a trace.
#[derive(Clone, Debug)]
pub enum CallTrace {
    /// The call is recorded.
    Recorded(Arc<RecordedCall>),
    /// The call is not recorded. This is its caller's span.
    Caller(Span),
}

/// The span of a recorded call. It is open until the call has been answered.
#[derive(Debug)]
pub struct RecordedCall {
    span: Span,
    statements: Mutex<Vec<Span>>,
}

impl RecordedCall {
    /// Begins the span.
    pub fn new(span: Span) -> Self {
        Self {
            span,
            statements: Mutex::default(),
        }
    }

    /// Returns the identity of the span.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Adds a statement that served the call together with others, and whose span is not a child of the call's.
    pub fn add_statement(&self, statement: Span) {
        let statements = self.statements.lock();
        let mut statements = statements;
        statements.push(statement);
    }

    /// Takes the statements that were added.
    pub fn take_statements(&self) -> Vec<Span> {
        let mut statements = self.statements.lock();
        std::mem::take(&mut *statements)
    }
}

/// Runs a future as part of a call. `None`: nothing is known about the call's trace.
pub fn in_call<F: Future>(
    call: Option<CallTrace>,
    future: F,
) -> TaskLocalFuture<Option<CallTrace>, F> {
    CALL.scope(call, future)
}

/// Returns the span that the log names: that of the call, or its caller's.
pub fn current() -> Option<Span> {
    let span = |call: &CallTrace| match call {
        CallTrace::Recorded(call) => call.span,
        CallTrace::Caller(span) => *span,
    };
    CALL.try_with(|call| call.as_ref().map(span)).ok().flatten()
}
