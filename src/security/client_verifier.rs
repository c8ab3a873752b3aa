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
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::authorities::{Authorities, roots};
use super::certificate_names::CertificateNames;
use super::revocation_lists::RevocationLists;

/// The check of clients' certificates.
#[derive(Clone, Debug)]
pub(crate) struct ClientVerifier {
    /// The authorities of each trust domain. Empty: SPIFFE ids are as other names.
    by_trust_domain: BTreeMap<String, Arc<dyn ClientCertVerifier>>,
    /// The authorities of all other certificates. `None`: these are refused.
    others: Option<Arc<Authorities>>,
    is_mandatory: bool,
    provider: Arc<CryptoProvider>,
}

impl ClientVerifier {
    /// Starts with no authority.
    pub(super) fn new(is_mandatory: bool, provider: Arc<CryptoProvider>) -> Self {
        Self {
            by_trust_domain: BTreeMap::new(),
            others: None,
            is_mandatory,
            provider,
        }
    }

    /// Returns the same check for a port on which a client can also show no certificate.
    pub(super) fn optional(&self) -> Self {
        Self {
            is_mandatory: false,
            ..self.clone()
        }
    }

    /// Adds authorities for the SPIFFE ids of a trust domain.
    ///
    /// # Errors
    /// The reason why they cannot be used.
    pub(super) fn add_trust_domain(
        &mut self,
        name: &str,
        authorities: &[CertificateDer<'static>],
    ) -> Result<(), String> {
        let roots = roots(authorities)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, self.provider.clone());
        let verifier = verifier.build().map_err(|error| error.to_string())?;
        self.by_trust_domain.insert(name.to_owned(), verifier);
        Ok(())
    }

    /// Adds authorities for all other certificates, with the lists of certificates that they have revoked.
    ///
    /// # Errors
    /// The reason why the authorities cannot be used.
    pub(super) fn set_authorities(
        &mut self,
        authorities: &[CertificateDer<'static>],
        lists: Option<&RevocationLists>,
    ) -> Result<(), String> {
        let authorities = Authorities::new(authorities, lists, &self.provider)?;
        self.others = Some(Arc::new(authorities));
        Ok(())
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
        if !self.by_trust_domain.is_empty() {
            // A certificate whose names cannot be used has no identity. It is of none of the authorities.
            let names = CertificateNames::of(own).map_err(|_| unknown.clone())?;
            if let Some(domain) = names.trust_domain() {
                let verifier = self.by_trust_domain.get(domain).ok_or(unknown)?;
                return verifier.verify_client_cert(own, others, now);
            }
        }
        let authorities = self.others.as_ref().ok_or(unknown)?;
        authorities.verify(own, others, now)
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
