//! Finished spans, as the layers report them. Only [`crate::telemetry`] turns them into messages for a collector.
//!
//! A layer that reports a span knows its ids, its start and its end, so a span is one value. Nothing has to be kept
//! between the start and the end.

pub mod attribute;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use lease_broker_model::trace_context::Span;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSpan {
    /// The name, of which there are few, such as `lease rainfall`.
    pub name: Cow<'static, str>,
    /// The role of the span in its trace.
    pub kind: SpanKind,
    /// The identity of the span.
    pub span: Span,
    /// The span id of the parent, which is in the same trace.
    pub parent: Option<u64>,
    /// The start.
    pub start: SystemTime,
    /// The end, not before the start.
    pub end: SystemTime,
    /// `None`: the span has no error. Otherwise a word for the kind of error, which becomes the attribute `error.type`.
    pub error: Option<&'static str>,
    /// The attributes by name.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Spans of this or other traces that have to do with this one.
    pub links: Vec<SpanLink>,
}

/// The role of a span, as OpenTelemetry defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A call that the broker answers.
    Server,
    /// A call to the database.
    Client,
    /// The processing of an item.
    Consumer,
    /// Work of the broker itself.
    Internal,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A text from a fixed list.
    Word(&'static str),
    /// Any other text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// Seconds.
    Seconds(f64),
}

impl AttributeValue {
    /// Returns a number of things.
    pub fn count(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// A reference to another span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanLink {
    /// The other span.
    pub span: Span,
    /// What the other span is to this one. It becomes the attribute `lease_broker.link.kind`.
    pub kind: &'static str,
}

/// Receives finished spans.
pub trait SpanSink: Send + Sync {
    /// Takes a span. Never waits: a span for which there is no room is dropped and counted.
    fn emit(&self, span: FinishedSpan);

    /// Counts a span that was not made, because too many others of its kind were.
    fn leave_out(&self);
}

/// The place to which spans go, if there is one.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<dyn SpanSink>>);

impl Spans {
    /// Sends spans to `sink`.
    pub fn to(sink: Arc<dyn SpanSink>) -> Self {
        Self(Some(sink))
    }

    /// Returns whether spans go anywhere. If not, callers need not make any.
    pub fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Counts a span that was not made, because too many others of its kind were.
    pub fn leave_out(&self) {
        if let Some(sink) = &self.0 {
            sink.leave_out();
        }
    }

    /// Passes a span on, or drops it if no one wants spans.
    pub fn emit(&self, span: FinishedSpan) {
        if let Some(sink) = &self.0 {
            sink.emit(span);
        }
    }
}
