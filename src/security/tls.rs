//! TLS on the gRPC port and on the admin port: the broker's certificate, and the check of the certificates of clients.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier as _;
use rustls::{ServerConfig, version};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::certificate_names::CertificateNames;
use super::client_verifier::ClientVerifier;
use super::pem::{certificates, private_key};
use super::revocation_lists::RevocationLists;
use super::validity::Validity;
use crate::config::{self, ClientCertificates, TlsVersion};

/// The permissions of a key file that let every user of the host read or change it.
const OPEN_TO_OTHERS: u32 = 0o007;

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
    /// That of the admin port: HTTP/1.1, and clients need no certificate.
    pub(crate) admin: Arc<ServerConfig>,
    /// `None`: clients have no certificates.
    verifier: Option<Arc<ClientVerifier>>,
    /// That of the broker's certificate.
    validity: Validity,
}

impl State {
    /// Returns the names of a certificate that a client has shown in its handshake.
    ///
    /// # Errors
    /// The reason why they cannot be used.
    pub(crate) fn names(&self, own: &CertificateDer<'_>) -> Result<CertificateNames, &'static str> {
        let verifier = self.verifier.as_ref();
        verifier.map_or_else(|| CertificateNames::of(own), |verifier| verifier.names(own))
    }

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
    revocation_lists: Option<Vec<u8>>,
    trust_domains: BTreeMap<String, Vec<u8>>,
}

impl ServerTls {
    /// Reads the files. A certificate that is not valid now is reported and used: the clock of this host can be wrong.
    ///
    /// # Errors
    /// The setting, the file, and the reason why it cannot be used.
    pub fn open(settings: &config::Tls) -> Result<Self, String> {
        let now = UnixTime::now();
        let contents = Contents::read(settings);
        let hash = hash(&contents, now);
        let state = contents.and_then(|contents| contents.into_state(settings))?;
        warn_of_open_key(&settings.key);
        warn_of_validity(&state, settings, now);
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

    /// Returns the last second in which the broker's certificate is valid, since 1970.
    pub fn certificate_end(&self) -> u64 {
        self.state.borrow().validity.not_after
    }

    /// Reads the files again. Contents that cannot be used are reported once, and the old ones stay in use. So do they in place of a
    /// certificate that is not valid now, unless the old one is not valid either.
    pub fn read_files(&self) {
        let now = UnixTime::now();
        let contents = Contents::read(&self.settings);
        let hash = hash(&contents, now);
        let mut last = self.last.lock();
        if *last == hash {
            return;
        }
        *last = hash;
        drop(last);
        let state = contents.and_then(|contents| contents.into_state(&self.settings));
        let state = state.and_then(|new| match new.validity.problem(now) {
            Some(reason) if self.state().validity.problem(now).is_none() => {
                Err(problem("certificate", &self.settings.certificate, reason))
            }
            _ => Ok(new),
        });
        match state {
            Ok(state) => {
                warn_of_validity(&state, &self.settings, now);
                self.state.send_replace(Arc::new(state));
                warn_of_open_key(&self.settings.key);
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
        let read = |setting: &str, path: &Path| {
            std::fs::read(path).map_err(|error| problem(setting, path, error))
        };
        let optional = |setting, path: &Option<PathBuf>| {
            path.as_deref().map(|path| read(setting, path)).transpose()
        };
        let trust_domains = settings.trust_domains.iter().map(|(domain, path)| {
            let setting = format!("trust_domains.{domain:?}");
            Ok((domain.clone(), read(&setting, path)?))
        });
        Ok(Self {
            certificate: read("certificate", &settings.certificate)?,
            key: read("key", &settings.key)?,
            authorities: optional("client_authorities", &settings.client_authorities)?,
            revocation_lists: optional(
                "client_revocation_lists",
                &settings.client_revocation_lists,
            )?,
            trust_domains: trust_domains.collect::<Result<_, String>>()?,
        })
    }

    fn into_state(self, settings: &config::Tls) -> Result<State, String> {
        let certificate_problem =
            |reason: &dyn Display| problem("certificate", &settings.certificate, reason);
        let chain =
            certificates(&self.certificate).map_err(|reason| certificate_problem(&reason))?;
        let validity = Validity::of(&chain[0]).map_err(|reason| certificate_problem(&reason))?;
        let key = private_key(&self.key).map_err(|reason| problem("key", &settings.key, reason))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[_] = match settings.min_version {
            TlsVersion::V1_2 => &[&version::TLS13, &version::TLS12],
            TlsVersion::V1_3 => &[&version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?;
        let for_admin = builder.clone();
        let verifier = self.verifier(settings, provider)?.map(Arc::new);
        let (builder, admin) = match &verifier {
            None => (
                builder.with_no_client_auth(),
                for_admin.with_no_client_auth(),
            ),
            Some(verifier) => (
                builder.with_client_cert_verifier(verifier.clone()),
                for_admin.with_client_cert_verifier(Arc::new(verifier.optional())),
            ),
        };
        let key_problem = |error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let reason = "the certificate in server.tls.certificate has another key";
                problem("key", &settings.key, reason)
            }
            error => certificate_problem(&error),
        };
        let admin = admin.with_single_cert(chain.clone(), key.clone_key());
        let mut admin = admin.map_err(key_problem)?;
        admin.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(key_problem)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would skip the check against authorities that have changed.
        for config in [&mut config, &mut admin] {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(State {
            config: Arc::new(config),
            admin: Arc::new(admin),
            verifier,
            validity,
        })
    }

    /// Returns the check of clients' certificates. `None`: clients have none.
    fn verifier(
        &self,
        settings: &config::Tls,
        provider: Arc<CryptoProvider>,
    ) -> Result<Option<ClientVerifier>, String> {
        let is_mandatory = match settings.client_certificates() {
            ClientCertificates::Off => return Ok(None),
            ClientCertificates::Optional => false,
            ClientCertificates::Required => true,
        };
        let mut verifier = ClientVerifier::new(is_mandatory, provider);
        for (domain, authorities) in &self.trust_domains {
            let added = verifier.add_trust_domain(domain, authorities);
            added.map_err(|reason| {
                let setting = format!("trust_domains.{domain:?}");
                problem(&setting, &settings.trust_domains[domain], reason)
            })?;
        }
        if let Some((authorities, path)) = self
            .authorities
            .as_ref()
            .zip(settings.client_authorities.as_ref())
        {
            let lists = self
                .revocation_lists
                .as_ref()
                .zip(settings.client_revocation_lists.as_ref());
            let lists = lists.map(|(pem, path)| {
                RevocationLists::parse(pem)
                    .map_err(|reason| problem("client_revocation_lists", path, reason))
            });
            let set = verifier.set_authorities(authorities, lists.transpose()?.as_ref());
            set.map_err(|reason| problem("client_authorities", path, reason))?;
        }
        Ok(Some(verifier))
    }
}

/// Warns if every user of the host can read the private key.
fn warn_of_open_key(key: &Path) {
    let mode = std::fs::metadata(key).map_or(0, |file| file.permissions().mode());
    if mode & OPEN_TO_OTHERS != 0 {
        let (file, mode) = (key.display(), format!("{:04o}", mode & 0o7777));
        tracing::warn!(
            target: "lease_broker::audit",
            setting = "server.tls.key", %file, mode,
            "every user of this host can read the private key: set the mode to 0600 or 0640"
        );
    }
}

/// Warns if callers refuse the certificate because of its time.
fn warn_of_validity(state: &State, settings: &config::Tls, now: UnixTime) {
    if let Some(reason) = state.validity.problem(now) {
        let file = settings.certificate.display();
        tracing::warn!(
            target: "lease_broker::audit",
            setting = "server.tls.certificate", %file, reason,
            "callers refuse the certificate: replace it, or correct the clock"
        );
    }
}

fn problem(setting: &str, path: &Path, reason: impl Display) -> String {
    format!("server.tls.{setting}: {}: {reason}", path.display())
}

/// Returns a hash that changes with the contents, and when the certificate begins or ceases to be valid.
fn hash(contents: &Result<Contents, String>, now: UnixTime) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    };
    match contents {
        Ok(contents) => {
            add(&contents.certificate);
            let chain = certificates(&contents.certificate);
            let validity = chain.and_then(|chain| Validity::of(&chain[0])).ok();
            let problem = validity.and_then(|validity| validity.problem(now));
            add(problem.unwrap_or_default().as_bytes());
            add(&contents.key);
            add(contents.authorities.as_deref().unwrap_or_default());
            add(contents.revocation_lists.as_deref().unwrap_or_default());
            contents
                .trust_domains
                .values()
                .for_each(|authorities| add(authorities));
        }
        Err(reason) => add(reason.as_bytes()),
    }
    hash.finalize().into()
}
