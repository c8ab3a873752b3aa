//! TLS on the gRPC port: the broker's certificate, and the check of the certificates of clients.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, version};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::config::{self, ClientCertificates, TlsVersion};

/// The files of TLS, and the state that was made from their last usable contents.
pub struct ServerTls {
    settings: config::Tls,
    state: watch::Sender<Arc<State>>,
    /// The hash of the contents that were read last, usable or not.
    last: Mutex<[u8; 32]>,
}

/// The state for new connections.
pub(crate) struct State {
    pub(crate) config: Arc<ServerConfig>,
    /// `None`: clients have no certificates.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl State {
    /// Checks now whether the certificate of a client is valid. The first is the client's own.
    pub(crate) fn accepts(&self, certificates: &[CertificateDer<'_>]) -> bool {
        let (Some(verifier), Some((own, others))) = (&self.verifier, certificates.split_first())
        else {
            return false;
        };
        let checked = verifier.verify_client_cert(own, others, UnixTime::now());
        checked.is_ok()
    }
}

/// The contents of the files.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// The setting, the file, and the reason why it cannot be used.
    pub fn open(settings: &config::Tls) -> Result<Self, String> {
        let contents = Contents::read(settings);
        let hash = hash(&contents);
        let state = contents.and_then(|contents| contents.into_state(settings))?;
        Ok(Self {
            settings: settings.clone(),
            state: watch::Sender::new(Arc::new(state)),
            last: Mutex::new(hash),
        })
    }

    /// Returns the state for a new connection.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.borrow().clone()
    }

    /// Returns a receiver that sees each change of the state.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<State>> {
        self.state.subscribe()
    }

    /// Reads the files again. Contents that cannot be used are reported once, and the old ones stay in use.
    pub fn read_files(&self) {
        let contents = Contents::read(&self.settings);
        let hash = hash(&contents);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == hash {
            return;
        }
        *last = hash;
        drop(last);
        match contents.and_then(|contents| contents.into_state(&self.settings)) {
            Ok(state) => {
                self.state.send_replace(Arc::new(state));
                tracing::info!(target: "lease_broker::audit", "certificates read again");
            }
            Err(reason) => tracing::error!(
                target: "lease_broker::audit",
                reason,
                "certificates cannot be used; the old ones stay in use"
            ),
        }
    }
}

impl Contents {
    fn read(settings: &config::Tls) -> Result<Self, String> {
        let read = |setting, path: &Path| {
            std::fs::read(path).map_err(|error| problem(setting, path, error))
        };
        let authorities = settings.client_authorities.as_deref();
        let authorities = authorities.map(|path| read("client_authorities", path));
        Ok(Self {
            certificate: read("certificate", &settings.certificate)?,
            key: read("key", &settings.key)?,
            authorities: authorities.transpose()?,
        })
    }

    fn into_state(self, settings: &config::Tls) -> Result<State, String> {
        let certificate_problem =
            |reason: &dyn Display| problem("certificate", &settings.certificate, reason);
        let chain =
            certificates(&self.certificate).map_err(|reason| certificate_problem(&reason))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|error| {
            let reason = format!("the file has no private key in PEM that can be used: {error}");
            problem("key", &settings.key, reason)
        })?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[_] = match settings.min_version {
            TlsVersion::V1_2 => &[&version::TLS13, &version::TLS12],
            TlsVersion::V1_3 => &[&version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?;
        let authorities = self.authorities.zip(settings.client_authorities.as_deref());
        let verifier = authorities.map(|(pem, path)| {
            let verifier = verifier(&pem, settings.client_certificates(), provider);
            verifier.map_err(|reason| problem("client_authorities", path, reason))
        });
        let verifier = verifier.transpose()?;
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    let reason = "the certificate in server.tls.certificate has another key";
                    problem("key", &settings.key, reason)
                }
                error => certificate_problem(&error),
            })?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would skip the check against authorities that have changed.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(State {
            config: Arc::new(config),
            verifier,
        })
    }
}

fn verifier(
    pem: &[u8],
    wanted: ClientCertificates,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        // Their names would tell everyone who connects which authorities there are.
        .clear_root_hint_subjects();
    let builder = match wanted {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional | ClientCertificates::Off => builder.allow_unauthenticated(),
    };
    let verifier = builder.build().map_err(|error| error.to_string())?;
    Ok(verifier)
}

/// Returns the certificates of a PEM file.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Err(error) => Err(format!("not valid PEM: {error}")),
        Ok(certificates) if certificates.is_empty() => {
            Err("the file has no certificate in PEM".to_owned())
        }
        Ok(certificates) => Ok(certificates),
    }
}

fn problem(setting: &str, path: &Path, reason: impl Display) -> String {
    format!("server.tls.{setting}: {}: {reason}", path.display())
}

fn hash(contents: &Result<Contents, String>) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    };
    match contents {
        Ok(contents) => {
            add(&contents.certificate);
            add(&contents.key);
            add(contents.authorities.as_deref().unwrap_or_default());
        }
        Err(reason) => add(reason.as_bytes()),
    }
    hash.finalize().into()
}
