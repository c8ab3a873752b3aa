//! Certificates for the scripted server, and an authority that signs them.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::TLS12;
use tokio_rustls::rustls::{ServerConfig, crypto::CryptoProvider};

/// A certificate of the scripted server, with its key.
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Creates a self-signed certificate for these names.
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
        // Up to TDS 7.4 only the handshake is sent in TDS packets. TLS 1.3 sends handshake messages after the handshake, so
        // it does not work there.
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS12])
            .expect("TLS 1.2")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key());
        Arc::new(config.expect("an identity"))
    }
}

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// Returns the certificate of the authority in the format of a `.der` file.
    pub(crate) fn der(&self) -> &[u8] {
        self.0.der()
    }

    /// Creates and signs a certificate for these names.
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
