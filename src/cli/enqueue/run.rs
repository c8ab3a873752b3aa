//! A run of `enqueue --file`: its name, from which the ids of its requests derive, and the way to continue it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::cli::CommandError;
use crate::cli::output::plural;

/// The number of bytes of a name that this command makes.
const ID_BYTES: usize = 8;

/// A run over one file.
pub(super) struct Run {
    /// The name of the run.
    pub(super) id: String,
    /// Whether the same command has the same name again.
    is_repeatable: bool,
}

/// The reason why a run cannot go on.
pub(super) enum Problem {
    /// An earlier call has added other items than those of the batch that begins at this line. To skip items would not help.
    OtherItems {
        line: u64,
    },
    Other(CommandError),
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        Self::Other(error)
    }
}

impl Run {
    /// Returns the run that the user has named, or a run that is named after the content of the file. Standard input and
    /// pipes can be read only once, so their runs have random names.
    pub(super) fn new(file: &Path, given: Option<&str>) -> Result<Self, CommandError> {
        let failed = |error| CommandError::io(format!("{}: {error}", file.display()));
        let id = match given {
            Some(id) => Some(id.to_owned()),
            None if file == Path::new("-") => None,
            None if std::fs::metadata(file).map_err(failed)?.is_file() => {
                Some(digest(file).map_err(failed)?)
            }
            None => None,
        };
        let is_repeatable = id.is_some();
        let random = || HEXLOWER.encode(&Uuid::new_v4().as_bytes()[..ID_BYTES]);
        Ok(Self {
            id: id.unwrap_or_else(random),
            is_repeatable,
        })
    }

    /// Adds to an error the number of items that were added before it, and the way to continue after them. `skip` is the
    /// number of items that the run has skipped.
    pub(super) fn with_resume_hint(&self, problem: Problem, skip: u64, added: u64) -> CommandError {
        let error = match problem {
            Problem::OtherItems { line } => return self.other_items(line),
            Problem::Other(error) => error,
        };
        let how = if error.is_outage() {
            self.how_to_continue()
        } else {
            format!("correct it and continue with --skip {}", skip + added)
        };
        error.with_context(format!("{} before an error; {how}", were_added(added)))
    }

    fn other_items(&self, line: u64) -> CommandError {
        CommandError::failed(format!(
            "line {line}: the run {} has added other items before: use the same --batch and --delay as then, or another --run-id to \
             add all items",
            self.id
        ))
    }

    /// Returns the error of a run that the user has interrupted.
    pub(super) fn interrupted(&self, added: u64) -> CommandError {
        let how = self.how_to_continue();
        CommandError::failed(format!(
            "interrupted: {}; {how}, which adds no item twice",
            were_added(added)
        ))
    }

    fn how_to_continue(&self) -> String {
        if self.is_repeatable {
            "run the same command again to continue".to_owned()
        } else {
            let id = &self.id;
            format!("run the command again with the same input and --run-id {id} to continue")
        }
    }
}

fn were_added(count: u64) -> String {
    let verb = if count == 1 { "was" } else { "were" };
    format!("{} {verb} added", plural(count, "item"))
}

/// Returns the first digits of a hash of the file.
fn digest(file: &Path) -> std::io::Result<String> {
    let mut file = File::open(file)?;
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(HEXLOWER.encode(&digest.finalize()[..ID_BYTES])),
            count => digest.update(&buffer[..count]),
        }
    }
}
