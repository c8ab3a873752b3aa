//! SPIFFE ids: the form that the standards SPIFFE-ID and X.509-SVID give them.

use crate::config::is_trust_domain;

const SCHEME: &str = "spiffe://";
/// The longest id, in bytes.
const MAX_ID: usize = 2_048;

/// Returns whether a URI is meant as a SPIFFE id, in the right form or not.
pub(super) fn is_spiffe_uri(uri: &str) -> bool {
    let scheme = uri.as_bytes().get(..SCHEME.len());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME.as_bytes()))
}

/// Returns the trust domain of the id of a workload. `None`: the id is not in the right form.
pub(super) fn trust_domain(id: &str) -> Option<&str> {
    if id.len() > MAX_ID {
        return None;
    }
    let (domain, path) = id.strip_prefix(SCHEME)?.split_once('/')?;
    (is_trust_domain(domain) && path.split('/').all(is_segment)).then_some(domain)
}

fn is_segment(segment: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !matches!(segment, "" | "." | "..") && segment.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_workloads_have_a_trust_domain() {
        assert_eq!(
            trust_domain("spiffe://prod.example/ns/a_b/sa/W-1"),
            Some("prod.example")
        );
        let long = format!("spiffe://a/{}", "x".repeat(MAX_ID));
        let domain = format!("spiffe://{}/a", "x".repeat(256));
        for id in [
            "spiffe://prod.example",
            "spiffe://prod.example/",
            "spiffe:///a",
            "spiffe://Prod/a",
            "SPIFFE://prod/a",
            "spiffe://user@prod/a",
            "spiffe://prod:80/a",
            "spiffe://prod/a//b",
            "spiffe://prod/a/",
            "spiffe://prod/a/../b",
            "spiffe://prod/./a",
            "spiffe://prod/a?b",
            "spiffe://prod/a#b",
            "spiffe://prod/%61",
            "spiffe://prod/*",
            "spiffe://prod/é",
            "https://prod/a",
            "",
            &long,
            &domain,
        ] {
            assert_eq!(trust_domain(id), None, "{id}");
        }
    }
}
