//! Arguments by which a command proves to a service who it is, and checks the service.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;
use lease_broker_client::{Credentials, Pem, Tls, Token};
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::CommandError;
use super::bearer::Bearer;
use super::connect::Addresses;
use crate::config::is_this_host;
use crate::security::pem::{certificates, private_key};

/// Environment variables that stand for the flags.
const CA: &str = "LEASE_BROKER_CA";
const CERTIFICATE: &str = "LEASE_BROKER_CERTIFICATE";
const KEY: &str = "LEASE_BROKER_KEY";
const SERVER_NAME: &str = "LEASE_BROKER_SERVER_NAME";
const TOKEN_FILE: &str = "LEASE_BROKER_TOKEN_FILE";
const PLAINTEXT: &str = "LEASE_BROKER_PLAINTEXT";

/// The heading of these flags in the help. `next_help_heading` would also count for the flags that follow.
const HEADING: &str = "Credentials";

/// Credentials for a running service. An address that starts with `https://` turns TLS on. Without TLS, only addresses of this
/// host are called, unless the user allows others: tokens and items would cross the network for everyone to read.
#[derive(Clone, Debug, Default, Args)]
pub struct CredentialArgs {
    /// Trust the authorities in this PEM file, not those of the system; only with https://
    #[arg(help_heading = HEADING, long, value_name = "FILE", env = CA)]
    ca: Option<PathBuf>,
    /// Show this certificate (PEM) to the service; only with https://
    #[arg(
        help_heading = HEADING,
        long,
        value_name = "FILE",
        env = CERTIFICATE,
        requires = "key"
    )]
    certificate: Option<PathBuf>,
    /// Private key (PEM) of --certificate
    #[arg(
        help_heading = HEADING,
        long,
        value_name = "FILE",
        env = KEY,
        requires = "certificate"
    )]
    key: Option<PathBuf>,
    /// Name in the certificate of the service [default: the host of the address]
    #[arg(help_heading = HEADING, long, value_name = "NAME", env = SERVER_NAME)]
    server_name: Option<String>,
    /// Send the token in this file with each call
    #[arg(help_heading = HEADING, long, value_name = "FILE", env = TOKEN_FILE)]
    token_file: Option<PathBuf>,
    /// Call other hosts without TLS too, on a network that is trusted. Whoever reads it sees the token and the items
    #[arg(help_heading = HEADING, long, env = PLAINTEXT, value_parser = BoolishValueParser::new())]
    plaintext: bool,
}

impl CredentialArgs {
    /// Reads the token.
    pub fn bearer(&self) -> Result<Bearer, CommandError> {
        let Some(path) = &self.token_file else {
            return Ok(Bearer::default());
        };
        let token = String::from_utf8(read("--token-file", path)?);
        let token = token.ok().filter(|token| !token.trim().is_empty());
        let value = token
            .and_then(|token| MetadataValue::try_from(format!("Bearer {}", token.trim())).ok());
        let Some(mut value) = value else {
            let problem = "the file does not contain a token";
            return Err(unusable("--token-file", path, problem));
        };
        value.set_sensitive(true);
        Ok(Bearer(Some(value)))
    }

    /// Returns the endpoints of an address, or of several with commas between them. An address is a URL or `host:port`. If
    /// the first one starts with `https://`, all have TLS.
    ///
    /// # Errors
    /// An address is malformed or has no port, or it is that of another host, has no TLS, and `--plaintext` is not set.
    pub fn addresses(&self, text: &str) -> Result<Addresses, CommandError> {
        let problem = |address: &str, problem: &dyn std::fmt::Display| {
            CommandError::usage(format!("--address {address}: {problem}"))
        };
        let tls = self.tls(text)?.map(ClientTlsConfig::from);
        let scheme = tls.as_ref().map_or("http", |_| "https");
        let endpoint = |address: &str| {
            let authority = match address.split_once("://") {
                Some(("http" | "https", authority)) => authority,
                Some(_) => {
                    return Err(problem(address, &"must start with http:// or https://"));
                }
                None => address,
            };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{authority}"));
            let endpoint = endpoint.and_then(|endpoint| match &tls {
                None => Ok(endpoint),
                Some(tls) => endpoint.tls_config(tls.clone()),
            });
            let endpoint = endpoint.map_err(|error| {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                problem(address, &cause.unwrap_or_else(|| error.to_string()))
            })?;
            // Without this check, a port that is no number would mean the port of web servers, and the token would go there.
            if endpoint.uri().port_u16().is_none() {
                return Err(problem(
                    address,
                    &format!(
                        "the address needs a port from 1 to 65535 at its end, such as {scheme}://{}:50051",
                        endpoint.uri().host().unwrap_or("127.0.0.1")
                    ),
                ));
            }
            let is_readable =
                tls.is_none() && !is_this_host(endpoint.uri().host().unwrap_or_default());
            if is_readable && !self.plaintext {
                return Err(problem(
                    address,
                    &"a connection to another host without TLS shows the token and the items to the network; let the \
                      address start with https://, or add --plaintext if the network is trusted",
                ));
            }
            Ok(endpoint)
        };
        let endpoints = text.split(',').map(str::trim).map(endpoint);
        Ok(Addresses {
            text: text.to_owned(),
            endpoints: endpoints.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the environment variables that pass the credentials on to a command of this program. Paths are absolute,
    /// because the program that calls the command may change the folder.
    pub(super) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let files = [
            (CA, &self.ca),
            (CERTIFICATE, &self.certificate),
            (KEY, &self.key),
            (TOKEN_FILE, &self.token_file),
        ];
        let files = files.into_iter().filter_map(|(name, path)| {
            let path = path.as_ref()?;
            let absolute = std::path::absolute(path);
            Some((name, absolute.unwrap_or_else(|_| path.clone()).into()))
        });
        let server_name = self.server_name.iter();
        let server_name = server_name.map(|name| (SERVER_NAME, name.into()));
        let plaintext = self.plaintext.then(|| (PLAINTEXT, "true".into()));
        files.chain(server_name).chain(plaintext).collect()
    }

    /// Returns the credentials of a worker for an address, or for several with commas between them. The worker reads the files
    /// again while it runs.
    pub(super) fn of_worker(&self, addresses: &str) -> Result<Credentials, CommandError> {
        Ok(match self.tls(addresses)? {
            None if self.plaintext => Credentials::plaintext_anywhere(),
            None => Credentials::plaintext(),
            Some(_) => {
                let file = |path: &Option<PathBuf>| path.clone().map(Pem::File);
                Credentials::tls(Tls {
                    ca: file(&self.ca),
                    identity: file(&self.certificate).zip(file(&self.key)),
                    server_name: self.server_name.clone(),
                })
            }
        })
    }

    /// Returns the token of a worker, which reads the file again while it runs.
    pub(super) fn token(&self) -> Option<Token> {
        self.token_file.clone().map(Token::file)
    }

    /// Reads the files of TLS. `None`: the address has no TLS.
    fn tls(&self, address: &str) -> Result<Option<TlsFiles>, CommandError> {
        if !address.starts_with("https://") {
            let flags = [
                ("--ca", self.ca.is_some()),
                ("--certificate", self.certificate.is_some()),
                ("--server-name", self.server_name.is_some()),
            ];
            return match flags.into_iter().find(|(_, is_set)| *is_set) {
                None => Ok(None),
                Some((flag, _)) => Err(CommandError::usage(format!(
                    "{flag} needs TLS: let the address {address} start with https://"
                ))),
            };
        }
        // They are checked here, because the transport does not say which of the files it cannot use.
        let ca = self.ca.as_deref().map(|path| {
            let ca = read("--ca", path)?;
            certificates(&ca).map_err(|problem| unusable("--ca", path, problem))?;
            Ok::<_, CommandError>(ca)
        });
        let certificate = self.certificate.as_deref().zip(self.key.as_deref());
        let identity = certificate.map(|(certificate, key)| read_identity(certificate, key));
        Ok(Some(TlsFiles {
            ca: ca.transpose()?,
            identity: identity.transpose()?,
            server_name: self.server_name.clone(),
        }))
    }
}

/// The contents of the files of TLS.
struct TlsFiles {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    server_name: Option<String>,
}

impl From<TlsFiles> for ClientTlsConfig {
    fn from(files: TlsFiles) -> Self {
        let mut config = match &files.ca {
            Some(ca) => Self::new().ca_certificate(Certificate::from_pem(ca)),
            None => Self::new().with_native_roots(),
        };
        if let Some((certificate, key)) = &files.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = files.server_name {
            config = config.domain_name(name);
        }
        config
    }
}

/// Returns the contents of the files of a certificate and of its key.
fn read_identity(certificate: &Path, key: &Path) -> Result<(Vec<u8>, Vec<u8>), CommandError> {
    let contents = (read("--certificate", certificate)?, read("--key", key)?);
    let chain = certificates(&contents.0)
        .map_err(|problem| unusable("--certificate", certificate, problem))?;
    let private_key =
        private_key(&contents.1).map_err(|problem| unusable("--key", key, problem))?;
    match CertifiedKey::from_der(chain, private_key, &aws_lc_rs::default_provider()) {
        Ok(_) => Ok(contents),
        Err(rustls::Error::InconsistentKeys(_)) => {
            let problem = format!("it is not the key of {}", certificate.display());
            Err(unusable("--key", key, problem))
        }
        Err(error) => Err(unusable("--certificate", certificate, error)),
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path).map_err(|error| unusable(flag, path, error))
}

fn unusable(flag: &str, path: &Path, problem: impl Display) -> CommandError {
    CommandError::usage(format!("{flag} {}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_of_a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            Some(path)
        };
        let [one, other] = [(); 2].map(|()| {
            rcgen::generate_simple_self_signed(["a.example".to_owned()]).expect("a certificate")
        });
        let pem = one.cert.pem();
        let certificate = file("crt", &pem);
        let key = file("key", &one.signing_key.serialize_pem());
        let with = |ca: &Option<PathBuf>, key: &Option<PathBuf>, token: &Option<PathBuf>| {
            let credentials = CredentialArgs {
                ca: ca.clone(),
                certificate: certificate.clone(),
                key: key.clone(),
                token_file: token.clone(),
                ..CredentialArgs::default()
            };
            let bearer = credentials.bearer().map(drop);
            let addresses = bearer.and_then(|()| credentials.addresses("https://a.example:1"));
            addresses.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(with(&certificate, &key, &None), Ok(()));
        let other_key = file("other", &other.signing_key.serialize_pem());
        let half = file("half", &pem[..pem.len() / 2]);
        let empty = file("empty", "\n");
        for (refused, flag, problem) in [
            (
                with(&half, &key, &None),
                "--ca",
                "-----END CERTIFICATE----- is missing",
            ),
            (with(&key, &key, &None), "--ca", "has no certificate in PEM"),
            (
                with(&None, &other_key, &None),
                "--key",
                "it is not the key of",
            ),
            (
                with(&None, &certificate, &None),
                "--key",
                "has no private key in PEM",
            ),
            (
                with(&None, &key, &empty),
                "--token-file",
                "does not contain a token",
            ),
        ] {
            let refused = refused.expect_err(flag);
            assert!(
                refused.starts_with(flag) && refused.contains(problem),
                "{refused}"
            );
        }
    }
}
