//! Demo workers in other languages. Each uses the worker library of its language, in the folder `clients` of a clone of the
//! repository. A script there builds the worker, and another one becomes the worker process.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::ValueEnum;
use tokio::process::Command;

use crate::cli::CommandError;
use crate::cli::output::print_line;

/// The exit code of a build script if the toolchain of its language is missing.
const TOOLCHAIN_MISSING: i32 = 77;

/// A language with a worker library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Language {
    Python,
    Node,
    Go,
    Java,
}

impl Language {
    /// Returns the name of the language, which is also the name of its folder below `clients`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Go => "go",
            Self::Java => "java",
        }
    }

    /// Builds the worker. Returns the program that becomes a worker process.
    ///
    /// # Errors
    /// Exit code 64 if there is no clone of the repository, 69 if the toolchain of the language is missing, 1 if the build
    /// fails.
    pub(super) async fn build(self) -> Result<PathBuf, CommandError> {
        let name = self.name();
        let current = std::env::current_dir().unwrap_or_default();
        let program = std::env::current_exe().unwrap_or_default();
        let folder = find_folder(self, &[&program, &current]).ok_or_else(|| {
            CommandError::usage(format!(
                "--language {name}: no folder clients/{name} above {} or above this program; \
                 run the demo in a clone of the repository",
                current.display()
            ))
        })?;
        print_line!("building the worker in {}", folder.display());
        let output = Command::new(folder.join("build"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        let output = output.map_err(|error| match error.kind() {
            ErrorKind::NotFound => CommandError::unavailable(format!(
                "--language {name}: {}/build needs bash",
                folder.display()
            )),
            _ => CommandError::io(format!("{}/build: {error}", folder.display())),
        })?;
        if output.status.success() {
            return Ok(folder.join("run"));
        }
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        let printed = printed.trim();
        Err(if output.status.code() == Some(TOOLCHAIN_MISSING) {
            let reason = printed.strip_prefix("skipped: ").unwrap_or(printed);
            CommandError::unavailable(format!("--language {name}: {reason}"))
        } else {
            CommandError::failed(format!("{}/build failed: {printed}", folder.display()))
        })
    }
}

/// Looks for the folder with the worker above each of the given paths.
fn find_folder(language: Language, starts: &[&Path]) -> Option<PathBuf> {
    let below = Path::new("clients").join(language.name()).join("demo");
    starts
        .iter()
        .flat_map(|start| start.ancestors())
        .map(|above| above.join(&below))
        .find(|folder| folder.join("run").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_is_found_above_the_second_start() {
        let clone = tempfile::tempdir().expect("a folder");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let worker = clone.path().join("clients/go/demo");
        let program = clone.path().join("target/debug/lease-broker");
        std::fs::create_dir_all(&worker).expect("a folder");
        let starts = [elsewhere.path(), program.as_path()];
        assert_eq!(find_folder(Language::Go, &starts), None);
        std::fs::write(worker.join("run"), "").expect("a file");
        assert_eq!(find_folder(Language::Go, &starts), Some(worker));
        assert_eq!(find_folder(Language::Java, &starts), None);
    }
}
