//! A file whose content is used, and read again when it changes.
//!
//! The content decides, not the modification time: Kubernetes replaces a symbolic link.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};

/// A file, and the value that its last usable content stands for.
pub(super) struct WatchedFile<T> {
    setting: &'static str,
    path: PathBuf,
    parse: fn(&str) -> Result<T, String>,
    current: RwLock<Arc<T>>,
    /// The hash of the content that was read last, usable or not.
    last: Mutex<[u8; 32]>,
}

impl<T: PartialEq> WatchedFile<T> {
    /// Reads a file. `setting`: the key of the configuration that names it.
    ///
    /// # Errors
    /// The setting, the file, and the reason why it cannot be used.
    pub(super) fn open(
        setting: &'static str,
        path: PathBuf,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<Self, String> {
        let content = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        let value = content
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|text| parse(text));
        let value = value.map_err(|reason| format!("{setting}: {}: {reason}", path.display()))?;
        Ok(Self {
            setting,
            parse,
            current: RwLock::new(Arc::new(value)),
            last: Mutex::new(hash(&content)),
            path,
        })
    }

    /// Returns the value in use.
    pub(super) fn current(&self) -> Arc<T> {
        let current = self.current.read();
        current.clone()
    }

    /// Reads the file again. Returns true if the value has changed. A content that cannot be used is reported once, and the
    /// value stays as it is.
    pub(super) fn read(&self) -> bool {
        let content = std::fs::read_to_string(&self.path).map_err(|error| error.to_string());
        let hash = hash(&content);
        let mut last = self.last.lock();
        if *last == hash {
            return false;
        }
        *last = hash;
        drop(last);
        let (setting, file) = (self.setting, self.path.display());
        match content.and_then(|text| (self.parse)(&text)) {
            Ok(value) => {
                tracing::info!(target: "lease_broker::audit", setting, %file, "file read again");
                let mut current = self.current.write();
                let is_new = **current != value;
                *current = Arc::new(value);
                is_new
            }
            Err(reason) => {
                tracing::error!(
                    target: "lease_broker::audit", setting, %file, reason,
                    "file cannot be used; its last usable content stays in use"
                );
                false
            }
        }
    }
}

fn hash(content: &Result<String, String>) -> [u8; 32] {
    let (kind, text) = match content {
        Ok(text) => (0, text),
        Err(error) => (1, error),
    };
    Sha256::new()
        .chain_update([kind])
        .chain_update(text)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_content_keeps_the_last_value() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("number");
        std::fs::write(&path, "1").expect("written");
        let parse = |text: &str| text.parse::<u32>().map_err(|error| error.to_string());
        let file = WatchedFile::open("a.b", path.clone(), parse).expect("a number");
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
        let parse = |text: &str| Ok::<_, String>(text.to_owned());
        let file = WatchedFile::open("a.b", link.clone(), parse).expect("a text");
        link_to(&first);
        assert!(!file.read());
        link_to(&second);
        assert!(file.read());
        assert_eq!(*file.current(), "2");
    }

    #[test]
    fn error_at_the_start_names_setting_and_file() {
        let parse = |_: &str| Ok::<(), String>(());
        let error = WatchedFile::open("auth.tokens_file", "/nowhere/x".into(), parse).err();
        let error = error.expect("the file does not exist");
        assert!(
            error.starts_with("auth.tokens_file: /nowhere/x: "),
            "{error}"
        );
    }
}
