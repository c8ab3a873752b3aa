//! Messages about values of a wrong type, without the words of the language that this program is written in.

/// The beginning of the message about a setting that does not exist.
pub(super) const UNKNOWN_FIELD: &str = "unknown field";

/// Names of types in messages, and the words for them.
const TYPES: [(&str, &str); 9] = [
    ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number from 0"),
    ("usize", "a whole number from 0"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a sequence", "a list"),
    ("a map", "a section of settings"),
];

/// Replaces the name of the expected type.
pub(super) fn in_plain_words(message: &str) -> String {
    let Some((given, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let (expected, rest) = expected.split_once('\n').unwrap_or((expected, ""));
    let words = TYPES.iter().find(|(name, _)| *name == expected.trim_end());
    let expected = match words {
        Some((_, words)) => words,
        None if expected.starts_with("struct ") => "a section of settings",
        None => expected,
    };
    [format!("{given}, expected {expected}"), rest.to_owned()]
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns whether a message is about a value that is no text, or has several parts, where one of several words is expected.
pub(super) fn is_of_wrong_choice(message: &str) -> bool {
    [
        "unit variant",
        "wanted exactly 1 element",
        "wanted string or table",
        "expected map with a single key",
    ]
    .iter()
    .any(|words| message.contains(words))
}

/// Returns the choices that the message of an unknown one names.
pub(super) fn choices_of(message: &str) -> Option<String> {
    let choices = message.strip_prefix("unknown variant ``, ")?;
    Some(choices.trim_end().to_owned())
}
