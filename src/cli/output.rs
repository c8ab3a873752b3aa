//! Output of commands on standard output: tables for people, JSON lines and CSV for scripts.

mod fit;

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use lease_broker_client::Value;
use lease_broker_model::key::{hex, rfc3339, rfc3339_of_millis};
use lease_broker_model::text;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value as Json, json};

use super::CommandError;

/// The first error of a write to standard output.
static WRITE_ERROR: OnceLock<io::Error> = OnceLock::new();

/// Format of the results of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// A table, for people.
    Table,
    /// One JSON object per line.
    Json,
    /// Values with commas between them. The first line has the names.
    Csv,
}

impl OutputFormat {
    /// Prints rows, which must all have the same fields. If there are no rows, prints `empty_text` instead of a table,
    /// and no line of JSON or CSV.
    pub(super) fn print(self, rows: &[Row], empty_text: &str) {
        if rows.is_empty() && self == Self::Table {
            write_line(empty_text);
        } else {
            self.print_page(rows, true);
        }
    }

    /// Prints the next rows of a long result. Each page of a table has its own header, and widths that fit its rows.
    pub(super) fn print_page(self, rows: &[Row], is_first: bool) {
        let Some(first) = rows.first() else {
            return;
        };
        match self {
            Self::Json => {
                for row in rows {
                    write_line(&text::visible_json(
                        &Json::Object(row.data.clone()).to_string(),
                    ));
                }
            }
            Self::Csv => {
                let header = is_first.then(|| first.data.keys().cloned().collect());
                let rows = rows.iter();
                let rows = rows.map(|row| row.data.values().map(csv_text).collect());
                write_line(csv_lines(header.into_iter().chain(rows)).trim_end());
            }
            Self::Table => write_line(&Self::table_text(rows)),
        }
    }

    /// Returns the table of rows. On a terminal it is as wide as the terminal at most, and the widest columns are cut.
    pub(super) fn table_text(rows: &[Row]) -> String {
        let mut lines: Vec<Vec<&str>> = Vec::with_capacity(rows.len() + 1);
        if let Some(first) = rows.first() {
            lines.push(first.shown.iter().map(|(name, _)| &**name).collect());
        }
        for row in rows {
            lines.push(row.shown.iter().map(|(_, text)| &**text).collect());
        }
        let widths = terminal_size().map(|(width, _)| fit::column_widths(&lines, width));
        let mut table = table();
        for line in lines {
            let cells = line.into_iter().enumerate();
            table.add_row(cells.map(|(column, text)| match &widths {
                None => Cow::Borrowed(text),
                Some(widths) => fit::cut(text, widths[column]),
            }));
        }
        align_left(&mut table);
        text::visible_lines(&table.trim_fmt()).into_owned()
    }

    /// Prints one record. A table shows it as a line per field.
    pub(super) fn print_record(self, row: &Row) {
        if self != Self::Table {
            return self.print(std::slice::from_ref(row), "");
        }
        let mut table = table();
        for (name, text) in &row.shown {
            table.add_row([name, text]);
        }
        align_left(&mut table);
        write_line(&table.trim_fmt());
    }

    /// Prints a result. For people it is a sentence.
    pub(super) fn print_result(self, sentence: &str, row: &Row) {
        match self {
            Self::Table => write_line(sentence),
            format => format.print(std::slice::from_ref(row), ""),
        }
    }

    /// Prints one row of a list that grows. In place of a table it is a line of names and values. `is_first`: CSV needs the header.
    pub(super) fn print_line(self, row: &Row, is_first: bool) {
        if self != Self::Table {
            return self.print_page(std::slice::from_ref(row), is_first);
        }
        let fields = row
            .shown
            .iter()
            .map(|(name, text)| format!("{name}={text}"));
        write_line(&fields.collect::<Vec<_>>().join("  "));
    }
}

/// Returns the width and height of the terminal on standard output. `None`: it is no terminal, or its size is unknown.
pub(super) fn terminal_size() -> Option<(usize, usize)> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (width, height) = ratatui::crossterm::terminal::size().ok()?;
    (width > 0 && height > 0).then(|| (width.into(), height.into()))
}

/// One row of a result: the texts that a table shows, and the values that programs get as JSON or CSV.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    shown: Vec<(String, String)>,
    data: Map<String, Json>,
}

impl Row {
    /// Adds a field that is the same in every format.
    pub(super) fn field(self, name: &str, value: impl Into<Json>) -> Self {
        let value = value.into();
        self.shown(name, cell_text(&value)).data(name, value)
    }

    /// Adds a field that is the same in every format, before the others.
    pub(super) fn first(mut self, name: &str, value: impl Into<Json>) -> Self {
        let value = value.into();
        self.shown.insert(0, (name.to_owned(), cell_text(&value)));
        self.data.shift_insert(0, name.to_owned(), value);
        self
    }

    /// Adds the key of an item or of a group.
    pub(super) fn key(self, key: &str) -> Self {
        let shown = text::key_cell(key);
        self.shown("key", shown).data("key", key)
    }

    /// Adds a duration. A table shows it as `1m 30s`. Programs get a number of seconds, with `_seconds` after the name.
    pub(super) fn duration(self, name: &str, duration: Option<Duration>) -> Self {
        self.shown_duration(name, duration)
            .data_duration(name, duration)
    }

    /// Adds a duration that only a table has.
    pub(super) fn shown_duration(self, name: &str, duration: Option<Duration>) -> Self {
        let shown = duration.map_or("-".to_owned(), short_duration);
        self.shown(name, shown)
    }

    /// Adds a duration that only programs get.
    pub(super) fn data_duration(self, name: &str, duration: Option<Duration>) -> Self {
        self.data(&format!("{name}_seconds"), seconds(duration))
    }

    /// Adds a field that only a table has.
    pub(super) fn shown(mut self, name: &str, text: impl Into<String>) -> Self {
        self.shown.push((name.to_owned(), text.into()));
        self
    }

    /// Adds a value that only a table has.
    pub(super) fn shown_value(self, name: &str, value: &Json) -> Self {
        self.shown(name, cell_text(value))
    }

    /// Returns the text that a table shows for a field. Empty: the row has no such field.
    pub(super) fn text(&self, name: &str) -> &str {
        let mut shown = self.shown.iter();
        let found = shown.find(|(field, _)| field == name);
        found.map_or("", |(_, text)| text)
    }

    /// Adds a field that only programs get.
    pub(super) fn data(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }
}

/// Returns a duration as a number of seconds, to the millisecond; null for `None`.
pub(super) fn seconds(duration: Option<Duration>) -> Json {
    // A sum of seconds and a fraction, as `Duration` makes it, can have more decimal places.
    #[expect(
        clippy::cast_precision_loss,
        reason = "2^53 milliseconds are 285,000 years"
    )]
    let whole_millis = |duration: Duration| duration.as_millis() as f64 / 1_000.0;
    json!(duration.map(whole_millis))
}

/// Returns a moment of the store as RFC 3339 text; null for `None`. `millis`: milliseconds since 1970.
pub(super) fn moment(millis: Option<i64>) -> Json {
    json!(millis.map(rfc3339_of_millis))
}

/// Returns a moment of the API like [`moment`].
pub(super) fn proto_moment(moment: Option<prost_types::Timestamp>) -> Json {
    json!(moment.map(|moment| rfc3339(moment.seconds, moment.nanos)))
}

/// Returns a duration of the API. An absent or negative duration is `None`.
pub(super) fn std_duration(duration: Option<prost_types::Duration>) -> Option<Duration> {
    duration.and_then(|duration| Duration::try_from(duration).ok())
}

/// Returns the text of a value in CSV: no text for null, and a list with spaces between its values.
fn csv_text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text::cell(text).into_owned(),
        Json::Array(values) => {
            let values: Vec<String> = values.iter().map(csv_text).collect();
            values.join(" ")
        }
        Json::Object(_) => text::visible_json(&value.to_string()).into_owned(),
        other => other.to_string(),
    }
}

fn csv_lines(records: impl Iterator<Item = Vec<String>>) -> String {
    let mut lines = csv::Writer::from_writer(Vec::new());
    for record in records {
        // A write to memory cannot fail.
        let _ = lines.write_record(record);
    }
    let lines = lines.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&lines).into_owned()
}

/// Returns an empty table without borders, the style of every table here.
pub fn table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Aligns the cells of each column with its header.
pub fn align_left(table: &mut Table) {
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

/// Writes a line to standard output, or several. An error is kept, and reported at the end of the program.
///
/// Characters that a terminal would act on are escaped, except for the ends of lines.
pub fn write_line(text: &str) {
    if let Err(error) = writeln!(io::stdout(), "{}", text::visible_lines(text)) {
        let _ = WRITE_ERROR.set(error);
    }
}

/// Writes a line that another program has printed to standard output. An error is kept as by [`write_line`].
pub(super) fn pass_line_on(line: &[u8]) {
    if let Err(error) = pass_on(io::stdout(), line) {
        let _ = WRITE_ERROR.set(error);
    }
}

/// Writes a line that another program has printed to standard error. Ignores errors: the reader may have ended.
pub(super) fn pass_error_line_on(line: &[u8]) {
    let _ = pass_on(io::stderr(), line);
}

/// Writes a line of another program. Characters on which a terminal would act are escaped only for a terminal.
fn pass_on(mut stream: impl io::Write + io::IsTerminal, line: &[u8]) -> io::Result<()> {
    if stream.is_terminal() {
        let line = String::from_utf8_lossy(line);
        return writeln!(stream, "{}", text::visible_lines(&line));
    }
    stream.write_all(&[line, b"\n"].concat())
}

/// Checks that all output was written. A reader such as `head` may close the pipe early.
///
/// # Errors
/// A part of the output is missing.
pub(super) fn check_written() -> Result<(), CommandError> {
    match WRITE_ERROR.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(CommandError::io(format!(
            "the output is incomplete: standard output cannot be written: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Returns whether more can be written to standard output: every write has succeeded, and a reader has not closed the pipe.
pub(super) fn can_write() -> bool {
    WRITE_ERROR.get().is_none() && !is_closed()
}

/// Returns whether the reader of standard output has closed the pipe. Then nothing more can be written.
fn is_closed() -> bool {
    let out = io::stdout();
    let mut watched = [PollFd::new(&out, PollFlags::empty())];
    let is_ready = poll(&mut watched, Some(&Timespec::default())).is_ok();
    is_ready && watched[0].revents().contains(PollFlags::ERR)
}

/// Writes a line to standard error, for a remark that is not part of the result.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "lease-broker: {}", text::visible_lines(text));
}

fn cell_text(value: &Json) -> String {
    match value {
        Json::Null => "-".to_owned(),
        Json::String(text) => text::cell(text).into_owned(),
        Json::Array(values) => {
            let values: Vec<String> = values.iter().map(cell_text).collect();
            values.join(" ")
        }
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

/// Converts a column value to JSON. Bytes become hexadecimal text, timestamps RFC 3339 text, and decimals text. JSON has no infinite
/// numbers, so they become text as in the JSON of protocol buffers.
pub(super) fn json_value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(bool) => json!(bool),
        Value::Int(int) => json!(int),
        Value::Double(f64::INFINITY) => json!("Infinity"),
        Value::Double(f64::NEG_INFINITY) => json!("-Infinity"),
        Value::Double(double) => json!(double),
        Value::Text(text) | Value::Decimal(text) => json!(text),
        Value::Bytes(bytes) => json!(hex(bytes)),
        Value::Timestamp { seconds, nanos } => json!(rfc3339(*seconds, *nanos)),
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

/// Formats a duration for a table: its two largest units, without milliseconds from one second on.
pub(super) fn short_duration(duration: Duration) -> String {
    let whole = match duration.as_secs() {
        0 => duration,
        seconds => Duration::from_secs(seconds),
    };
    let text = format_duration(whole);
    let units: Vec<&str> = text.split(' ').take(2).collect();
    units.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_number_is_not_null() {
        let texts =
            [f64::INFINITY, f64::NEG_INFINITY].map(|double| json_value(&Value::Double(double)));
        assert_eq!(texts, [json!("Infinity"), json!("-Infinity")]);
        assert_eq!(json_value(&Value::Double(0.5)), json!(0.5));
    }

    #[test]
    fn seconds_have_three_decimal_places() {
        let text = |micros| seconds(Some(Duration::from_micros(micros))).to_string();
        assert_eq!(text(1_805_000), "1.805");
        assert_eq!(text(59_989_999), "59.989");
    }
}
