//! Prints results: a table for people, JSON lines for scripts.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value as Json, json};

use crate::grpc::proto::{self, value::Kind};
use crate::value::{hex, rfc3339};

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// A table.
    Table,
    /// One JSON object a line.
    Json,
}

impl OutputFormat {
    /// Prints rows that all have the same fields; `nothing` is said, in a table's place, where there are none.
    pub(super) fn print(self, rows: &[Map<String, Json>], nothing: &str) {
        match self {
            Self::Json => {
                for row in rows {
                    write_line(&Json::Object(row.clone()).to_string());
                }
            }
            Self::Table if rows.is_empty() => write_line(nothing),
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

/// Returns an empty table of the look that all of them have.
pub(super) fn table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Lets every column begin where its header does.
pub(super) fn align_left(table: &mut Table) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
}

/// Prints a formatted line to standard output.
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::cli::output::write_line(&format!($($text)*))
    };
}
pub(super) use print_line;

/// Writes a line; a reader that has gone away, such as `head`, has seen enough.
pub(super) fn write_line(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn cell_text(value: &Json) -> String {
    match value {
        Json::Null => "-".to_owned(),
        Json::String(text) => text.clone(),
        Json::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{name}={}", cell_text(value)))
                .collect();
            fields.join(" ")
        }
        other => other.to_string(),
    }
}

/// Turns a column's value into JSON: bytes as hexadecimal, moments as text, decimals as text.
pub(super) fn json_value(value: &proto::Value) -> Json {
    match &value.kind {
        None => Json::Null,
        Some(Kind::BoolValue(bool)) => json!(bool),
        Some(Kind::Int64Value(int)) => json!(int),
        Some(Kind::DoubleValue(double)) => json!(double),
        Some(Kind::StringValue(text) | Kind::DecimalValue(text)) => json!(text),
        Some(Kind::BytesValue(bytes)) => json!(hex(bytes)),
        Some(Kind::TimestampValue(moment)) => json!(rfc3339(moment.seconds, moment.nanos)),
    }
}

/// Writes how long something lasts, to the millisecond.
pub(super) fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}

/// The same for a duration of the API.
pub(super) fn json_duration(duration: Option<prost_types::Duration>) -> Json {
    let duration = duration.and_then(|duration| Duration::try_from(duration).ok());
    duration.map_or(Json::Null, |duration| json!(format_duration(duration)))
}
