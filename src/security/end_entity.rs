//! Finds the certificate of an authority in the place of the broker's own. Clients that use webpki, as those in Rust do, refuse it.

use std::time::Duration;

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

use super::validity::Validity;

/// The remedy.
pub(crate) const REMEDY: &str = "give the broker another certificate; if `openssl req -x509` makes it, add \
    `-addext basicConstraints=critical,CA:FALSE`";

/// Returns whether a certificate is one of an authority, as `openssl req -x509` makes it.
pub(crate) fn is_authority(certificate: &CertificateDer<'_>, validity: Validity) -> bool {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else {
        return false;
    };
    // The check fails in any case, because no authority is given. It looks at the time first.
    let time = UnixTime::since_unix_epoch(Duration::from_secs(validity.not_after));
    let usage = KeyUsage::server_auth();
    let checked = certificate.verify_for_usage(&[], &[], &[], time, usage, None, None);
    matches!(checked, Err(Error::CaUsedAsEndEntity))
}

/// Returns whether an error about the certificate of a service has this reason.
pub(crate) fn is_reported_by(error: &CertificateError) -> bool {
    let CertificateError::Other(error) = error else {
        return false;
    };
    matches!(error.0.downcast_ref(), Some(Error::CaUsedAsEndEntity))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    #[test]
    fn authority_is_told_from_other_certificates() {
        for (is_ca, expected) in [
            (IsCa::Ca(BasicConstraints::Unconstrained), true),
            (IsCa::ExplicitNoCa, false),
            (IsCa::NoCa, false),
        ] {
            let mut params = CertificateParams::default();
            params.is_ca = is_ca;
            let key = KeyPair::generate().expect("a key");
            let certificate = params.self_signed(&key).expect("a certificate");
            let validity = Validity::of(certificate.der()).expect("a validity");
            assert_eq!(is_authority(certificate.der(), validity), expected);
        }
    }
}
