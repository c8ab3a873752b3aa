//! Finds the file that defines what a path names.

use super::parse::{Mention, ModulePath};
use super::tree::{Tree, TreeModule};

/// A path in one file that names something in another file.
pub(crate) struct Import<'a> {
    pub(crate) from: ModulePath,
    pub(crate) from_file: &'a str,
    pub(crate) mention: &'a Mention,
    /// The module that the path names, and the module that defines the name.
    pub(crate) named: ModulePath,
    pub(crate) defined: ModulePath,
    pub(crate) defined_file: &'a str,
}

impl Import<'_> {
    /// Returns the place and the text of the import.
    pub(crate) fn place(&self) -> String {
        place(self.from_file, self.mention)
    }
}

/// Returns the place and the text of a path.
pub(crate) fn place(file: &str, mention: &Mention) -> String {
    format!("{file}:{}: `{}`", mention.line, mention.path.join("::"))
}

/// Returns the module at the top of the source that contains a module. The root of a crate is `lib`.
pub(crate) fn top(path: &[String]) -> &str {
    path.first().map_or("lib", String::as_str)
}

/// Returns all imports. A name that a module only passes on from a module inside it is none: `pub use self::child::Name`.
pub(crate) fn imports(tree: &Tree) -> Vec<Import<'_>> {
    let mut imports = Vec::new();
    for (from, module) in &tree.modules {
        for mention in &module.content.mentions {
            let Some((named, rest)) = tree.named(from, &mention.path, 0) else {
                continue;
            };
            let defined = tree.definition(&named, &rest, 0).unwrap_or(named.clone());
            let defined_file = &tree.modules[&defined].file;
            let is_facade = mention.is_passed_on && defined.starts_with(from);
            if *defined_file != module.file && !is_facade {
                imports.push(Import {
                    from: from.clone(),
                    from_file: &module.file,
                    mention,
                    named,
                    defined,
                    defined_file,
                });
            }
        }
    }
    imports
}

/// The steps after which a search ends. Two modules can pass on each other's names.
const MAX_STEPS: usize = 16;

impl Tree {
    fn contains(&self, path: &[String]) -> bool {
        self.modules.contains_key(path)
    }

    /// Returns the module that a path begins with, and the names after it. `None`: the path begins with a name of another
    /// crate, or with a local name.
    pub(crate) fn named(
        &self,
        from: &[String],
        path: &[String],
        steps: usize,
    ) -> Option<(ModulePath, Vec<String>)> {
        let (first, mut rest) = path.split_first()?;
        let TreeModule { content, root, .. } = &self.modules[from];
        let mut module = from.to_vec();
        match first.as_str() {
            "crate" => module = root.module_path(),
            "self" => {}
            "super" => {
                module.pop();
                while let Some((next, after)) = rest.split_first()
                    && next == "super"
                {
                    module.pop();
                    rest = after;
                }
            }
            name => {
                module.push(name.to_owned());
                if !self.contains(&module) {
                    let mut uses = content.uses.iter();
                    let alias = uses.find(|each| each.name.as_deref() == Some(name));
                    match alias {
                        Some(alias) if alias.path != path && steps < MAX_STEPS => {
                            let whole: Vec<_> = alias.path.iter().chain(rest).cloned().collect();
                            return self.named(from, &whole, steps + 1);
                        }
                        _ => {
                            let mut roots = self.roots.iter();
                            module = roots.find(|root| root.crate_name == name)?.module_path();
                        }
                    }
                }
            }
        }
        while let Some((next, after)) = rest.split_first() {
            module.push(next.clone());
            if !self.contains(&module) {
                module.pop();
                break;
            }
            rest = after;
        }
        self.contains(&module).then(|| (module, rest.to_vec()))
    }

    /// Returns the module that defines the first name after a module. `None`: it cannot be found.
    fn definition(&self, module: &[String], rest: &[String], steps: usize) -> Option<ModulePath> {
        let Some((name, after)) = rest.split_first() else {
            return Some(module.to_vec());
        };
        let content = &self.modules[module].content;
        if content.definitions.contains(name) {
            return Some(module.to_vec());
        }
        if steps == MAX_STEPS {
            return None;
        }
        let follow = |path: &[String], rest: &[String]| {
            let (next, mut names) = self.named(module, path, steps + 1)?;
            names.extend_from_slice(rest);
            (next != module).then(|| self.definition(&next, &names, steps + 1))?
        };
        let mut uses = content.uses.iter();
        if let Some(alias) = uses.find(|each| each.name.as_ref() == Some(name)) {
            return follow(&alias.path, after);
        }
        let mut globs = content.uses.iter().filter(|each| each.name.is_none());
        globs.find_map(|glob| follow(&glob.path, rest))
    }
}
