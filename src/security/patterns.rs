//! Patterns with `*`: for names of queues and subjects of tokens, and for names in certificates.

/// Returns whether a text fits a pattern in which `*` stands for any characters, also none.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at_pattern, mut at_text) = (0, 0);
    // The last `*`, and the end of the text that the last `*` has matched so far.
    let mut last_star = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                last_star = Some((at_pattern, at_text));
                at_pattern += 1;
            }
            Some(byte) if *byte == text[at_text] => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => {
                let Some((star, end)) = last_star else {
                    return false;
                };
                // The `*` stands for one byte more.
                last_star = Some((star, end + 1));
                at_pattern = star + 1;
                at_text = end + 1;
            }
        }
    }
    pattern[at_pattern..].iter().all(|byte| *byte == b'*')
}

/// Returns whether a SPIFFE id fits a pattern. `*` stands for characters of one segment, a last segment `**` for one segment
/// or more.
pub(super) fn fits_spiffe_id(pattern: &str, id: &str) -> bool {
    let mut parts = id.split('/');
    let mut patterns = pattern.split('/').peekable();
    while let Some(pattern) = patterns.next() {
        let Some(part) = parts.next() else {
            return false;
        };
        if pattern == "**" && patterns.peek().is_none() {
            return !part.is_empty();
        }
        // `*` alone must not stand for an empty segment: `a//b` is not a path of SPIFFE.
        if !fits(pattern, part) || (part.is_empty() && !pattern.is_empty()) {
            return false;
        }
    }
    parts.next().is_none()
}

/// Returns whether a DNS name fits a pattern. `*` stands for characters of one label. Upper and lower case are equal.
pub(super) fn fits_dns_name(pattern: &str, name: &str) -> bool {
    let [pattern, name] = [pattern, name].map(str::to_ascii_lowercase);
    let (patterns, labels) = (pattern.split('.'), name.split('.'));
    patterns.clone().count() == labels.clone().count()
        && patterns
            .zip(labels)
            .all(|(pattern, label)| fits(pattern, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_characters() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("*", "a/b", true),
            ("rain*", "rainfall", true),
            ("rain*", "rai", false),
            ("*a*b", "xxaybzb", true),
            ("*a*b", "xxaybz", false),
            ("a**b", "ab", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn star_in_a_spiffe_id_stays_in_its_segment() {
        let pattern = "spiffe://prod/ns/*/sa/w-*";
        for (id, expected) in [
            ("spiffe://prod/ns/rain/sa/w-1", true),
            ("spiffe://prod/ns/rain/x/sa/w-1", false),
            ("spiffe://prod/ns//sa/w-1", false),
            ("spiffe://prod/ns/rain/sa/w-1/x", false),
            ("spiffe://other/ns/rain/sa/w-1", false),
        ] {
            assert_eq!(fits_spiffe_id(pattern, id), expected, "{id}");
        }
        assert!(fits_spiffe_id("spiffe://prod/a/**", "spiffe://prod/a/b/c"));
        assert!(!fits_spiffe_id("spiffe://prod/a/**", "spiffe://prod/a"));
        assert!(!fits_spiffe_id("spiffe://prod/a/**", "spiffe://prod/a/"));
        assert!(!fits_spiffe_id(
            "spiffe://prod/a/**",
            "spiffe://prod.evil/a/b"
        ));
    }

    #[test]
    fn star_in_a_dns_name_stays_in_its_label() {
        assert!(fits_dns_name("*.Example.com", "a.example.COM"));
        assert!(!fits_dns_name("*.example.com", "a.b.example.com"));
        assert!(!fits_dns_name("*.example.com", "example.com"));
    }
}
