//! Arguments by which a command proves to a service who it is, and checks the service.

use std::path::{Path, PathBuf};

use clap::Args;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use super::CommandError;
use crate::client::{Credentials, Tls, Token};

/// A connection on which each call carries the token of the command.
pub(super) type AuthorizedChannel = InterceptedService<Channel, Bearer>;

/// Credentials for a running service. An address that starts with `https://` turns TLS on.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Credentials")]
pub(super) struct CredentialArgs {
    /// Trust the authorities in this PEM file, not those of the system; only with https://
    #[arg(long, value_name = "FILE", env = "LEASE_BROKER_CA")]
    ca: Option<PathBuf>,
    /// Show this certificate (PEM) to the service; only with https://
    #[arg(
        long,
        value_name = "FILE",
        env = "LEASE_BROKER_CERTIFICATE",
        requires = "key"
    )]
    certificate: Option<PathBuf>,
    /// Private key (PEM) of --certificate
    #[arg(
        long,
        value_name = "FILE",
        env = "LEASE_BROKER_KEY",
        requires = "certificate"
    )]
    key: Option<PathBuf>,
    /// Name in the certificate of the service [default: the host of the address]
    #[arg(long, value_name = "NAME", env = "LEASE_BROKER_SERVER_NAME")]
    server_name: Option<String>,
    /// Send the token in this file with each call
    #[arg(long, value_name = "FILE", env = "LEASE_BROKER_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

/// Adds the token to each call.
#[derive(Clone, Default)]
pub(super) struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

impl Bearer {
    /// Lets each call on a connection carry the token.
    pub(super) fn authorize(&self, channel: Channel) -> AuthorizedChannel {
        InterceptedService::new(channel, self.clone())
    }
}

impl CredentialArgs {
    /// Reads the token.
    pub(super) fn bearer(&self) -> Result<Bearer, CommandError> {
        let Some(path) = &self.token_file else {
            return Ok(Bearer::default());
        };
        let token = String::from_utf8(read("--token-file", path)?);
        let value = token
            .ok()
            .and_then(|token| MetadataValue::try_from(format!("Bearer {}", token.trim())).ok());
        let Some(mut value) = value else {
            let problem = "the file does not contain a token";
            return Err(CommandError::usage(format!(
                "--token-file {}: {problem}",
                path.display()
            )));
        };
        value.set_sensitive(true);
        Ok(Bearer(Some(value)))
    }

    /// Returns the endpoint of an address, which is a URL or `host:port`.
    pub(super) fn endpoint(&self, address: &str) -> Result<Endpoint, CommandError> {
        let problem = |error: tonic::transport::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.unwrap_or_else(|| error.to_string());
            CommandError::usage(format!("--address {address}: {cause}"))
        };
        let url = match address.split_once("://") {
            Some(_) => address.to_owned(),
            None => format!("http://{address}"),
        };
        let endpoint = Endpoint::from_shared(url).map_err(problem)?;
        match self.tls(address)? {
            None => Ok(endpoint),
            Some(tls) => endpoint.tls_config(tls.into()).map_err(problem),
        }
    }

    /// Returns the credentials of a worker for an address, or for several with commas between them.
    pub(super) fn of_worker(&self, addresses: &str) -> Result<Credentials, CommandError> {
        Ok(match self.tls(addresses)? {
            // Like the other commands, a worker calls any host without TLS.
            None => Credentials::plaintext_anywhere(),
            Some(files) => Credentials::tls(files.0),
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
        let ca = self.ca.as_deref().map(|path| read("--ca", path));
        let certificate = self.certificate.as_deref().zip(self.key.as_deref());
        let identity = certificate.map(|(certificate, key)| {
            Ok::<_, CommandError>((read("--certificate", certificate)?, read("--key", key)?))
        });
        Ok(Some(TlsFiles(Tls {
            ca: ca.transpose()?,
            identity: identity.transpose()?,
            server_name: self.server_name.clone(),
        })))
    }
}

/// The contents of the files of TLS.
struct TlsFiles(Tls);

impl From<TlsFiles> for ClientTlsConfig {
    fn from(TlsFiles(files): TlsFiles) -> Self {
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

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, CommandError> {
    let content = std::fs::read(path);
    content.map_err(|error| CommandError::usage(format!("{flag} {}: {error}", path.display())))
}
