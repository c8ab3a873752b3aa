//! Compares the output of commands with the output that a document shows.

use std::sync::LazyLock;

use regex::Regex;

/// Parts of a line that differ from run to run, and their replacements.
static VOLATILE_PARTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\b[A-Za-z0-9_-]{50,}", "LEASE_ID"),
        (r"\b\d+(ms|s|m|h)( \d+(ms|s|m))*\b", "TIME"),
        (r"\b\d{4}-\d\d-\d\dT[0-9:.]+Z", "MOMENT"),
        (r"\b\d{10} \((UNIX|\d+ seconds ago)\)", "MOMENT"),
        (r"\bgreater than \d+", "greater than TOKEN"),
        (r"\b(expired|takeovers|seconds)=[0-9.]+", "$1=SOME"),
        // The rows of each worker of the demo, and which worker it kills, differ from run to run.
        (r"^(worker-\d) .* (killed|finished)$", "$1 ENDED"),
        (r"^admin port: http://127.0.0.1:\d+$", "admin port: ADDRESS"),
        // A service does not know the user of a command.
        (r"; by database:[^@ ]+@[^ ]+$", ""),
        (r"127\.0\.0\.1:4\d{4}", "ADDRESS"),
        (r"127\.0\.0\.1:3\d{4}", "ADDRESS"),
        (r" +", " "),
    ]
    .map(|(pattern, replacement)| (Regex::new(pattern).expect("a pattern"), replacement))
    .into()
});

/// Removes the codes for colours, which no terminal shows. Maven prints them even if it prints nothing else.
pub(crate) fn without_colours(text: &str) -> String {
    static COLOUR: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("\x1b\\[[0-9;]*m").expect("a pattern"));
    COLOUR.replace_all(text, "").into_owned()
}

/// Replaces the parts of a line that differ from run to run.
pub(crate) fn without_volatile_parts(line: &str) -> String {
    let line = VOLATILE_PARTS
        .iter()
        .fold(line.to_owned(), |line, (pattern, replacement)| {
            pattern.replace_all(&line, *replacement).into_owned()
        });
    line.trim_end().to_owned()
}

/// Returns whether the printed lines are the lines shown. A shown line `...` matches any number of lines.
pub(crate) fn matches(shown: &[String], printed: &[String]) -> bool {
    match (shown, printed) {
        ([], printed) => printed.is_empty(),
        ([any, rest @ ..], printed) if any == "..." => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        ([one, rest @ ..], [printed, more @ ..]) => one == printed && matches(rest, more),
        ([_, ..], []) => false,
    }
}

#[test]
fn only_an_ellipsis_matches_any_lines() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(matches(&lines("a\n...\nd"), &lines("a\nb\nc\nd")));
    assert!(matches(&lines("a\n..."), &lines("a")));
    assert!(!matches(&lines("a\n...\nd"), &lines("a\nb")));
    assert!(!matches(&lines("a"), &lines("a\nb")));
    assert!(!matches(&lines("a\nb"), &lines("a")));
}

#[test]
fn volatile_values_are_replaced() {
    assert_eq!(
        without_volatile_parts("1    me     12ms   4m 59s     1"),
        "1 me TIME TIME 1"
    );
    assert_ne!(
        without_volatile_parts("1 me 12ms"),
        without_volatile_parts("2 me 12ms")
    );
}
