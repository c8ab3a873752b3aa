//! The paths of all tests of the repository, such as `api::clock_steps::lost_lease`, found by reading the source.

use std::path::Path;

/// The folders with tests, each with the path of its modules.
const FOLDERS: &[(&str, &str)] = &[
    ("tests", ""),
    ("src", ""),
    ("clients/rust/src", "client"),
    ("benches/load/src", "bench"),
    ("benches/load/tests", "bench"),
    ("proto", "proto"),
];

/// The tests.
pub(super) struct TestNames(Vec<String>);

impl TestNames {
    #[cfg(test)]
    pub(super) fn of<const N: usize>(paths: [&str; N]) -> Self {
        Self(paths.map(str::to_owned).into())
    }

    /// Reads the source.
    pub(super) fn read(root: &Path) -> Self {
        let mut paths = Vec::new();
        for (folder, module) in FOLDERS {
            read_folder(&root.join(folder), module, &mut paths);
        }
        // A macro makes a test for each store of each function that is listed at the end of the module.
        let listed = std::fs::read_to_string(root.join("tests/conformance/mod.rs"));
        let listed = listed.expect("the list can be read");
        let is_listed = |name: &str| listed.lines().any(|line| line.trim() == name);
        paths.retain(|path| match path.strip_suffix(LISTED) {
            None => true,
            Some(path) => is_listed(path.rsplit("::").next().unwrap_or(path)),
        });
        let paths = paths.into_iter();
        Self(
            paths
                .map(|path| path.trim_end_matches(LISTED).to_owned())
                .collect(),
        )
    }

    /// Returns whether the path of a test ends with this name.
    pub(super) fn has_test(&self, name: &str) -> bool {
        let suffix = format!("::{name}");
        let mut paths = self.0.iter();
        paths.any(|path| path == name || path.ends_with(&suffix))
    }

    /// Returns whether a module has this path, from its crate or from the target of its tests on, and contains tests.
    pub(super) fn has_module(&self, name: &str) -> bool {
        let prefix = format!("{name}::");
        self.0.iter().any(|path| path.starts_with(&prefix))
    }
}

/// Marks a function that is a test only if it is listed.
const LISTED: &str = " (if listed)";

fn read_folder(folder: &Path, module: &str, paths: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.unwrap_or_default();
        let below = match name {
            "mod" | "lib" | "main" => module.to_owned(),
            _ if module.is_empty() => name.to_owned(),
            _ => format!("{module}::{name}"),
        };
        if path.is_dir() {
            read_folder(&path, &below, paths);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).expect("the file can be read");
            paths.extend(tests_of(&text).map(|name| format!("{below}::{name}")));
        }
    }
}

/// Returns the names of the functions with an attribute such as `#[test]` or `#[tokio::test]`, and those that a list can make
/// tests.
fn tests_of(source: &str) -> impl Iterator<Item = String> {
    let mut has_attribute = false;
    source.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("#[") {
            has_attribute |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            return None;
        }
        let is_test = std::mem::take(&mut has_attribute);
        let rest = ["pub(super) ", "pub(crate) ", "async "]
            .iter()
            .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
        let name = rest.strip_prefix("fn ")?.split(['(', '<']).next()?;
        let is_listed = line.starts_with("pub(") && line.contains("<H: Harness>");
        match (is_test, is_listed) {
            (true, _) => Some(name.to_owned()),
            (_, true) => Some(format!("{name}{LISTED}")),
            _ => None,
        }
    })
}
