//! A small temporary file system for one test, on machines that permit mounting one.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub(crate) struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts an empty file system of this size, such as `1m`. `None`: mounting is not permitted.
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("tempdir");
        let options = format!("size={size}");
        let mounted = run(
            "mount",
            &["-t", "tmpfs", "-o", &options, "tmpfs"],
            folder.path(),
        );
        mounted.then_some(Self { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Changes the options, such as `ro` or `size=8m`.
    pub(crate) fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(run("mount", &["-o", &options], self.path()), "{options}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because a thread of the store may still be closing its file.
        run("umount", &["--lazy"], self.path());
    }
}

fn run(program: &str, arguments: &[&str], at: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).arg(at);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
