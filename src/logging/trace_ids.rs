//! Formats lines: escapes what others wrote, and adds the trace of the call to the lines that a call writes.

use std::fmt;

use data_encoding::HEXLOWER;
use lease_broker_model::text::{Visible, visible_json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
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

/// The maximum number of characters of one value in a line. A longer one is cut.
const MAX_VALUE: usize = 1_024;

/// Formats the fields of a line for people, with the ids behind them.
#[derive(Default)]
pub(super) struct FieldsWithIds;

/// Writes the fields of a line: the message first, and then the others as `name=value`.
struct LineVisitor<'a, 'writer> {
    out: &'a mut Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl LineVisitor<'_, '_> {
    fn write(&mut self, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_char(' ')?;
        }
        if field.name() != "message" {
            if self.out.has_ansi_escapes() {
                write!(
                    self.out,
                    "\u{1b}[3m{}\u{1b}[0m\u{1b}[2m=\u{1b}[0m",
                    field.name()
                )?;
            } else {
                write!(self.out, "{}=", field.name())?;
            }
        }
        Visible::new(self.out, MAX_VALUE).write(format_args!("{value:?}"))
    }
}

impl Visit for LineVisitor<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.result = self.result.and_then(|()| self.write(field, value));
    }
}

impl<'writer> FormatFields<'writer> for FieldsWithIds {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut visitor = LineVisitor {
            out: &mut writer,
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut visitor);
        visitor.result?;
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
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        let line = visible_json(&line);
        let Some(ids) = Ids::current() else {
            return writer.write_str(&line);
        };
        let object = line.trim_end().strip_suffix('}').ok_or(fmt::Error)?;
        writeln!(
            writer,
            r#"{object},"trace_id":"{}","span_id":"{}"}}"#,
            ids.trace_id, ids.span_id
        )
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::{Layer, SubscriberExt as _};

    use super::super::written_lines::WrittenLines;
    use super::*;

    const NASTY: &str = "a\u{1b}[2J\u{7}\r\nforged\u{9b}\u{202e}\u{200b}";

    /// Writes one line with a hostile text in each kind of field.
    fn line<L: Layer<tracing_subscriber::Registry> + Send + Sync>(
        layer: impl FnOnce(&WrittenLines) -> L,
    ) -> String {
        let lines = WrittenLines::default();
        let subscriber = tracing_subscriber::registry().with(layer(&lines));
        tracing::subscriber::with_default(subscriber, || {
            let long = "x".repeat(5_000);
            tracing::warn!(plain = NASTY, shown = %NASTY, long, "message {NASTY}");
        });
        lines.text()
    }

    #[test]
    fn human_line_has_no_control_character() {
        let line = line(|lines| {
            fmt::layer()
                .with_ansi(false)
                .with_writer(lines.writers())
                .fmt_fields(FieldsWithIds)
        });
        let (line, rest) = line.split_once('\n').expect("a line");
        assert_eq!(rest, "");
        assert!(
            !line.contains(lease_broker_model::text::is_hidden),
            "{line:?}"
        );
        assert!(
            line.contains(r"shown=a\u{1b}[2J\u{7}\u{d}\u{a}forged"),
            "{line}"
        );
        assert!(line.len() < 2_000, "a long value is cut");
    }

    #[test]
    fn json_line_has_no_control_character() {
        let line = line(|lines| {
            let layer = fmt::layer().json().flatten_event(true);
            let layer = layer.with_writer(lines.writers());
            layer.map_event_format(JsonWithIds)
        });
        let (line, rest) = line.split_once('\n').expect("a line");
        assert_eq!(rest, "");
        assert!(
            !line.contains(lease_broker_model::text::is_hidden),
            "{line:?}"
        );
        let fields: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(fields["shown"], NASTY);
    }
}
