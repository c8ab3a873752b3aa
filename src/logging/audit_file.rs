//! The file of the audit: JSON lines, each with the SHA-256 of the line before it in the field `previous`.
//!
//! Whoever changes or deletes a line in the middle must change every line after it. A copy of the last hash elsewhere proves
//! that all lines before it are as they were written.
//!
//! One process writes a file. A line that cannot be written is counted. The log reports the first one, and when lines can be written
//! again, how many are missing.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use data_encoding::HEXLOWER;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::folding::OWN_TARGET;

/// Most lines are shorter. For a longer last line, more of the file is read.
const TAIL_BYTES: u64 = 64 << 10;

/// The open file. Each write is a line.
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    /// The hash of the last line, in hexadecimal digits.
    previous: String,
    /// The lines that could not be written.
    lost: Arc<AtomicU64>,
    /// Their number when a line was written last.
    reported: u64,
    /// The last line could not be written. The file can have a part of it.
    is_failing: bool,
    /// The last line of the file has no end. The next line is written after one.
    is_cut: bool,
}

/// The last line of a file.
struct LastLine {
    /// `None`: the file is empty.
    hash: Option<String>,
    /// It has no end: the disk was full, or the process was killed.
    is_cut: bool,
}

impl AuditFile {
    /// Opens the file, and creates it if there is none.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (file, last) = open(path)?;
        Ok(Self {
            path: path.to_owned(),
            previous: last.hash.unwrap_or_else(|| hash(b"")),
            file,
            lost: Arc::default(),
            reported: 0,
            is_failing: false,
            is_cut: last.is_cut,
        })
    }

    /// Returns the number of lines that could not be written, which increases.
    pub(super) fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }

    /// Opens the file again if another program has moved it away.
    fn follow_rotation(&mut self) -> io::Result<()> {
        let is_same = std::fs::metadata(&self.path)
            .and_then(|at_path| Ok(at_path.ino() == self.file.metadata()?.ino()));
        if !is_same.unwrap_or(false) {
            let (file, last) = open(&self.path)?;
            self.file = file;
            self.go_on_after(last);
        }
        Ok(())
    }

    /// Goes on after the last line of the file. An empty file goes on where the one before ended.
    fn go_on_after(&mut self, last: LastLine) {
        self.is_cut = last.is_cut;
        if let Some(previous) = last.hash {
            self.previous = previous;
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.follow_rotation()?;
        if self.is_failing {
            let last = read_last_line(&mut self.file)?;
            self.go_on_after(last);
        }
        let object = line.trim_ascii_end();
        let object = object.strip_suffix(b"}").unwrap_or(object);
        let end = format!(",\"previous\":\"{}\"}}", self.previous);
        let mut chained = [object, end.as_bytes()].concat();
        let previous = hash(&chained);
        chained.push(b'\n');
        if self.is_cut {
            chained.insert(0, b'\n');
        }
        self.file.write_all(&chained)?;
        self.previous = previous;
        self.is_cut = false;
        Ok(())
    }
}

impl Write for AuditFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let appended = self.append(line);
        let file = self.path.display();
        match &appended {
            Ok(()) if self.is_failing => {
                let lost = self.lost.load(Ordering::Relaxed);
                let lines = lost - std::mem::replace(&mut self.reported, lost);
                tracing::warn!(
                    target: OWN_TARGET, %file, lines, "log.audit_file: lines of the audit were lost, and are written again"
                );
            }
            Ok(()) => {}
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if !self.is_failing {
                    tracing::error!(target: OWN_TARGET, %file, %error, "log.audit_file: lines of the audit are lost");
                }
            }
        }
        self.is_failing = appended.is_err();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens a file for this process alone. Writes nothing, so that a full disk does not stop a start.
fn open(path: &Path) -> io::Result<(File, LastLine)> {
    let mut options = File::options();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = options.open(path)?;
    // Some file systems have no locks.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        let problem = "another process writes to it; each broker needs an audit file of its own";
        return Err(io::Error::new(io::ErrorKind::WouldBlock, problem));
    }
    let last = read_last_line(&mut file)?;
    Ok((file, last))
}

fn read_last_line(file: &mut File) -> io::Result<LastLine> {
    let length = file.metadata()?.len();
    let mut tail_bytes = TAIL_BYTES;
    loop {
        let start = length.saturating_sub(tail_bytes);
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        Read::by_ref(file).take(tail_bytes).read_to_end(&mut end)?;
        let lines = end.strip_suffix(b"\n").unwrap_or(&end);
        let mut parts = lines.rsplit(|byte| *byte == b'\n');
        let last = parts.next().unwrap_or_default();
        if start > 0 && parts.next().is_none() {
            // The line begins before.
            tail_bytes *= 2;
            continue;
        }
        return Ok(LastLine {
            hash: (!end.is_empty()).then(|| hash(last)),
            is_cut: !end.is_empty() && !end.ends_with(b"\n"),
        });
    }
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

    #[test]
    fn line_after_a_long_one_has_its_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let long = format!("{{\"changes\":\"{}\"}}\n", "x".repeat(300_000));
        for line in ["{\"number\":1}\n", &long, "{\"number\":3}\n"] {
            // Each is written by another process.
            let mut file = AuditFile::open(&path).expect("opened");
            file.write_all(line.as_bytes()).expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("a file");
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[2].contains(&hash(lines[1].as_bytes())),
            "{}",
            lines[2]
        );
    }

    #[test]
    fn line_that_was_cut_off_is_ended_by_the_next_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let cut = "{\"number\":1}\n{\"num";
        std::fs::write(&path, cut).expect("written");
        let mut file = AuditFile::open(&path).expect("opened");
        // A full disk, which has cut the line, does not stop a start.
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), cut);
        file.write_all(b"{\"number\":3}\n").expect("written");
        let text = std::fs::read_to_string(&path).expect("a file");
        let previous = hash(b"{\"num");
        let expected =
            format!("{{\"number\":1}}\n{{\"num\n{{\"number\":3,\"previous\":\"{previous}\"}}\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let (logs, moved) = (folder.path().join("logs"), folder.path().join("moved"));
        std::fs::create_dir(&logs).expect("a folder");
        let mut file = AuditFile::open(&logs.join("audit")).expect("opened");
        let lost = file.lost();
        let mut write = |number: u32| {
            let line = format!("{{\"number\":{number}}}\n");
            file.write_all(line.as_bytes()).expect("taken");
        };
        write(1);
        std::fs::rename(&logs, &moved).expect("moved");
        write(2);
        write(3);
        assert_eq!(lost.load(Ordering::Relaxed), 2);
        std::fs::rename(&moved, &logs).expect("moved back");
        write(4);
        assert_eq!(lost.load(Ordering::Relaxed), 2);
        let text = std::fs::read_to_string(logs.join("audit")).expect("a file");
        let lines: Vec<_> = text.lines().collect();
        let previous = hash(lines[0].as_bytes());
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].contains(&previous), "the chain has no gap: {text}");
    }

    #[test]
    fn log_has_the_number_of_lost_lines_of_each_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let (logs, moved) = (folder.path().join("logs"), folder.path().join("moved"));
        std::fs::create_dir(&logs).expect("a folder");
        let log = folder.path().join("log");
        let out = File::create(&log).expect("a file");
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || out.try_clone().expect("a file"))
            .finish();
        let mut file = AuditFile::open(&logs.join("audit")).expect("opened");
        tracing::subscriber::with_default(subscriber, || {
            for lines in [2, 3] {
                std::fs::rename(&logs, &moved).expect("moved");
                for _ in 0..lines {
                    file.write_all(b"{}\n").expect("taken");
                }
                std::fs::rename(&moved, &logs).expect("moved back");
                file.write_all(b"{}\n").expect("taken");
            }
        });
        let log = std::fs::read_to_string(log).expect("a file");
        for lines in ["lines=2", "lines=3"] {
            assert_eq!(log.matches(lines).count(), 1, "{log}");
        }
    }

    #[test]
    fn two_processes_do_not_write_one_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let _first = AuditFile::open(&path).expect("opened");
        let refused = AuditFile::open(&path).map(drop).expect_err("refused");
        assert!(refused.to_string().contains("another process"), "{refused}");
    }
}
