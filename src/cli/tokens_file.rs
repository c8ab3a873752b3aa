//! The file of tokens, as commands change it. A lock on the file keeps their changes apart. Services only read it, without the lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

/// The file, locked until this is dropped.
pub(super) struct TokensFile {
    file: File,
    path: PathBuf,
}

impl TokensFile {
    /// Opens a file that exists.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::lock(path, OpenOptions::new().read(true))
    }

    /// Opens a file, and creates it if it is missing. Only its owner can read a new file.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        Self::lock(
            path,
            options.read(true).append(true).create(true).mode(0o600),
        )
    }

    fn lock(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        loop {
            let file = options.open(path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            // The command that had the lock before may have replaced the file.
            let (own, named) = (file.metadata()?, fs::metadata(path));
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
                let path = path.canonicalize()?;
                return Ok(Self { file, path });
            }
        }
    }

    pub(super) fn read(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Adds a line.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        let mut content = Vec::new();
        self.file.read_to_end(&mut content)?;
        let separator = if content.last().is_some_and(|byte| *byte != b'\n') {
            "\n"
        } else {
            ""
        };
        // One write, so that a service that reads the file at this moment does not see half a line.
        let line = format!("{separator}{line}\n");
        self.file.write_all(line.as_bytes())?;
        self.file.sync_all()
    }

    /// Replaces the content, so that a service that reads the file at this moment sees the old or the new content. Its owner and its
    /// mode stay.
    pub(super) fn replace(self, content: &str) -> io::Result<()> {
        let former = self.file.metadata()?;
        let mut name = self.path.clone().into_os_string();
        // An interrupted command can have left another such file.
        name.push(format!(".{}.new", Uuid::new_v4()));
        let new = PathBuf::from(name);
        let mut options = File::options();
        let mode = former.mode() & 0o777;
        // Until it has its owner, only this user can read it.
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        let written = file
            .write_all(content.as_bytes())
            .and_then(|()| {
                let own = file.metadata()?;
                if (own.uid(), own.gid()) == (former.uid(), former.gid()) {
                    return Ok(());
                }
                fchown(&file, Some(former.uid()), Some(former.gid()))
            })
            // Set on the file, because the umask takes rights from the mode of a new file. The service could then not read it.
            .and_then(|()| file.set_permissions(fs::Permissions::from_mode(mode)))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, &self.path));
        written.inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn lines_that_are_added_during_replacements_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens");
        fs::write(&path, "first").expect("a file");
        // The file name that earlier versions used does not stop a replacement.
        fs::write(folder.path().join("tokens.new"), "").expect("a file");
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..50 {
                    let mut file = TokensFile::open(&path).expect("open");
                    let text = file.read().expect("read");
                    file.replace(&text).expect("replaced");
                }
            });
            for number in 0..50 {
                let mut file = TokensFile::create(&path).expect("open");
                file.append(&number.to_string()).expect("added");
            }
        });
        let text = fs::read_to_string(&path).expect("a file");
        assert_eq!(text.lines().count(), 51, "{text}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn replacement_keeps_the_mode_that_a_umask_forbids() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens");
        fs::write(&path, "first").expect("a file");
        // Every usual umask takes rights from this mode.
        let mode = fs::Permissions::from_mode(0o666);
        fs::set_permissions(&path, mode).expect("permissions");
        let file = TokensFile::open(&path).expect("open");
        file.replace("second").expect("replaced");
        let mode = fs::metadata(&path).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o666, "{mode:o}");
    }
}
