//! Checks that a test shows each promise of the pages about faults and security.
//!
//! The rule: each paragraph, list entry and table of these pages is followed by a comment that says what it is.
//!
//! | comment | the text before it |
//! |---|---|
//! | `<!-- test: NAME, NAME -->` | is a promise. `NAME` is the end of a test's path, such as `clock_steps::lost_lease` |
//! | `<!-- no promise: KIND -->` | promises nothing. `KIND` is one of [`NO_PROMISES`] |
//!
//! Directly below a heading, the second comment counts for all texts of the section that have none of their own. A table whose
//! last column is `test` needs no comment: each of its rows names tests, or modules of tests, in that column. Headings, code,
//! the first paragraph of a page and a text that ends with a colon need none either.

mod blocks;
mod test_names;

use std::path::Path;

use self::blocks::{Block, Mark};
use self::test_names::TestNames;

/// The pages.
const PAGES: &[&str] = &["docs/reliability.md", "docs/security.md", "SECURITY.md"];

/// The kinds of text that promises nothing: what the reader should do, how something works, what is not promised, and the
/// figures of a run.
const NO_PROMISES: &[&str] = &["advice", "background", "limit", "measured"];

#[test]
fn each_promise_names_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = TestNames::read(root);
    let problems: Vec<String> = PAGES
        .iter()
        .flat_map(|page| {
            let text = std::fs::read_to_string(root.join(page)).expect("the page can be read");
            problems(page, &text, &names)
        })
        .collect();
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// Returns a text for each block that is not followed by a valid comment.
fn problems(page: &str, text: &str, names: &TestNames) -> Vec<String> {
    let blocks = blocks::parse(text);
    let problem = |block: &Block| {
        let problem = match &block.mark {
            Mark::None => Some("is followed by no comment that names a test".to_owned()),
            Mark::Tests(tests) if tests.is_empty() => Some("names no test".to_owned()),
            Mark::Tests(tests) => tests
                .iter()
                .find(|name| !names.has_test(name))
                .map(|name| format!("names {name}, which is no test")),
            Mark::TestsOrModules(tests) if tests.is_empty() => Some("names no test".to_owned()),
            Mark::TestsOrModules(tests) => tests
                .iter()
                .find(|name| !names.has_test(name) && !names.has_module(name))
                .map(|name| format!("names {name}, which is no test and no module of tests")),
            Mark::NoPromise(kind) => (!NO_PROMISES.contains(&kind.as_str()))
                .then(|| format!("has the kind {kind:?}, which is none of {NO_PROMISES:?}")),
        };
        let start: String = block.text.chars().take(60).collect();
        problem.map(|problem| format!("{page}:{}: {start:?} {problem}", block.line))
    };
    blocks.iter().filter_map(problem).collect()
}

#[test]
fn text_without_a_test_is_reported_with_its_line() {
    let names = TestNames::of(["api::clock_steps::lost_lease"]);
    let page = "\
# Title

For operators.

## Section

A promise
of two lines.
<!-- test: clock_steps::lost_lease -->

Another promise.

An introduction:

- One.
  <!-- test: other::test -->
- Two.
  <!-- no promise: boast -->

| fault | test |
|---|---|
| one | `api::clock_steps` |
| two | `api::nothing` |

## Figures
<!-- no promise: measured -->

| a | b |
|---|---|
| 1 | 2 |

```text
Code.
```
";
    let expected = [
        r#"page.md:11: "Another promise." is followed by no comment that names a test"#,
        r#"page.md:15: "One." names other::test, which is no test"#,
        r#"page.md:17: "Two." has the kind "boast", which is none of ["advice", "background", "limit", "measured"]"#,
        r#"page.md:23: "two" names api::nothing, which is no test and no module of tests"#,
    ];
    assert_eq!(problems("page.md", page, &names), expected);
}
