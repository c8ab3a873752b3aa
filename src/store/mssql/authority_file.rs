//! The file that `TrustServerCertificateCA` names. It is checked before the first connection, because the driver's errors do not name
//! the keyword and look like those of a server that cannot be reached.

use std::path::Path;

/// Checks that the driver can read certificates from a file.
///
/// # Errors
/// The problem, with the keyword and the file.
pub(super) fn check(path: &str) -> Result<(), String> {
    problem(Path::new(path)).map_or(Ok(()), |problem| {
        Err(format!("TrustServerCertificateCA={path}: {problem}"))
    })
}

fn problem(path: &Path) -> Option<String> {
    let is = |end: &str| {
        path.extension()
            .is_some_and(|is| is.eq_ignore_ascii_case(end))
    };
    let is_pem = is("pem") || is("crt");
    if !is_pem && !is("der") {
        return Some("the file's name must end with .pem, .crt (both PEM) or .der".to_owned());
    }
    let content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) => return Some(format!("cannot read the file: {error}")),
    };
    let text = String::from_utf8_lossy(&content);
    let has = |line: &str| text.contains(&format!("-----{line} CERTIFICATE-----"));
    match is_pem {
        true if !has("BEGIN") => Some("the file has no certificate in PEM".to_owned()),
        true if !has("END") => Some("the file ends within a certificate".to_owned()),
        false if content.is_empty() => Some("the file is empty".to_owned()),
        _ => None,
    }
}
