//! A worker's journal: a file in which a demo worker records every step of its work, one JSON object per line.
//!
//! A worker writes an entry before its next step. So the journal of a worker that was stopped or killed shows how far
//! the worker had come.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::CommandError;

/// One step of a worker with one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The item's key.
    pub(super) key: String,
    pub(super) action: Action,
    /// The row that the item is the result of, only for [`Action::Moved`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) event_id: Option<String>,
}

/// The steps of a worker, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    /// The worker received a lease of the item.
    Claimed,
    /// The transfer worker wrote the result to its destination.
    Moved,
    /// The worker is about to send the completion.
    Completing,
    /// The broker applied the completion.
    Completed,
    /// The broker refused the completion because the lease was lost.
    Lost,
}

/// A journal that is open for writing.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens a journal for appending. Creates the file if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(|error| failed(path, &error))?,
        })
    }

    /// Records the same action for several items.
    pub(super) fn write(
        &mut self,
        action: Action,
        keys: impl Iterator<Item = String>,
    ) -> Result<(), CommandError> {
        self.append(keys.map(|key| Entry {
            key,
            action,
            event_id: None,
        }))
    }

    /// Records that results were written to their destination. Each is given as the item's key and the event's id.
    pub(super) fn write_moved(
        &mut self,
        results: impl Iterator<Item = (String, String)>,
    ) -> Result<(), CommandError> {
        self.append(results.map(|(key, event_id)| Entry {
            key,
            action: Action::Moved,
            event_id: Some(event_id),
        }))
    }

    /// Appends entries by one write, so that they are in the file when this returns.
    fn append(&mut self, entries: impl Iterator<Item = Entry>) -> Result<(), CommandError> {
        let mut lines = String::new();
        for entry in entries {
            let line = serde_json::to_string(&entry);
            lines.push_str(&line.map_err(|error| failed(&self.path, &error.into()))?);
            lines.push('\n');
        }
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(|error| failed(&self.path, &error))
    }
}

/// Reads a journal. An incomplete last line, which a killed worker can leave, is ignored.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, CommandError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(path, &error))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|error| failed(path, &error.into())))
        .collect()
}

/// Returns the claim entries at the end of a journal: the batch that the worker works on. Empty if the journal ends with
/// another action.
pub(super) fn claimed_last(entries: &[Entry]) -> &[Entry] {
    let start = entries
        .iter()
        .rposition(|entry| entry.action != Action::Claimed)
        .map_or(0, |index| index + 1);
    &entries[start..]
}

fn failed(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::io(format!("{}: {error}", path.display()))
}
