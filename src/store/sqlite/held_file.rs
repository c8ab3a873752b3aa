//! A file of the database that is open beside SQLite.
//!
//! POSIX drops all locks that a process has on a file when the process closes any descriptor of the file. SQLite's locks would end
//! too. So the descriptor stays open until the process ends.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::Path;

pub(super) struct HeldFile(ManuallyDrop<File>);

impl HeldFile {
    /// Opens the file for reading.
    pub(super) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self(ManuallyDrop::new(File::open(path)?)))
    }
}

impl Deref for HeldFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}
