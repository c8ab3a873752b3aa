//! The names in a client's certificate: its SPIFFE id, and its DNS names.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::spiffe::{is_spiffe_uri, trust_domain};

/// The longest list of DNS names that is looked at.
const MAX_NAMES: usize = 64;

/// The names by which a certificate identifies its owner. The common name of the subject is not one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// The SPIFFE id.
    pub spiffe_id: Option<String>,
    /// The DNS names, up to 64. One with `*` names no host, so it is left out.
    pub dns_names: Vec<String>,
}

impl CertificateNames {
    /// Reads the names of a certificate.
    ///
    /// # Errors
    /// The certificate cannot be read, has a SPIFFE id that is not in the right form, or has one and another URI: a certificate
    /// with a SPIFFE id has exactly one URI (X.509-SVID, section 2).
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, &'static str> {
        let certificate = EndEntityCert::try_from(certificate);
        let certificate = certificate.map_err(|_| "the certificate cannot be read")?;
        let dns_names = certificate.valid_dns_names();
        let dns_names = dns_names.filter(|name| !name.contains('*')).take(MAX_NAMES);
        Ok(Self {
            spiffe_id: spiffe_id(certificate.valid_uri_names())?.map(str::to_owned),
            dns_names: dns_names.map(str::to_owned).collect(),
        })
    }

    /// Returns the names of a certificate with this SPIFFE id and no other name.
    ///
    /// # Errors
    /// The id is not in the right form.
    pub fn of_spiffe_id(id: &str) -> Result<Self, &'static str> {
        let id = spiffe_id([id].into_iter())?.ok_or("the SPIFFE id is malformed")?;
        Ok(Self {
            spiffe_id: Some(id.to_owned()),
            dns_names: Vec::new(),
        })
    }

    /// Returns the trust domain of the SPIFFE id.
    pub fn trust_domain(&self) -> Option<&str> {
        self.spiffe_id.as_deref().and_then(trust_domain)
    }
}

/// Returns the SPIFFE id among the URIs of a certificate.
pub(super) fn spiffe_id<'a>(
    uris: impl Iterator<Item = &'a str>,
) -> Result<Option<&'a str>, &'static str> {
    let (mut id, mut uri_count) = (None, 0);
    for uri in uris {
        uri_count += 1;
        if is_spiffe_uri(uri) {
            id = Some(uri);
        }
    }
    match id {
        None => Ok(None),
        Some(_) if uri_count > 1 => Err("the certificate has a SPIFFE id and another URI"),
        Some(id) if trust_domain(id).is_none() => Err("the SPIFFE id is malformed"),
        Some(id) => Ok(Some(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spiffe_id_is_the_only_uri() {
        let id = |uris: &[&'static str]| spiffe_id(uris.iter().copied());
        assert_eq!(id(&[]), Ok(None));
        assert_eq!(id(&["https://a", "urn:b"]), Ok(None));
        assert_eq!(id(&["spiffe://a/b"]), Ok(Some("spiffe://a/b")));
        for uris in [
            &["spiffe://a/b", "spiffe://a/b"][..],
            &["https://a", "spiffe://a/b"],
            &["spiffe://a/b", "https://a"],
            &["SPIFFE://a/b"],
            &["spiffe://a"],
        ] {
            assert!(id(uris).is_err(), "{uris:?}");
        }
    }
}
