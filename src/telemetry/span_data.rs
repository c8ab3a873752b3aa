//! Turns finished spans into the values that the exporter takes.

use lease_broker_model::trace_context::Span;
use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind as OtelKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::span::attribute;
use crate::span::{AttributeValue, FinishedSpan, SpanKind};

/// Returns the span for the exporter. It adds the attribute `error.type` to a span with an error.
pub(super) fn span_data(span: FinishedSpan) -> SpanData {
    let mut attributes: Vec<KeyValue> = span
        .attributes
        .into_iter()
        .map(|(name, value)| KeyValue::new(name, otel_value(value)))
        .collect();
    attributes.extend(
        span.error
            .map(|error| KeyValue::new(attribute::ERROR_TYPE, error)),
    );
    let mut links = SpanLinks::default();
    links.links = span
        .links
        .into_iter()
        .map(|link| {
            let kind = KeyValue::new(attribute::LINK_KIND, link.kind);
            Link::new(context_of(link.span), vec![kind], 0)
        })
        .collect();
    SpanData {
        span_context: context_of(span.span),
        parent_span_id: span.parent.map_or(SpanId::INVALID, SpanId::from),
        parent_span_is_remote: span.parent.is_some(),
        span_kind: match span.kind {
            SpanKind::Server => OtelKind::Server,
            SpanKind::Client => OtelKind::Client,
            SpanKind::Consumer => OtelKind::Consumer,
            SpanKind::Internal => OtelKind::Internal,
        },
        name: span.name,
        start_time: span.start,
        end_time: span.end.max(span.start),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: match span.error {
            Some(error) => Status::error(error),
            None => Status::Unset,
        },
        instrumentation_scope: scope(),
    }
}

/// Describes the source of the spans and metrics: this program, with names of this version of the conventions.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(attribute::SCHEMA_URL)
        .build()
}

fn context_of(span: Span) -> SpanContext {
    SpanContext::new(
        TraceId::from(span.trace_id),
        SpanId::from(span.span_id),
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    )
}

fn otel_value(value: AttributeValue) -> Value {
    match value {
        AttributeValue::Word(word) => word.into(),
        AttributeValue::Text(text) => text.into(),
        AttributeValue::Number(number) => number.into(),
        AttributeValue::Seconds(seconds) => seconds.into(),
    }
}
