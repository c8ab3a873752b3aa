//! The parts of PEM files: certificates, revocation lists and private keys.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

/// Returns the certificates of a PEM file.
///
/// # Errors
/// The reason why the file cannot be used.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    all(CertificateDer::pem_slice_iter(pem), "certificate")
}

/// Returns the revocation lists of a PEM file.
pub(super) fn revocation_lists(
    pem: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    all(
        CertificateRevocationListDer::pem_slice_iter(pem),
        "revocation list (X509 CRL)",
    )
}

/// Returns the first private key of a PEM file.
///
/// # Errors
/// The reason why the file cannot be used.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if pem.windows(9).any(|part| part == b"ENCRYPTED") {
        return Err("the private key has a passphrase: use a key without one".to_owned());
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            "the file has no private key in PEM that can be used".to_owned()
        }
        error => problem(&error),
    })
}

fn all<T>(
    parts: impl Iterator<Item = Result<T, pem::Error>>,
    what: &str,
) -> Result<Vec<T>, String> {
    let parts: Vec<T> = parts
        .collect::<Result<_, _>>()
        .map_err(|error| problem(&error))?;
    if parts.is_empty() {
        return Err(format!("the file has no {what} in PEM"));
    }
    Ok(parts)
}

fn problem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            let end = String::from_utf8_lossy(end_marker);
            format!("not valid PEM: the line -----END {end}----- is missing")
        }
        pem::Error::IllegalSectionStart { line } => {
            let line = String::from_utf8_lossy(line);
            format!("not valid PEM: the line {line:?} begins no section")
        }
        error => format!("not valid PEM: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_names_the_part_in_words() {
        let cut = certificates(b"-----BEGIN CERTIFICATE-----\nAAAA\n").expect_err("cut");
        assert!(
            cut.ends_with("the line -----END CERTIFICATE----- is missing"),
            "{cut}"
        );
        let none = certificates(b"hello").expect_err("no PEM");
        assert_eq!(none, "the file has no certificate in PEM");
        for encrypted in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
        ] {
            let refused = private_key(encrypted.as_bytes()).expect_err("encrypted");
            assert!(refused.contains("has a passphrase"), "{refused}");
        }
    }
}
