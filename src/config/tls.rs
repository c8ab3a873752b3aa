//! The section `server.tls` of the configuration: the certificate of the broker and those of its clients.

use std::path::PathBuf;

use serde::Deserialize;

use super::error::InvalidSetting;

/// Settings of TLS on the gRPC port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// A PEM file with the broker's certificate, followed by those of intermediate authorities.
    pub certificate: PathBuf,
    /// A PEM file with the private key of that certificate.
    pub key: PathBuf,
    /// A PEM file with the certificates of the authorities that sign certificates of clients. `None`: clients have none.
    pub client_authorities: Option<PathBuf>,
    /// Whether clients must have a certificate. `None`: optional if there are `client_authorities`, else off.
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
        let default = match self.client_authorities {
            Some(_) => ClientCertificates::Optional,
            None => ClientCertificates::Off,
        };
        self.client_certificates.unwrap_or(default)
    }

    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let is_off = self.client_certificates() == ClientCertificates::Off;
        if is_off != self.client_authorities.is_none() {
            let reason = if is_off {
                "\"off\" contradicts client_authorities; remove one of the two settings"
            } else {
                "needs client_authorities, the file with the authorities that sign certificates of clients"
            };
            return Err(InvalidSetting::new(
                "server.tls.client_certificates",
                reason,
            ));
        }
        Ok(())
    }
}
