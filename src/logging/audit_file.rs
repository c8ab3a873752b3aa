//! The file of the audit: JSON lines, each with the SHA-256 of the line before it in the field `previous`.
//!
//! Whoever changes or deletes a line in the middle must change every line after it. A copy of the last hash elsewhere proves
//! that all lines before it are as they were written.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// A line is shorter.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// The open file. Each write is a line.
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    /// The hash of the last line, in hexadecimal digits.
    previous: String,
}

impl AuditFile {
    /// Opens the file, and creates it if there is none.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = open(path)?;
        Ok(Self {
            path: path.to_owned(),
            previous: hash(&last_line(&mut file)?),
            file,
        })
    }

    /// Opens the file again if another program has moved it away.
    fn follow_rotation(&mut self) -> io::Result<()> {
        let is_same = std::fs::metadata(&self.path)
            .and_then(|at_path| Ok(at_path.ino() == self.file.metadata()?.ino()));
        if !is_same.unwrap_or(false) {
            self.file = open(&self.path)?;
        }
        Ok(())
    }
}

impl Write for AuditFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.follow_rotation()?;
        let object = line.trim_ascii_end();
        let object = object.strip_suffix(b"}").unwrap_or(object);
        let end = format!(",\"previous\":\"{}\"}}", self.previous);
        let mut chained = [object, end.as_bytes()].concat();
        self.previous = hash(&chained);
        chained.push(b'\n');
        self.file.write_all(&chained)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Returns the last line of a file, without its end.
fn last_line(file: &mut File) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_LINE_BYTES)))?;
    let mut end = Vec::new();
    file.take(MAX_LINE_BYTES).read_to_end(&mut end)?;
    let lines = end.trim_ascii_end().rsplit(|byte| *byte == b'\n');
    Ok(lines.take(1).flatten().copied().collect())
}

fn hash(line: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_the_hash_of_the_one_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("audit"), folder.path().join("audit.1"));
        let write = |file: &mut AuditFile, number: u32| {
            file.write_all(format!("{{\"number\":{number}}}\n").as_bytes())
                .expect("written");
        };
        let mut file = AuditFile::open(&path).expect("opened");
        write(&mut file, 1);
        drop(file);
        let mut file = AuditFile::open(&path).expect("opened again");
        write(&mut file, 2);
        std::fs::rename(&path, &moved).expect("moved");
        write(&mut file, 3);
        let text = [moved, path].map(|path| std::fs::read_to_string(path).expect("a file"));
        let text = text.concat();
        let mut previous = hash(b"");
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let expected = format!("{{\"number\":{number},\"previous\":\"{previous}\"}}");
            assert_eq!(line, expected);
            previous = hash(line.as_bytes());
        }
        assert_eq!(text.lines().count(), 3);
    }
}
