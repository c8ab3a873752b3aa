//! A file whose content is used, and read again when it changes.
//!
//! The content decides, not the modification time: Kubernetes replaces a symbolic link. Each file has its own last usable content, so
//! one that cannot be used, or that hangs when it is read, keeps no other from taking effect.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};

/// The time after which a file that is being read counts as one that does not answer.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(2);

/// A part of the state that is read from files.
pub(super) trait Watched: Send + Sync {
    /// Reads the files again. Returns true if the part has changed.
    fn read(&self) -> bool;

    /// Reports a file that is being read, and does not answer.
    fn report_hang(&self);

    /// Returns why a file is not used as it is, with the setting and the path. `None`: it is used.
    fn problem(&self) -> Option<String>;
}

/// A file, and the value that its last usable content stands for.
pub(super) struct WatchedFile<T> {
    setting: String,
    path: PathBuf,
    parse: fn(&[u8]) -> Result<T, String>,
    last: RwLock<Last<T>>,
    /// Locked while the file is read.
    reading: Mutex<()>,
}

/// The last content that was read.
struct Last<T> {
    /// The value of the last one that was usable.
    value: Arc<T>,
    hash: [u8; 32],
    problem: Option<String>,
}

impl<T: PartialEq + Send + Sync> WatchedFile<T> {
    /// Reads a file. `setting`: the key of the configuration that names it. `former`: the file that was used until now. If it has the
    /// same setting and path, it stays in use, and nothing is read.
    ///
    /// # Errors
    /// The setting, the file, and the reason why it cannot be used.
    pub(super) fn open(
        setting: &str,
        path: PathBuf,
        parse: fn(&[u8]) -> Result<T, String>,
        former: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, String> {
        if let Some(former) = former.filter(|file| file.setting == setting && file.path == path) {
            return Ok(former.clone());
        }
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        let value = read.and_then(|bytes| Ok((parse(&bytes)?, hash(&bytes))));
        let (value, hash) =
            value.map_err(|reason| format!("{setting}: {}: {reason}", path.display()))?;
        Ok(Arc::new(Self {
            setting: setting.to_owned(),
            path,
            parse,
            last: RwLock::new(Last {
                value: Arc::new(value),
                hash,
                problem: None,
            }),
            reading: Mutex::new(()),
        }))
    }

    /// Returns the value in use.
    pub(super) fn current(&self) -> Arc<T> {
        self.last.read().value.clone()
    }

    pub(super) fn setting(&self) -> &str {
        &self.setting
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reports once why the file cannot be used.
    fn refuse(&self, reason: String) {
        let mut last = self.last.write();
        if last.problem.as_ref() == Some(&reason) {
            return;
        }
        let (setting, file) = (&*self.setting, self.path.display());
        tracing::error!(
            target: "lease_broker::audit",
            event = "file.refused", setting, %file, reason,
            "file cannot be used; its last usable content stays in use"
        );
        last.problem = Some(reason);
    }
}

impl<T: PartialEq + Send + Sync> Watched for WatchedFile<T> {
    fn read(&self) -> bool {
        let Some(_turn) = self.reading.try_lock_for(ANSWER_TIME) else {
            self.report_hang();
            return false;
        };
        let read = std::fs::read(&self.path).map_err(|error| error.to_string());
        let new_hash = read.as_deref().ok().map(hash);
        {
            let last = self.last.read();
            if new_hash == Some(last.hash) && last.problem.is_none() {
                return false;
            }
        }
        let value = match read.and_then(|bytes| (self.parse)(&bytes)) {
            Ok(value) => value,
            Err(reason) => {
                self.refuse(reason);
                return false;
            }
        };
        let (setting, file) = (&*self.setting, self.path.display());
        tracing::info!(
            target: "lease_broker::audit",
            event = "file.read", setting, %file, "file read again"
        );
        let mut last = self.last.write();
        last.problem = None;
        last.hash = new_hash.unwrap_or_default();
        let has_changed = *last.value != value;
        if has_changed {
            last.value = Arc::new(value);
        }
        has_changed
    }

    fn report_hang(&self) {
        if self.reading.is_locked() {
            self.refuse("the file does not answer".to_owned());
        }
    }

    fn problem(&self) -> Option<String> {
        let last = self.last.read();
        let reason = last.problem.as_ref()?;
        Some(format!(
            "{}: {}: {reason}",
            self.setting,
            self.path.display()
        ))
    }
}

/// Returns the content of a file of text.
///
/// # Errors
/// The content is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(|error| error.to_string())
}

fn hash(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_content_keeps_the_last_value() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("number");
        std::fs::write(&path, "1").expect("written");
        let parse = |content: &[u8]| {
            text(content)?
                .parse::<u32>()
                .map_err(|error| error.to_string())
        };
        let file = WatchedFile::open("a.b", path.clone(), parse, None).expect("a number");
        assert!(!file.read());
        std::fs::write(&path, "x").expect("written");
        assert!(!file.read());
        std::fs::remove_file(&path).expect("removed");
        assert!(!file.read());
        assert_eq!(*file.current(), 1);
        std::fs::write(&path, "+1").expect("written");
        assert!(!file.read(), "another text of the same value");
        std::fs::write(&path, "2").expect("written");
        assert!(file.read());
        assert_eq!(*file.current(), 2);
    }

    #[test]
    fn link_to_other_content_is_a_change() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().expect("a folder");
        let [link, first, second] = ["data", "1", "2"].map(|name| folder.path().join(name));
        let link_to = |target: &std::path::Path| {
            let _ = std::fs::remove_file(&link);
            symlink(target, &link).expect("a link");
        };
        for file in [&first, &second] {
            let name = file.file_name().expect("a name");
            std::fs::write(file, name.as_encoded_bytes()).expect("written");
        }
        link_to(&first);
        let parse = |content: &[u8]| text(content).map(str::to_owned);
        let file = WatchedFile::open("a.b", link.clone(), parse, None).expect("a text");
        link_to(&first);
        assert!(!file.read());
        link_to(&second);
        assert!(file.read());
        assert_eq!(*file.current(), "2");
    }

    #[test]
    fn error_at_the_start_names_setting_and_file() {
        let parse = |_: &[u8]| Ok::<(), String>(());
        let error = WatchedFile::open("auth.tokens_file", "/nowhere/x".into(), parse, None).err();
        let error = error.expect("the file does not exist");
        assert!(
            error.starts_with("auth.tokens_file: /nowhere/x: "),
            "{error}"
        );
    }

    #[test]
    fn next_holder_of_the_same_file_has_its_last_usable_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("text");
        std::fs::write(&path, "1").expect("written");
        let parse = |content: &[u8]| match content {
            b"x" => Err("it is x".to_owned()),
            content => text(content).map(str::to_owned),
        };
        let first = WatchedFile::open("a.b", path.clone(), parse, None).expect("a text");
        std::fs::write(&path, "x").expect("written");
        assert!(!first.read());
        let next = WatchedFile::open("a.b", path.clone(), parse, Some(&first));
        let next = next.expect("the last usable content");
        assert_eq!(*next.current(), "1");
        let problem = format!("a.b: {}: it is x", path.display());
        assert_eq!(next.problem(), Some(problem));
        std::fs::write(&path, "2").expect("written");
        assert!(first.read());
        assert_eq!((next.problem(), &**next.current()), (None, "2"));
        let other = folder.path().join("other");
        let other = WatchedFile::open("a.b", other, parse, Some(&first));
        assert!(other.is_err(), "another file must be usable");
    }
}
