//! Makes a span of each call that is recorded, and tells the log which span a call has.
//!
//! The parent of the span is the caller's, from the header `traceparent`. A claim that returns no lease is not recorded:
//! workers that wait would fill a trace view with calls in which nothing happened.

use std::sync::Arc;
use std::time::SystemTime;

use lease_broker_model::sampling::Sampler;
use lease_broker_model::trace_context::{Span, TraceContext};
use tonic::{Code, Status};

use super::call_metrics::{CallMetrics, code_index, code_name, error_type};
use crate::call_trace::{CallTrace, RecordedCall};
use crate::security::Rpc;
use crate::span::attribute;
use crate::span::{AttributeValue, FinishedSpan, SpanKind, SpanLink, Spans};

/// Marks a response of a claim without leases, as an extension.
#[derive(Clone, Copy)]
pub(super) struct NoLeases;

/// Decides which calls have a span, and begins it.
pub(super) struct CallSpans {
    spans: Spans,
    sampler: Sampler,
    /// The names of the API's methods, and last the name of all others.
    methods: Vec<String>,
}

impl CallSpans {
    pub(super) fn new(spans: Spans, sampler: Sampler) -> Self {
        Self {
            spans,
            sampler,
            methods: CallMetrics::method_names(),
        }
    }

    /// Begins the span of a call, unless the call is not recorded. Returns the place of the call in a trace too, if it has one.
    pub(super) fn begin<B>(
        &self,
        rpc: Option<Rpc>,
        request: &mut http::Request<B>,
    ) -> (Option<Recording>, Option<CallTrace>) {
        let parent = request.headers().get("traceparent");
        let parent = parent.and_then(|text| TraceContext::parse(text.to_str().ok()?));
        let Some(recording) = self.record(rpc, parent) else {
            return (None, parent.map(|parent| CallTrace::Caller(parent.span)));
        };
        let call = &recording.call;
        request.extensions_mut().insert(call.clone());
        let trace = CallTrace::Recorded(call.clone());
        (Some(recording), Some(trace))
    }

    fn record(&self, rpc: Option<Rpc>, parent: Option<TraceContext>) -> Option<Recording> {
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

impl Recording {
    /// Ends the span. Only a failed call has its status in the headers of the response.
    pub(super) fn end<B>(mut self, response: &http::Response<B>) {
        let status = Status::from_header_map(response.headers());
        let has_no_leases = response.extensions().get::<NoLeases>().is_some();
        self.code = (!has_no_leases).then(|| status.map_or(Code::Ok, |status| status.code()));
    }

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
