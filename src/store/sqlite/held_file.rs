//! Files of the database that are open beside SQLite.
//!
//! POSIX drops all locks that a process has on a file when the process closes any descriptor of the file. SQLite's locks would end
//! too. So each descriptor stays open until the process ends, and a file that is opened again gets the same one.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

/// The files that this process holds. A file that is open keeps its inode.
static HELD: Mutex<Vec<(Identity, Arc<File>)>> = Mutex::new(Vec::new());

/// Device and inode.
type Identity = (u64, u64);

pub(super) struct HeldFile(Arc<File>);

impl HeldFile {
    /// Opens the file for reading.
    pub(super) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let found = fs::metadata(path)?;
        let mut held = HELD.lock();
        let identity = (found.dev(), found.ino());
        if let Some((_, file)) = held.iter().find(|(known, _)| *known == identity) {
            return Ok(Self(file.clone()));
        }
        let file = Arc::new(File::open(path)?);
        // Noted before anything can fail, so that it is never closed. Its identity is that of the open file.
        held.push((identity, file.clone()));
        let opened = file.metadata()?;
        if let Some((known, _)) = held.last_mut() {
            *known = (opened.dev(), opened.ino());
        }
        Ok(Self(file))
    }
}

impl Deref for HeldFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_held_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, "a").expect("a file");
        let first = HeldFile::open(&path).expect("opened");
        let second = HeldFile::open(&path).expect("opened");
        assert!(Arc::ptr_eq(&first.0, &second.0));
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "b").expect("a file");
        let other = HeldFile::open(&path).expect("opened");
        assert!(!Arc::ptr_eq(&first.0, &other.0));
    }
}
