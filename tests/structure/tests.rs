//! Each rule finds the source that breaks it, and accepts the source beside it.

use super::rules::{CrateRule, Layer, Root};
use super::tree::Tree;
use super::{circles, clocks, crates, layers};

const ONE_CRATE: &[Root] = &[Root {
    crate_name: "app",
    folder: "src",
    module: "",
}];

/// The store is a crate of its own.
const TWO_CRATES: &[Root] = &[
    Root {
        crate_name: "app",
        folder: "src",
        module: "",
    },
    Root {
        crate_name: "app_store",
        folder: "src/store",
        module: "store",
    },
];

const LAYERS: &[Layer] = &[
    Layer {
        module: "store",
        imports: &[],
    },
    Layer {
        module: "broker",
        imports: &["store"],
    },
];

const CRATES: &[CrateRule] = &[CrateRule {
    crates: &["rusqlite"],
    places: &[("store/sqlite", "the store on SQLite")],
}];

fn tree(files: &[(&'static str, &'static str)]) -> Tree {
    Tree::of(ONE_CRATE, files.iter().copied())
}

fn circles_of(files: &[(&'static str, &'static str)]) -> Vec<String> {
    circles::problems(&tree(files))
}

fn layers_of(files: &[(&'static str, &'static str)]) -> Vec<String> {
    layers::problems(&tree(files), LAYERS)
}

fn crates_of(files: &[(&'static str, &'static str)]) -> Vec<String> {
    crates::problems(&tree(files), CRATES)
}

/// Asserts that there is one problem, whose text contains these parts.
#[track_caller]
fn assert_one(problems: &[String], parts: &[&str]) {
    assert_eq!(problems.len(), 1, "{problems:?}");
    for part in parts {
        assert!(problems[0].contains(part), "{part:?}: {}", problems[0]);
    }
}

#[test]
fn two_files_that_import_each_other_are_a_circle() {
    let problems = circles_of(&[
        ("src/a.rs", "use crate::b::B;\npub struct A;"),
        ("src/b.rs", "\nuse super::a::A;\npub struct B;"),
    ]);
    assert_one(
        &problems,
        &[
            "src/a.rs:1: `crate::b::B` is in src/b.rs",
            "src/b.rs:2: `super::a::A` is in src/a.rs",
        ],
    );
}

#[test]
fn circle_of_three_files_is_found() {
    let problems = circles_of(&[
        ("src/a.rs", "use crate::b;"),
        ("src/b.rs", "use crate::c;"),
        ("src/c.rs", "use crate::a;"),
        ("src/d.rs", "use crate::a;"),
    ]);
    assert_one(
        &problems,
        &["3 files import each other: src/a.rs, src/b.rs, src/c.rs."],
    );
}

#[test]
fn imports_in_one_direction_are_no_circle() {
    let problems = circles_of(&[
        ("src/a.rs", "use crate::{b::B, c::*};"),
        ("src/b.rs", "use super::c;\npub struct B;"),
        ("src/c.rs", "pub struct C;"),
    ]);
    assert_eq!(problems, [""; 0]);
}

#[test]
fn name_through_a_facade_belongs_to_its_definition() {
    let facade = "mod b;\nmod c;\npub use self::b::B;\npub use self::c::C;";
    let passed_on = [
        ("src/a.rs", facade),
        ("src/a/b.rs", "use crate::a::C;\npub struct B;"),
        ("src/a/c.rs", "pub struct C;"),
    ];
    assert_eq!(circles_of(&passed_on), [""; 0]);
    let circle = [
        ("src/a.rs", facade),
        ("src/a/b.rs", "use crate::a::C;\npub struct B;"),
        ("src/a/c.rs", "use super::B;\npub struct C;"),
    ];
    assert_one(&circles_of(&circle), &["`super::B` is in src/a/b.rs"]);
}

#[test]
fn parent_that_uses_its_child_is_no_facade() {
    let problems = circles_of(&[
        ("src/a.rs", "mod b;\nuse self::b::B;\npub struct A(B);"),
        ("src/a/b.rs", "use super::A;\npub struct B;"),
    ]);
    assert_one(&problems, &["2 files"]);
}

#[test]
fn paths_in_code_and_macros_are_imports() {
    for code in [
        "fn f() { crate::b::g() }",
        "fn f() { println!(\"{}\", crate::b::g()) }",
        "#[derive(crate::b::Derive)] struct S;",
        "mod inside { fn f() { super::super::b::g() } }",
        "use crate as root; fn f() -> root::b::B { B }",
    ] {
        let file = ("src/b.rs", "use crate::a;");
        let problems = Tree::of(ONE_CRATE, [("src/a.rs", code), file]);
        assert_one(&circles::problems(&problems), &["src/b.rs"]);
    }
}

#[test]
fn tests_may_import_everything() {
    for test in [
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(test)] mod tests;",
        "#[cfg(all(test, unix))] use crate::b::B;",
    ] {
        let tree = Tree::of(
            ONE_CRATE,
            [
                ("src/a.rs", test),
                ("src/a/tests.rs", "use crate::b::B;"),
                ("src/b.rs", "use crate::a;\npub struct B;"),
            ],
        );
        assert_eq!(circles::problems(&tree), [""; 0]);
    }
}

#[test]
fn module_must_not_import_a_module_above_it() {
    assert_eq!(
        layers_of(&[
            ("src/broker.rs", "use crate::store::Store;"),
            ("src/store.rs", "pub struct Store;")
        ]),
        [""; 0]
    );
    let problems = layers_of(&[
        ("src/broker.rs", "pub struct Broker;"),
        ("src/store/sqlite.rs", "\n\nuse crate::broker::Broker;"),
    ]);
    assert_one(
        &problems,
        &[
            "src/store/sqlite.rs:3: `crate::broker::Broker`",
            "store must not import broker",
        ],
    );
}

#[test]
fn forbidden_import_is_found_behind_a_facade() {
    let problems = layers_of(&[
        ("src/broker.rs", "pub struct Limits;"),
        (
            "src/store.rs",
            "mod sqlite;\npub use crate::broker::Limits;",
        ),
        ("src/store/sqlite.rs", "use super::Limits;"),
    ]);
    assert_eq!(problems.len(), 2, "{problems:?}");
}

#[test]
fn new_module_must_be_in_the_table() {
    let problems = layers_of(&[("src/gossip.rs", "")]);
    assert_one(&problems, &["the module gossip is not in LAYERS"]);
}

#[test]
fn table_of_layers_has_no_circle() {
    let tables: [&[Layer]; 2] = [
        &[
            Layer {
                module: "a",
                imports: &["b"],
            },
            Layer {
                module: "b",
                imports: &[],
            },
        ],
        &[Layer {
            module: "a",
            imports: &["a"],
        }],
    ];
    for table in tables {
        assert_one(
            &layers::problems(&tree(&[]), table),
            &["does not stand before"],
        );
    }
}

#[test]
fn external_crate_is_named_only_in_its_place() {
    let store = ("src/store/sqlite/read.rs", "use rusqlite::Connection;");
    assert_eq!(crates_of(&[store]), [""; 0]);
    for code in [
        "use rusqlite::Connection;",
        "fn f(error: rusqlite::Error) {}",
        "fn f() { assert!(rusqlite::version() > 0) }",
        "pub(crate) use ::rusqlite;",
    ] {
        let tree = Tree::of(ONE_CRATE, [store, ("src/broker.rs", code)]);
        let problems = crates::problems(&tree, CRATES);
        assert_one(&problems, &["src/broker.rs:1: `rusqlite", "store/sqlite"]);
    }
}

#[test]
fn module_with_the_name_of_a_crate_is_another_thing() {
    let problems = crates_of(&[
        ("src/store/sqlite.rs", "use rusqlite::Connection;"),
        (
            "src/broker.rs",
            "mod rusqlite;\nuse self::rusqlite::X;\nfn f() { rusqlite::g() }",
        ),
        ("src/broker/rusqlite.rs", "pub struct X;"),
    ]);
    assert_eq!(problems, [""; 0]);
}

#[test]
fn place_that_does_not_name_its_crate_is_deleted() {
    let problems = crates_of(&[("src/store/sqlite_like.rs", "")]);
    assert_one(&problems, &["store/sqlite does not name rusqlite"]);
}

#[test]
fn folder_that_becomes_a_crate_keeps_its_rules() {
    let files = [
        (
            "src/broker.rs",
            "use app_store::table::Table;\npub struct Broker;",
        ),
        (
            "src/store/lib.rs",
            "pub mod table;\nuse app::broker::Broker;",
        ),
        (
            "src/store/table.rs",
            "use crate::sqlite::Row;\npub struct Table;",
        ),
        (
            "src/store/sqlite.rs",
            "use crate::table::Table;\nuse rusqlite::Row as R;\npub struct Row;",
        ),
    ];
    let tree = Tree::of(TWO_CRATES, files);
    assert_one(
        &circles::problems(&tree),
        &["2 files", "src/store/table.rs"],
    );
    assert_one(
        &layers::problems(&tree, LAYERS),
        &["`app::broker::Broker` is in src/broker.rs"],
    );
    assert_eq!(crates::problems(&tree, CRATES), [""; 0]);
}

#[test]
fn clock_of_the_system_in_the_broker_is_a_problem() {
    let problems = clocks::problems(&tree(&[
        ("src/lib.rs", "mod broker; mod store;"),
        ("src/broker.rs", "use std::time::{Duration, Instant};"),
        ("src/store.rs", "use std::time::Instant;"),
    ]));
    assert_one(&problems, &["src/broker.rs:1", "tokio::time::Instant"]);
}
