//! The check of clients' certificates: which authorities can sign which of them, and whether one was revoked.
//!
//! | certificate | authorities | revocation lists |
//! |---|---|---|
//! | with a SPIFFE id, if trust domains are configured | those of its trust domain, and no others | none: SPIFFE renews certificates instead |
//! | any other | `client_authorities` | `client_revocation_lists`, for the whole chain |

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::authorities::Authorities;
use super::certificate_names::CertificateNames;

/// The check of clients' certificates.
#[derive(Clone, Debug)]
pub(crate) struct ClientVerifier {
    /// The authorities of each trust domain. Empty: SPIFFE ids are as other names.
    pub(super) by_trust_domain: BTreeMap<String, Arc<Authorities>>,
    /// The authorities of all other certificates. `None`: these are refused.
    pub(super) others: Option<Arc<Authorities>>,
    pub(super) is_mandatory: bool,
    pub(super) provider: Arc<CryptoProvider>,
}

impl ClientVerifier {
    /// Returns the same check for a port on which a client can also show no certificate.
    pub(super) fn optional(&self) -> Self {
        Self {
            is_mandatory: false,
            ..self.clone()
        }
    }

    /// Returns the names of a certificate that was verified. The authorities of a trust domain can only give SPIFFE ids.
    ///
    /// # Errors
    /// The reason why they cannot be used.
    pub(crate) fn names(&self, own: &CertificateDer<'_>) -> Result<CertificateNames, &'static str> {
        let mut names = CertificateNames::of(own)?;
        if names.spiffe_id.is_some() && !self.by_trust_domain.is_empty() {
            names.dns_names.clear();
        }
        Ok(names)
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    /// Their names would tell everyone who connects which authorities there are.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let mut authorities = self.others.as_ref();
        if !self.by_trust_domain.is_empty() {
            // A certificate whose names cannot be used has no identity. It is of none of the authorities.
            let names = CertificateNames::of(own).map_err(|_| unknown.clone())?;
            if let Some(domain) = names.trust_domain() {
                authorities = self.by_trust_domain.get(domain);
            }
        }
        authorities.ok_or(unknown)?.verify(own, others, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, own, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, own, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
