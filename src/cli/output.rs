//! Output of commands on standard output: tables for people, JSON lines for scripts.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value as Json, json};

use crate::grpc::proto::{self, value::Kind};
use crate::text;
use crate::value::{hex, rfc3339};

/// Format of the results of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// A table.
    Table,
    /// One JSON object per line.
    Json,
}

impl OutputFormat {
    /// Prints rows, which must all have the same fields. If there are no rows, prints `empty_text` instead of a table,
    /// and no line of JSON.
    pub(super) fn print(self, rows: &[Map<String, Json>], empty_text: &str) {
        match self {
            Self::Json => {
                for row in rows {
                    write_line(&text::visible_json(&Json::Object(row.clone()).to_string()));
                }
            }
            Self::Table if rows.is_empty() => write_line(empty_text),
            Self::Table => {
                let mut table = table();
                table.set_header(rows[0].keys());
                for row in rows {
                    table.add_row(row.values().map(cell_text));
                }
                align_left(&mut table);
                write_line(&table.trim_fmt());
            }
        }
    }
}

/// Returns an empty table without borders, the style of every table here.
pub(super) fn table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Aligns the cells of each column with its header.
pub(super) fn align_left(table: &mut Table) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
}

/// Prints a formatted line to standard output. Unlike `println!`, it does not panic if the reader has closed the pipe.
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::cli::output::write_line(&format!($($text)*))
    };
}
pub(super) use print_line;

/// Writes a line to standard output, or several. Ignores errors, because a reader such as `head` may close the pipe early.
///
/// Characters that a terminal would act on are escaped, except for the ends of lines.
pub(super) fn write_line(text: &str) {
    let _ = writeln!(io::stdout(), "{}", text::visible_lines(text));
}

fn cell_text(value: &Json) -> String {
    match value {
        Json::Null => "-".to_owned(),
        Json::String(text) => text::cell(text).into_owned(),
        Json::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}={}", text::cell(name), cell_text(value)))
                .collect();
            fields.join(" ")
        }
        other => other.to_string(),
    }
}

/// Converts a column value to JSON. Bytes become hexadecimal text, timestamps RFC 3339 text, and decimals text.
pub(super) fn json_value(value: &proto::Value) -> Json {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(bool)) => json!(bool),
        Some(Kind::Int64Value(int)) => json!(int),
        Some(Kind::DoubleValue(double)) => json!(double),
        Some(Kind::StringValue(text) | Kind::DecimalValue(text)) => json!(text),
        Some(Kind::BytesValue(bytes)) => json!(hex(bytes)),
        Some(Kind::TimestampValue(moment)) => json!(rfc3339(moment.seconds, moment.nanos)),
    }
}

/// Returns a count with its noun, such as `1 item` or `2 items`.
pub(super) fn plural(count: u64, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// Formats a duration with a precision of one millisecond, such as `1m 30s`.
pub(super) fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}

/// Formats a duration of the API as a JSON string. Absent or negative durations become null.
pub(super) fn json_duration(duration: Option<prost_types::Duration>) -> Json {
    let duration = duration.and_then(|duration| Duration::try_from(duration).ok());
    duration.map_or(Json::Null, |duration| json!(format_duration(duration)))
}
