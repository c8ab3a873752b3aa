//! The names in a client's certificate: its SPIFFE id, and its DNS names.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The longest list of DNS names that is looked at.
const MAX_NAMES: usize = 64;

/// The names by which a certificate identifies its owner. The common name of the subject is not one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// The SPIFFE id.
    pub spiffe_id: Option<String>,
    /// The DNS names, up to 64.
    pub dns_names: Vec<String>,
}

impl CertificateNames {
    /// Reads the names of a certificate that has been verified.
    ///
    /// # Errors
    /// The certificate cannot be read, or has two SPIFFE ids.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, &'static str> {
        let certificate = EndEntityCert::try_from(certificate);
        let certificate = certificate.map_err(|_| "the certificate cannot be read")?;
        let mut spiffe_ids = certificate
            .valid_uri_names()
            .filter(|name| name.starts_with("spiffe://"));
        let spiffe_id = spiffe_ids.next().map(str::to_owned);
        if spiffe_ids.next().is_some() {
            return Err("the certificate has two SPIFFE ids");
        }
        let dns_names = certificate.valid_dns_names().take(MAX_NAMES);
        Ok(Self {
            spiffe_id,
            dns_names: dns_names.map(str::to_owned).collect(),
        })
    }
}
