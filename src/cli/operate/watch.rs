//! Shows a list again and again: on a terminal in place, in a pipe a line for each change.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _, stdout};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lease_broker_model::key::rfc3339;
use tokio::time::sleep;

use crate::cli::CommandError;
use crate::cli::output::{OutputFormat, Row, can_write, note, terminal_size};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// One thing of a list.
pub(super) struct Entry {
    /// Its name, which is unique in the list.
    pub(super) name: String,
    /// A text that changes when the entry does.
    pub(super) fingerprint: String,
    /// Its row.
    pub(super) row: Row,
}

/// The list at a moment.
pub(super) struct Look {
    /// The entries.
    pub(super) entries: Vec<Entry>,
    /// True: the list does not change any more.
    pub(super) is_over: bool,
}

/// Shows the list until it is over, or until the output cannot be written any more. While the service cannot be reached, says so and tries again.
///
/// # Errors
/// The first error of `look`, except an outage after the first look.
pub(super) async fn watch(
    output: OutputFormat,
    empty: &str,
    mut look: impl AsyncFnMut() -> Result<Look, CommandError>,
) -> Result<(), CommandError> {
    let is_screen = output == OutputFormat::Table && stdout().is_terminal();
    let mut changes = Changes::default();
    let mut found = look().await?;
    let mut is_outage = false;
    loop {
        if is_screen {
            draw(&found, empty);
        } else {
            changes.print(output, &found);
        }
        if found.is_over {
            return Ok(());
        }
        found = loop {
            sleep(INTERVAL).await;
            if !can_write() {
                return Ok(());
            }
            match look().await {
                Ok(found) => break found,
                Err(error) if error.is_outage() => {
                    if !std::mem::replace(&mut is_outage, true) {
                        note(&format!("{error}; trying again"));
                    }
                }
                Err(error) => return Err(error),
            }
        };
        is_outage = false;
    }
}

/// Draws the list at the top of the terminal.
fn draw(found: &Look, empty: &str) {
    let rows: Vec<Row> = found
        .entries
        .iter()
        .map(|entry| entry.row.clone())
        .collect();
    let table = match &rows[..] {
        [] => empty.to_owned(),
        rows => OutputFormat::table_text(rows),
    };
    let height = terminal_size().map_or(usize::MAX, |(_, height)| height);
    let mut screen = String::from("\u{1b}[H");
    let lines = table.lines().take(height.saturating_sub(2));
    for line in std::iter::once(&*format!("{}   Ctrl-C ends", now())).chain(lines) {
        screen.push_str(line);
        // Erases the rest of the line.
        screen.push_str("\u{1b}[K\r\n");
    }
    screen.push_str("\u{1b}[J");
    let mut out = stdout().lock();
    let _ = out.write_all(screen.as_bytes());
    let _ = out.flush();
}

/// The entries that were printed last.
#[derive(Default)]
struct Changes {
    printed: HashMap<String, String>,
    has_header: bool,
}

impl Changes {
    /// Prints a line for each entry that has changed.
    fn print(&mut self, output: OutputFormat, found: &Look) {
        let time = now();
        for entry in &found.entries {
            if self.printed.get(&entry.name) == Some(&entry.fingerprint) {
                continue;
            }
            let printed = (entry.name.clone(), entry.fingerprint.clone());
            self.printed.extend([printed]);
            let row = entry.row.clone().first("time", &*time);
            output.print_line(&row, !std::mem::replace(&mut self.has_header, true));
        }
    }
}

/// Returns the time of this host.
fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.unwrap_or_default().as_secs();
    rfc3339(i64::try_from(seconds).unwrap_or(i64::MAX), 0)
}
