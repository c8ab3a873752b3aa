//! Checks that the paths that a document names exist.
//!
//! A path is a text in backticks that contains `/` or has the ending of a source file, such as `src/grpc/` or `Cargo.toml`. It
//! starts at the root of the repository, so that it is the same in every section.

use std::path::Path;

/// The endings of files that a document names without a folder.
const ENDINGS: &[&str] = &[".md", ".proto", ".rs", ".sql", ".toml"];

#[test]
fn paths_in_the_architecture_page_exist() {
    const PAGE: &str = "docs/architecture.md";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(folder.join(PAGE)).expect("the page can be read");
    let problems = problems(PAGE, &text, |path| exists_in(folder, path));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns a text for each path in the document that does not exist. `exists` tells whether a path does.
fn problems(document: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let missing = paths(text).filter(|(_, path)| !exists(path));
    let problem = |(line, path)| {
        format!(
            "{document}:{line}: {path} does not exist. Write its present path from the root of the repository."
        )
    };
    missing.map(problem).collect()
}

/// Returns whether the folder contains a path. One that ends with `/` must be a folder.
fn exists_in(folder: &Path, path: &str) -> bool {
    let target = folder.join(path);
    if path.ends_with('/') {
        target.is_dir()
    } else {
        target.exists()
    }
}

/// Returns the paths in backticks outside of code blocks, each with the number of its line.
fn paths(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    let prose = (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    // The odd parts between backticks are code.
    let code = prose.flat_map(|(number, line)| {
        let parts = line.split('`').skip(1).step_by(2);
        parts.map(move |part| (number, part))
    });
    code.filter(|(_, part)| is_path(part))
}

fn is_path(text: &str) -> bool {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "._-/".contains(char);
    // A path of a URL begins with a slash.
    let names_place = text.contains('/') && !text.starts_with('/');
    text.chars().all(is_name) && (names_place || ENDINGS.iter().any(|end| text.ends_with(end)))
}

#[test]
fn paths_in_backticks_are_found_with_their_lines() {
    let text = "`src/lib.rs` and `GET /livez`\n```text\n`not/this.rs`\n```\n`/readyz`, `sql/`, `Cargo.toml`, `limits.max_items`";
    let found: Vec<_> = paths(text).collect();
    assert_eq!(found, [(1, "src/lib.rs"), (5, "sql/"), (5, "Cargo.toml")]);
}

#[test]
fn missing_path_is_reported_with_its_line() {
    let text = "One.\nIt is in `src/old.rs`, beside `src/new.rs`.";
    let problems = problems("page.md", text, |path| path == "src/new.rs");
    let expected = "page.md:2: src/old.rs does not exist. Write its present path from the root of the repository.";
    assert_eq!(problems, [expected]);
}
