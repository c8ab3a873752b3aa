//! Checks the imports between the modules at the top of the source.

use std::collections::BTreeSet;

use super::imports::{imports, top};
use super::rules::Layer;
use super::tree::Tree;

/// Returns a text for each import that the table does not allow, and for each mistake in the table.
pub(crate) fn problems(tree: &Tree, layers: &[Layer]) -> Vec<String> {
    let mut problems = mistakes(layers);
    let layer = |name: &str| layers.iter().find(|layer| layer.module == name);
    let tops = tree.modules.keys().map(|path| top(path));
    for top in tops.collect::<BTreeSet<_>>() {
        if layer(top).is_none() {
            problems.push(format!(
                "the module {top} is not in LAYERS: add it to tests/structure/rules.rs with the modules that it may import"
            ));
        }
    }
    for import in imports(tree) {
        let from = top(&import.from);
        let Some(layer) = layer(from) else {
            continue;
        };
        let needed = BTreeSet::from([top(&import.named), top(&import.defined)]);
        let needed = needed.into_iter().filter(|needed| *needed != from);
        for needed in needed.filter(|needed| !layer.imports.contains(needed)) {
            problems.push(format!(
                "{} is in {}\n  {from} must not import {needed}. Move what both need to a module below them, or let the caller \
                 pass it. LAYERS in tests/structure/rules.rs has the rules.",
                import.place(),
                import.defined_file
            ));
        }
    }
    problems
}

/// Returns a text for each module of the table that is not below the modules that import it.
fn mistakes(layers: &[Layer]) -> Vec<String> {
    let mut below = BTreeSet::new();
    let mut mistakes = Vec::new();
    for layer in layers {
        for needed in layer.imports.iter().filter(|name| !below.contains(*name)) {
            mistakes.push(format!(
                "LAYERS in tests/structure/rules.rs: {} may import {needed}, which does not stand before it",
                layer.module
            ));
        }
        below.insert(layer.module);
    }
    mistakes
}
