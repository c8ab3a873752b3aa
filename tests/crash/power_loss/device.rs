//! A device that has kept what was flushed to it, and any part of the rest when the power goes.

use std::collections::HashMap;
use std::path::Path;

use rand::RngExt as _;
use rand::rngs::StdRng;

use super::journal::{Event, Name};

/// What a device does when a program flushes a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flushes {
    Obeyed,
    /// It says that it has the log, and does not. Some devices do this to look fast.
    IgnoredForTheLog,
}

/// Which of the writes that were not flushed the device keeps.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    /// The first ones of each file.
    First(usize),
    /// Any, in any order of keeping, and of the last one perhaps only a part.
    Some,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

#[derive(Default)]
struct DeviceFile {
    flushed: Vec<u8>,
    /// The changes that may be lost, and the number of those that cannot be lost any more.
    pending: Vec<Change>,
    safe: usize,
}

/// The two files of a database on a device.
pub(super) struct Device {
    flushes: Flushes,
    database: DeviceFile,
    log: DeviceFile,
    /// The flushes that run: their file, and the number of its changes when they began.
    running: HashMap<u64, (Name, usize)>,
}

impl Device {
    pub(super) fn new(flushes: Flushes) -> Self {
        Self {
            flushes,
            database: DeviceFile::default(),
            log: DeviceFile::default(),
            running: HashMap::new(),
        }
    }

    fn file(&mut self, name: Name) -> &mut DeviceFile {
        match name {
            Name::Database => &mut self.database,
            Name::Log => &mut self.log,
        }
    }

    /// Returns whether the event makes changes safe that could be lost before.
    pub(super) fn is_end_of_flush(&self, event: &Event) -> bool {
        matches!(event, Event::FlushEnded { number } if self.running.contains_key(number))
    }

    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Write {
                file,
                offset,
                bytes,
            } => self.file(*file).pending.push(Change::Write {
                offset: *offset,
                bytes: bytes.clone(),
            }),
            Event::Truncate { file, length } => self
                .file(*file)
                .pending
                .push(Change::Truncate { length: *length }),
            Event::FlushBegins { file, number } => {
                let changes = self.file(*file).count();
                self.running.insert(*number, (*file, changes));
            }
            Event::FlushEnded { number } => {
                let Some((name, changes)) = self.running.remove(number) else {
                    return;
                };
                if self.flushes == Flushes::Obeyed || name == Name::Database {
                    self.file(name).flush(changes);
                }
            }
            Event::Answer(_) => {}
        }
    }

    /// Returns the number of writes that may be lost.
    pub(super) fn pending(&self) -> usize {
        self.database.pending.len() + self.log.pending.len()
    }

    /// Returns the number of writes that may be lost of the file that has more of them.
    pub(super) fn longest_pending(&self) -> usize {
        self.database.pending.len().max(self.log.pending.len())
    }

    /// Writes the files as they are after a loss of power.
    pub(super) fn lose_power(&self, kept: Kept, random: &mut StdRng, database: &Path) {
        let mut name = database.as_os_str().to_owned();
        name.push("-wal");
        for (path, file) in [
            (database.as_os_str(), &self.database),
            (name.as_os_str(), &self.log),
        ] {
            let content = file.after_power_loss(kept, random);
            std::fs::write(path, content).expect("the file is written");
        }
    }
}

impl DeviceFile {
    /// Returns the number of changes so far.
    fn count(&self) -> usize {
        self.safe + self.pending.len()
    }

    /// Makes the first `changes` safe.
    fn flush(&mut self, changes: usize) {
        let new = changes.saturating_sub(self.safe);
        self.safe += new;
        for change in self.pending.drain(..new) {
            apply(&mut self.flushed, &change, usize::MAX);
        }
    }

    fn after_power_loss(&self, kept: Kept, random: &mut StdRng) -> Vec<u8> {
        let mut content = self.flushed.clone();
        let end = match kept {
            Kept::First(count) => count.min(self.pending.len()),
            Kept::Some => self.pending.len(),
        };
        for change in &self.pending[..end] {
            let length = match kept {
                Kept::Some if random.random_bool(0.5) => continue,
                // A device writes sectors of 512 bytes as a whole.
                Kept::Some if random.random_bool(0.2) => 512 * random.random_range(0..8),
                _ => usize::MAX,
            };
            apply(&mut content, change, length);
        }
        content
    }
}

/// Applies the first `length` bytes of a change.
fn apply(content: &mut Vec<u8>, change: &Change, length: usize) {
    match change {
        Change::Truncate { length } => content.resize(*length, 0),
        Change::Write { offset, bytes } => {
            let bytes = &bytes[..bytes.len().min(length)];
            let end = offset + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(bytes);
        }
    }
}
