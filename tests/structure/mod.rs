//! The structure of the source: no two files import each other, a module imports only the modules below it, an external crate is
//! named only where it belongs, and the broker reads the clock that tests can move. `structure/rules.rs` has the rules as tables.

mod circles;
mod clocks;
mod crates;
mod document_paths;
mod imports;
mod layers;
mod parse;
mod rules;
mod tests;
mod tree;

use std::path::Path;
use std::sync::LazyLock;

use self::tree::Tree;

/// The source of this repository.
static SOURCE: LazyLock<Tree> =
    LazyLock::new(|| Tree::read(Path::new(env!("CARGO_MANIFEST_DIR")), rules::ROOTS));

/// Fails with all problems.
fn assert_none(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{} problems:\n\n{}\n",
        problems.len(),
        problems.join("\n\n")
    );
}

#[test]
fn no_files_import_each_other() {
    assert_none(&circles::problems(&SOURCE));
}

#[test]
fn modules_import_only_modules_below_them() {
    assert_none(&layers::problems(&SOURCE, rules::LAYERS));
}

#[test]
fn external_crates_are_named_only_where_they_belong() {
    assert_none(&crates::problems(&SOURCE, rules::CRATES));
}

#[test]
fn broker_reads_the_clock_of_the_runtime() {
    assert_none(&clocks::problems(&SOURCE));
}
