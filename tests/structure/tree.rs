//! The source files, and their modules.

use std::collections::BTreeMap;
use std::path::Path;

use walkdir::WalkDir;

use super::parse::{Module, ModulePath, parse};
use super::rules::Root;

/// All modules of the source, by their paths. Modules of all crates are in one tree.
pub(crate) struct Tree {
    pub(crate) modules: BTreeMap<ModulePath, TreeModule>,
    pub(crate) roots: &'static [Root],
}

/// A module, and the file that has it.
pub(crate) struct TreeModule {
    pub(crate) file: String,
    pub(crate) root: &'static Root,
    pub(crate) content: Module,
}

impl Tree {
    /// Reads the files of the crates.
    pub(crate) fn read(folder: &Path, roots: &'static [Root]) -> Self {
        let mut files = BTreeMap::new();
        for root in roots {
            for entry in WalkDir::new(folder.join(root.folder)) {
                let entry = entry.expect("a folder of `ROOTS` in structure/rules.rs can be read");
                let path = entry.path();
                if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(path).expect("the file can be read");
                    let name = path.strip_prefix(folder).expect("a file in the folder");
                    files.insert(name.to_string_lossy().replace('\\', "/"), text);
                }
            }
        }
        let files = files.iter();
        Self::of(
            roots,
            files.map(|(name, text)| (name.as_str(), text.as_str())),
        )
    }

    /// Parses the files, each a path and a text.
    pub(crate) fn of<'a>(
        roots: &'static [Root],
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut modules = BTreeMap::new();
        let mut tests = Vec::new();
        for (file, text) in files {
            let Some((root, module)) = module_of(roots, file) else {
                continue;
            };
            let parsed = parse(text, module).unwrap_or_else(|error| panic!("{file}: {error}"));
            tests.extend(parsed.tests);
            for (path, content) in parsed.modules {
                let file = file.to_owned();
                modules.insert(
                    path,
                    TreeModule {
                        file,
                        root,
                        content,
                    },
                );
            }
        }
        modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        Self { modules, roots }
    }
}

/// Returns the crate of a file, and the path of its module.
fn module_of(roots: &'static [Root], file: &str) -> Option<(&'static Root, ModulePath)> {
    let file = file.strip_suffix(".rs")?;
    let rest = |root: &Root| {
        let rest = file.strip_prefix(root.folder)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let holds = roots.iter().filter(|root| rest(root).is_some());
    // A crate can lie in the folder of another one.
    let root = holds.max_by_key(|root| root.folder.len())?;
    let mut module = root.module_path();
    module.extend(rest(root)?.split('/').skip(1).map(str::to_owned));
    if module.len() > root.module_path().len()
        && let Some("lib" | "mod") = module.last().map(String::as_str)
    {
        module.pop();
    }
    Some((root, module))
}
