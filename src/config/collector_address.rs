//! The address of a collector of spans and metrics, such as `http://127.0.0.1:4317`.

/// Returns whether a text is such an address.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|address| {
        matches!(address.scheme_str(), Some("http" | "https")) && address.host().is_some()
    })
}
