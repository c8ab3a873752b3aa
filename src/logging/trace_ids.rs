//! Adds the trace of the call to the lines that a call writes.

use std::fmt;

use data_encoding::HEXLOWER;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use crate::call_trace;

/// The ids of a call's span, as text.
struct Ids {
    trace_id: String,
    span_id: String,
}

impl Ids {
    /// Returns the ids of the call that this task serves.
    fn current() -> Option<Self> {
        let span = call_trace::current()?;
        Some(Self {
            trace_id: HEXLOWER.encode(&span.trace_id.to_be_bytes()),
            span_id: HEXLOWER.encode(&span.span_id.to_be_bytes()),
        })
    }
}

/// Formats the fields of a line for people, with the ids behind them.
#[derive(Default)]
pub(super) struct FieldsWithIds(DefaultFields);

impl<'writer> FormatFields<'writer> for FieldsWithIds {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        self.0.format_fields(writer.by_ref(), fields)?;
        match Ids::current() {
            Some(ids) => write!(writer, " trace_id={} span_id={}", ids.trace_id, ids.span_id),
            None => Ok(()),
        }
    }
}

/// Formats a line as a JSON object, with the ids as its last fields.
pub(super) struct JsonWithIds<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for JsonWithIds<F>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(ids) = Ids::current() else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        let object = line.trim_end().strip_suffix('}').ok_or(fmt::Error)?;
        writeln!(
            writer,
            r#"{object},"trace_id":"{}","span_id":"{}"}}"#,
            ids.trace_id, ids.span_id
        )
    }
}
