//! The addresses of web servers, such as `http://127.0.0.1:4317`.

/// Returns whether a text is an address with a host and the scheme `http` or `https`.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|address| {
        matches!(address.scheme_str(), Some("http" | "https")) && address.host().is_some()
    })
}
