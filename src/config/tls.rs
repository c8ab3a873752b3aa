//! The section `server.tls` of the configuration: the certificate of the broker and those of its clients.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::error::InvalidSetting;

/// Settings of TLS on the gRPC port. The admin port has the certificate too if `admin.tls` is set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// A PEM file with the broker's certificate, followed by those of intermediate authorities.
    pub certificate: PathBuf,
    /// A PEM file with the private key of that certificate.
    pub key: PathBuf,
    /// A PEM file with the certificates of the authorities that sign certificates of clients. `None`: clients have none.
    pub client_authorities: Option<PathBuf>,
    /// A PEM file with the revocation lists of these authorities. `None`: none of their certificates was revoked.
    pub client_revocation_lists: Option<PathBuf>,
    /// For each SPIFFE trust domain, a PEM file with its authorities. Empty: `client_authorities` sign SPIFFE ids of every domain.
    #[serde(default)]
    pub trust_domains: BTreeMap<String, PathBuf>,
    /// Whether clients must have a certificate. `None`: optional if there are authorities, else off.
    client_certificates: Option<ClientCertificates>,
    /// The lowest version of TLS that a client can use.
    #[serde(default)]
    pub min_version: TlsVersion,
}

/// Whether clients identify themselves by a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// A client without a valid certificate cannot connect.
    Required,
    /// A client can connect without a certificate. A certificate that is not valid is refused.
    Optional,
    /// The broker does not ask for a certificate.
    Off,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V1_3,
}

impl Tls {
    /// Returns whether clients identify themselves by a certificate.
    pub fn client_certificates(&self) -> ClientCertificates {
        let default = if self.has_authorities() {
            ClientCertificates::Optional
        } else {
            ClientCertificates::Off
        };
        self.client_certificates.unwrap_or(default)
    }

    /// Returns whether a SPIFFE id of this trust domain can be accepted.
    pub fn accepts_trust_domain(&self, domain: Option<&str>) -> bool {
        let is_listed = domain.is_some_and(|domain| self.trust_domains.contains_key(domain));
        self.trust_domains.is_empty() || is_listed
    }

    fn has_authorities(&self) -> bool {
        self.client_authorities.is_some() || !self.trust_domains.is_empty()
    }

    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let is_off = self.client_certificates() == ClientCertificates::Off;
        if is_off == self.has_authorities() {
            let reason = if is_off {
                "\"off\" contradicts client_authorities and trust_domains; remove it or them"
            } else {
                "needs client_authorities or trust_domains, the authorities that sign certificates of clients"
            };
            return Err(InvalidSetting::new(
                "server.tls.client_certificates",
                reason,
            ));
        }
        if self.client_revocation_lists.is_some() && self.client_authorities.is_none() {
            let key = "server.tls.client_revocation_lists";
            return Err(InvalidSetting::new(
                key,
                "needs client_authorities, whose lists they are",
            ));
        }
        if let Some(domain) = self
            .trust_domains
            .keys()
            .find(|name| !is_trust_domain(name))
        {
            let key = format!("server.tls.trust_domains.{domain:?}");
            let reason =
                "must be the name of a trust domain, such as prod.example: a-z, 0-9, dot, - and _";
            return Err(InvalidSetting::new(key, reason));
        }
        Ok(())
    }
}

/// Returns whether a text can be the name of a SPIFFE trust domain.
pub(crate) fn is_trust_domain(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
    (1..=255).contains(&name.len()) && name.bytes().all(is_allowed)
}
