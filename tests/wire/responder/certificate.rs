//! Certificates, and an authority that signs them.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::TLS12;
use tokio_rustls::rustls::{ServerConfig, crypto::CryptoProvider};

/// A certificate with its key, as the responder presents it.
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Makes a certificate for these names that nobody else has signed.
    pub(crate) fn self_signed(names: &[&str]) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(names).self_signed(&key).expect("a certificate");
        Self {
            certificate: certificate.der().clone(),
            key: key.into(),
        }
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let provider: CryptoProvider = aws_lc_rs::default_provider();
        // Up to TDS 7.4 the handshake travels in packets, and what follows it does not; TLS 1.3 goes on after its end.
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS12])
            .expect("TLS 1.2")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key());
        Arc::new(config.expect("an identity"))
    }
}

/// An authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// Its own certificate, as a `.der` file holds it.
    pub(crate) fn der(&self) -> &[u8] {
        self.0.der()
    }

    /// Makes a certificate for these names and signs it.
    pub(crate) fn sign(&self, names: &[&str]) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(names).signed_by(&key, &self.0);
        Identity {
            certificate: certificate.expect("a certificate").der().clone(),
            key: key.into(),
        }
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("names")
}
