//! The spans of store operations that serve recorded calls.
//!
//! One operation serves many calls. Its span is a child of the first recorded one, and is linked with the others in both
//! directions.

use std::sync::Arc;
use std::time::SystemTime;

use lease_broker_model::trace_context::Span;
use lease_broker_store::{Database, StoreError};

use super::operation_metrics::Operation;
use crate::call_trace::RecordedCall;
use crate::span::attribute;
use crate::span::{AttributeValue, FinishedSpan, SpanKind, SpanLink, Spans};

/// The largest number of links of one span.
const MAX_LINKS: usize = 32;

/// Makes the spans of the operations on one queue.
#[derive(Clone)]
pub(super) struct QueueSpans {
    pub(super) spans: Spans,
    /// The name of the kind of database, as OpenTelemetry's conventions have it.
    pub(super) system: &'static str,
    /// The queue's name.
    pub(super) queue: Arc<str>,
    /// The queue's table.
    pub(super) table: Arc<str>,
    /// The database of the table.
    pub(super) database: Arc<Database>,
}

impl QueueSpans {
    /// Makes no spans.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self {
            spans: Spans::default(),
            system: "",
            queue: "".into(),
            table: "".into(),
            database: Arc::default(),
        }
    }

    /// Returns the attributes that say which table of which database an operation worked on.
    fn place(&self) -> impl Iterator<Item = (&'static str, AttributeValue)> {
        let Database {
            namespace,
            address,
            port,
        } = &*self.database;
        let text = |text: &str| AttributeValue::Text(text.to_owned());
        let port = port.map(|port| AttributeValue::Number(port.into()));
        [
            (attribute::DB_COLLECTION_NAME, Some(text(&self.table))),
            (attribute::DB_NAMESPACE, namespace.as_deref().map(text)),
            (attribute::SERVER_ADDRESS, address.as_deref().map(text)),
            (attribute::SERVER_PORT, port),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// Returns the maker of the spans of one kind of operation.
    pub(super) fn of(&self, operation: Operation) -> StatementSpans {
        StatementSpans {
            queue: self.clone(),
            operation,
        }
    }
}

/// Makes the spans of one kind of operation on one queue.
pub(super) struct StatementSpans {
    queue: QueueSpans,
    operation: Operation,
}

impl StatementSpans {
    /// Reports an operation that has ended now. `calls`: for each call that it served, the call if it is recorded.
    pub(super) fn report<T>(
        &self,
        calls: impl Iterator<Item = Option<Arc<RecordedCall>>>,
        items: usize,
        start: SystemTime,
        outcome: &Result<T, StoreError>,
    ) {
        if !self.queue.spans.are_wanted() {
            return;
        }
        let (mut count, mut recorded) = (0_i64, Vec::new());
        for call in calls {
            count += 1;
            recorded.extend(call);
        }
        let Some((first, others)) = recorded.split_first() else {
            return;
        };
        let span = Span::random_in(first.span().trace_id);
        let mut attributes = vec![
            (
                attribute::DB_SYSTEM_NAME,
                AttributeValue::Word(self.queue.system),
            ),
            (
                attribute::DB_OPERATION_NAME,
                AttributeValue::Word(self.operation.name()),
            ),
            (
                attribute::DB_OPERATION_BATCH_SIZE,
                AttributeValue::count(items),
            ),
            (attribute::STATEMENT_CALLS, AttributeValue::Number(count)),
        ];
        attributes.extend(self.queue.place());
        if let Some(left_out) = others.len().checked_sub(MAX_LINKS).filter(|left| *left > 0) {
            attributes.push((attribute::LINK_LEFT_OUT, AttributeValue::count(left_out)));
        }
        for other in others {
            other.add_statement(span);
        }
        self.queue.spans.emit(FinishedSpan {
            name: format!("{} {}", self.operation.name(), self.queue.queue).into(),
            kind: SpanKind::Client,
            span,
            parent: Some(first.span().span_id),
            start,
            end: SystemTime::now(),
            error: outcome.as_ref().err().map(StoreError::kind),
            attributes,
            links: others.iter().take(MAX_LINKS).map(link_to).collect(),
        });
    }
}

fn link_to(call: &Arc<RecordedCall>) -> SpanLink {
    SpanLink {
        span: call.span(),
        kind: "call",
    }
}
