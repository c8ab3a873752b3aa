//! The names of the files beside a database file: the write-ahead log (`-wal`) and its index (`-shm`).

use std::ffi::OsString;
use std::path::Path;

/// Returns the name of the database file with this suffix.
pub(super) fn companion(path: &Path, suffix: &str) -> OsString {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name
}
