//! TLS on the gRPC port and on the admin port: the broker's certificate, and the check of the certificates of clients.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier as _;
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, version};
use tokio::sync::watch;

use super::certificate_names::CertificateNames;
use super::client_files::ClientFiles;
use super::client_verifier::ClientVerifier;
use super::pair::{OwnPair, Pair};
use super::validity::Validity;
use super::watched_file::Watched;
use crate::config::{self, TlsVersion};

/// The files of TLS, and the state that was made from the last usable content of each.
pub struct ServerTls {
    min_version: TlsVersion,
    pair: Arc<OwnPair>,
    /// `None`: clients have no certificates.
    clients: Option<ClientFiles>,
    /// Locked while a state is made. Otherwise an older one could replace a newer one. Handshakes do not take it, because making one can
    /// take seconds.
    making: Mutex<()>,
    state: watch::Sender<Arc<State>>,
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

impl ServerTls {
    /// Reads the files. A certificate that is not valid now is reported and used: the clock of this host can be wrong.
    ///
    /// # Errors
    /// The setting, the file, and the reason why it cannot be used.
    pub fn open(settings: &config::Tls) -> Result<Self, String> {
        let pair = OwnPair::open(settings)?;
        let clients = ClientFiles::open(settings)?;
        let state = State::new(settings.min_version, pair.current(), clients.as_ref())?;
        Ok(Self {
            min_version: settings.min_version,
            pair: Arc::new(pair),
            clients,
            making: Mutex::default(),
            state: watch::Sender::new(Arc::new(state)),
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

    /// Returns the parts that are read from files.
    pub(super) fn files(&self) -> Vec<Arc<dyn Watched>> {
        let clients = self.clients.iter().flat_map(ClientFiles::files);
        let pair: Arc<dyn Watched> = self.pair.clone();
        clients.chain([pair]).collect()
    }

    /// Makes a state of the last usable contents, after a file has changed.
    pub(super) fn use_files(&self) {
        let _making = self.making.lock();
        match State::new(self.min_version, self.pair.current(), self.clients.as_ref()) {
            Ok(made) => {
                self.state.send_replace(Arc::new(made));
            }
            // Each content was checked when it was read.
            Err(reason) => tracing::error!(
                target: "lease_broker::audit",
                event = "file.refused", reason,
                "certificates cannot be used; the old ones stay in use"
            ),
        }
    }
}

impl State {
    fn new(
        min_version: TlsVersion,
        pair: Pair,
        clients: Option<&ClientFiles>,
    ) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[_] = match min_version {
            TlsVersion::V1_2 => &[&version::TLS13, &version::TLS12],
            TlsVersion::V1_3 => &[&version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?;
        let for_admin = builder.clone();
        let verifier = clients.map(|clients| clients.verifier(provider));
        let verifier = verifier.transpose()?.map(Arc::new);
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
        let own = Arc::new(SingleCertAndKey::from(pair.certified));
        let mut admin = admin.with_cert_resolver(own.clone());
        admin.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut config = builder.with_cert_resolver(own);
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would skip the check against authorities that have changed.
        for config in [&mut config, &mut admin] {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self {
            config: Arc::new(config),
            admin: Arc::new(admin),
            verifier,
            validity: pair.validity,
        })
    }
}
