//! Makes a span of each call that is recorded, and tells the log which span a call has.
//!
//! The parent of the span is the caller's, from the header `traceparent`. A claim that returns no lease is not recorded:
//! workers that wait would fill a trace view with calls in which nothing happened.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use lease_broker_model::sampling::Sampler;
use lease_broker_model::trace_context::{Span, TraceContext};
use tokio::task::futures::TaskLocalFuture;
use tonic::{Code, Status};
use tower::Service;

use super::answered::{AnsweredFuture, RunningCall};
use super::call_metrics::{CallMetrics, code_index, code_name, error_type};
use crate::call_trace::{self, CallTrace, RecordedCall};
use crate::security::Rpc;
use crate::span::attribute;
use crate::span::{AttributeValue, FinishedSpan, SpanKind, SpanLink, Spans};

/// Marks a response of a claim without leases, as an extension.
#[derive(Clone, Copy)]
pub(super) struct NoLeases;

/// A service whose calls have spans.
#[derive(Clone)]
pub(super) struct TracedService<S> {
    pub(super) inner: S,
    pub(super) spans: CallSpans,
}

/// Decides which calls have a span, and begins it.
#[derive(Clone)]
pub(super) struct CallSpans {
    spans: Spans,
    sampler: Sampler,
    /// The names of the API's methods, and last the name of all others.
    methods: Arc<[String]>,
}

impl CallSpans {
    pub(super) fn new(spans: Spans, sampler: Sampler) -> Self {
        Self {
            spans,
            sampler,
            methods: CallMetrics::method_names().into(),
        }
    }

    /// Begins the span of a call. `None`: the call is not recorded.
    fn begin(&self, parent: Option<TraceContext>, rpc: Option<Rpc>) -> Option<Recording> {
        if !self.spans.are_wanted() {
            return None;
        }
        let trace_id = match parent {
            Some(parent) => parent.span.trace_id,
            None => Span::random().trace_id,
        };
        if !self.sampler.samples(parent, trace_id) {
            return None;
        }
        let name = rpc.and_then(|rpc| self.methods.get(rpc as usize));
        Some(Recording {
            spans: self.spans.clone(),
            method: name.or(self.methods.last()).cloned().unwrap_or_default(),
            call: Arc::new(RecordedCall::new(Span::random_in(trace_id))),
            parent: parent.map(|parent| parent.span.span_id),
            start: SystemTime::now(),
            code: Some(Code::Cancelled),
        })
    }
}

impl<S, B, R> Service<http::Request<B>> for TracedService<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>>,
{
    type Response = http::Response<R>;
    type Error = S::Error;
    type Future = AnsweredFuture<TaskLocalFuture<Option<CallTrace>, S::Future>, Recording>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let parent = request.headers().get("traceparent");
        let parent = parent.and_then(|text| TraceContext::parse(text.to_str().ok()?));
        let recording = self
            .spans
            .begin(parent, request.extensions().get::<Rpc>().copied());
        let call = match &recording {
            Some(recording) => {
                request.extensions_mut().insert(recording.call.clone());
                Some(CallTrace::Recorded(recording.call.clone()))
            }
            None => parent.map(|parent| CallTrace::Caller(parent.span)),
        };
        let response = call_trace::in_call(call, self.inner.call(request));
        AnsweredFuture::new(response, recording)
    }
}

/// The span of a running call. When it is dropped before its response, the call was cancelled by its caller.
pub(super) struct Recording {
    spans: Spans,
    method: String,
    call: Arc<RecordedCall>,
    parent: Option<u64>,
    start: SystemTime,
    /// The result. `None`: the span is not reported.
    code: Option<Code>,
}

impl RunningCall for Recording {
    /// Ends the span. Only a failed call has its status in the headers of the response.
    fn end<B>(mut self, response: &http::Response<B>) {
        let status = Status::from_header_map(response.headers());
        let has_no_leases = response.extensions().get::<NoLeases>().is_some();
        self.code = (!has_no_leases).then(|| status.map_or(Code::Ok, |status| status.code()));
    }
}

impl Recording {
    /// Returns links to the statements that served this call and whose spans are children of other calls.
    fn links(&self) -> Vec<SpanLink> {
        let statements = self.call.take_statements().into_iter();
        let link = |span| SpanLink {
            span,
            kind: "statement",
        };
        statements.map(link).collect()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Some(code) = self.code else {
            return;
        };
        let method = std::mem::take(&mut self.method);
        self.spans.emit(FinishedSpan {
            name: method.clone().into(),
            kind: SpanKind::Server,
            span: self.call.span(),
            parent: self.parent,
            start: self.start,
            end: SystemTime::now(),
            error: error_type(code_index(code)),
            attributes: vec![
                (attribute::RPC_SYSTEM_NAME, AttributeValue::Word("grpc")),
                (attribute::RPC_METHOD, AttributeValue::Text(method)),
                (
                    attribute::RPC_RESPONSE_STATUS_CODE,
                    AttributeValue::Word(code_name(code)),
                ),
            ],
            links: self.links(),
        });
    }
}
