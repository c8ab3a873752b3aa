//! Reads one file of Rust: the names that it defines, and the paths that it mentions. Tests (`#[cfg(test)]`) are left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, ItemUse, Macro, Meta, Path, UseTree, Visibility};

/// The names of a module, from the root of its crate. Empty: the root itself.
pub(crate) type ModulePath = Vec<String>;

/// What a file says about its modules: itself, and the modules that it has in braces.
#[derive(Default)]
pub(crate) struct ParsedFile {
    pub(crate) modules: BTreeMap<ModulePath, Module>,
    /// The modules in other files that exist only for tests.
    pub(crate) tests: Vec<ModulePath>,
}

#[derive(Default)]
pub(crate) struct Module {
    /// The names of its items.
    pub(crate) definitions: BTreeSet<String>,
    pub(crate) uses: Vec<Use>,
    /// All paths of more than one name, in imports and elsewhere.
    pub(crate) mentions: Vec<Mention>,
}

/// An import, or a name that the module passes on with `pub use`.
pub(crate) struct Use {
    /// `None`: all names of the module that `path` names.
    pub(crate) name: Option<String>,
    pub(crate) path: Vec<String>,
}

/// A path as it is written.
pub(crate) struct Mention {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    /// It is in a `pub use`.
    pub(crate) is_passed_on: bool,
}

/// Parses a file. `module`: the path of its module.
pub(crate) fn parse(text: &str, module: ModulePath) -> syn::Result<ParsedFile> {
    let syntax = syn::parse_file(text)?;
    let mut reader = Reader {
        module: module.clone(),
        file: ParsedFile::default(),
    };
    reader.file.modules.insert(module, Module::default());
    reader.visit_file(&syntax);
    Ok(reader.file)
}

struct Reader {
    /// The module that is being read.
    module: ModulePath,
    file: ParsedFile,
}

impl Reader {
    fn present(&mut self) -> &mut Module {
        self.file.modules.entry(self.module.clone()).or_default()
    }

    fn mention(&mut self, path: Vec<String>, line: usize, is_passed_on: bool) {
        self.present().mentions.push(Mention {
            path,
            line,
            is_passed_on,
        });
    }

    fn read_use(&mut self, tree: &UseTree, path: &mut Vec<String>, line: usize, is_public: bool) {
        let (ident, name) = match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.read_use(&part.tree, path, line, is_public);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.read_use(tree, path, line, is_public);
                }
                return;
            }
            UseTree::Name(part) => (Some(&part.ident), Some(&part.ident)),
            UseTree::Rename(part) => (Some(&part.ident), Some(&part.rename)),
            UseTree::Glob(_) => (None, None),
        };
        let line = ident.map_or(line, line_of);
        let mut whole = path.clone();
        let mut name = name.map(ToString::to_string);
        match ident {
            // `a::{self}` imports `a`.
            Some(ident) if ident == "self" && !path.is_empty() => {
                name = name.filter(|name| name != "self").or(path.last().cloned());
            }
            Some(ident) => whole.push(ident.to_string()),
            None => {}
        }
        self.present().uses.push(Use {
            name,
            path: whole.clone(),
        });
        self.mention(whole, line, is_public);
    }

    /// Reads the paths in the arguments of a macro, which have no syntax of their own.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_of_path(&mut path, line);
                        line = line_of(&ident);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && colons < 2 => colons += 1,
                other => {
                    self.end_of_path(&mut path, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.end_of_path(&mut path, line);
    }

    fn end_of_path(&mut self, path: &mut Vec<String>, line: usize) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.mention(path, line, false);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = parts_of(item);
        if is_test(attributes) {
            if let Item::Mod(module) = item
                && module.content.is_none()
            {
                let name = module.ident.to_string();
                self.file.tests.push(joined(&self.module, name));
            }
            return;
        }
        let name = name.map(ToString::to_string);
        match (item, name) {
            (Item::Mod(_), Some(name)) => {
                self.module.push(name);
                visit::visit_item(self, item);
                self.module.pop();
            }
            (_, name) => {
                self.present().definitions.extend(name);
                visit::visit_item(self, item);
            }
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        let line = item.use_token.span.start().line;
        self.read_use(&item.tree, &mut Vec::new(), line, is_public);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let names = path.segments.iter().map(|part| &part.ident);
        let line = names.clone().next().map_or(0, line_of);
        if names.len() > 1 {
            self.mention(names.map(ToString::to_string).collect(), line, false);
        }
        visit::visit_path(self, path);
    }

    // `pub(in …)` is no import.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.read_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }
}

fn line_of(ident: &Ident) -> usize {
    ident.span().start().line
}

pub(crate) fn joined(path: &[String], name: String) -> Vec<String> {
    let mut path = path.to_vec();
    path.push(name);
    path
}

/// Returns whether an item exists only for tests.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,")
        }
        _ => false,
    })
}

/// Returns the attributes and the name of an item.
fn parts_of(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::ExternCrate(item) => (&item.attrs, None),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, Some(&item.ident)),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}
