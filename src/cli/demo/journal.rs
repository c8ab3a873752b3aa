//! A worker's own record of what it action, one JSON object a line, on the file before the worker goes on.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::CommandError;

/// Something that a worker action with one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Claimed,
    Completed,
    Lost,
    /// Written to where results go; the transfer worker's.
    Moved,
}

/// A journal being written.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the journal, to write on at its end.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(|error| failed(path, &error))?,
        })
    }

    /// Adds entries in one write.
    pub(super) fn write(
        &mut self,
        action: Action,
        keys: impl Iterator<Item = String>,
    ) -> Result<(), CommandError> {
        let mut lines = String::new();
        for key in keys {
            let line = serde_json::to_string(&Entry { key, action });
            lines.push_str(&line.map_err(|error| failed(&self.path, &error.into()))?);
            lines.push('\n');
        }
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(|error| failed(&self.path, &error))
    }
}

/// Reads a journal; a last line that its writer action not live to finish is left out.
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

fn failed(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::io(format!("{}: {error}", path.display()))
}
