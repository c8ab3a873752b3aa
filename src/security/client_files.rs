//! The files for the check of clients' certificates: authorities, trust domains, and revocation lists. Each has its own last usable
//! content, so that an authority is removed and a certificate revoked also beside another file that cannot be used.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::authorities::{Authorities, roots};
use super::client_verifier::ClientVerifier;
use super::pem::certificates;
use super::revocation_lists::RevocationLists;
use super::validity::Validity;
use super::watched_file::{Watched, WatchedFile};
use crate::config::{self, ClientCertificates};

type AuthoritiesFile = Arc<WatchedFile<Vec<CertificateDer<'static>>>>;

/// The files.
pub(super) struct ClientFiles {
    is_mandatory: bool,
    authorities: Option<AuthoritiesFile>,
    lists: Option<Arc<WatchedFile<RevocationLists>>>,
    trust_domains: BTreeMap<String, AuthoritiesFile>,
}

impl ClientFiles {
    /// Reads the files. Returns `None` if clients have no certificates.
    ///
    /// # Errors
    /// The setting, the file, and the reason why it cannot be used.
    pub(super) fn open(settings: &config::Tls) -> Result<Option<Self>, String> {
        let is_mandatory = match settings.client_certificates() {
            ClientCertificates::Off => return Ok(None),
            ClientCertificates::Optional => false,
            ClientCertificates::Required => true,
        };
        let open = |setting: &str, path: &Path| {
            WatchedFile::open(setting, path.to_owned(), authorities, None)
        };
        let lists = settings.client_revocation_lists.clone().map(|path| {
            let setting = "server.tls.client_revocation_lists";
            WatchedFile::open(setting, path, RevocationLists::parse, None)
        });
        let domains = settings.trust_domains.iter().map(|(domain, path)| {
            let setting = format!("server.tls.trust_domains.{domain:?}");
            Ok((domain.clone(), open(&setting, path)?))
        });
        let authorities = settings.client_authorities.as_deref();
        let authorities = authorities.map(|path| open("server.tls.client_authorities", path));
        Ok(Some(Self {
            is_mandatory,
            authorities: authorities.transpose()?,
            lists: lists.transpose()?,
            trust_domains: domains.collect::<Result<_, String>>()?,
        }))
    }

    pub(super) fn files(&self) -> Vec<Arc<dyn Watched>> {
        let authorities = self.authorities.iter().chain(self.trust_domains.values());
        let authorities = authorities.map(|file| file.clone() as Arc<dyn Watched>);
        let lists = self.lists.iter();
        let lists = lists.map(|file| file.clone() as Arc<dyn Watched>);
        authorities.chain(lists).collect()
    }

    /// Returns the check of clients' certificates with the last usable contents.
    ///
    /// # Errors
    /// The reason why an authority cannot be used.
    pub(super) fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<ClientVerifier, String> {
        let authorities = self.authorities.iter().chain(self.trust_domains.values());
        authorities.for_each(|file| warn_of_validity(file));
        let lists = self.lists.as_ref().map(|file| file.current());
        let open = |file: &AuthoritiesFile, lists: Option<&RevocationLists>| {
            Authorities::new(&file.current(), lists, &provider).map(Arc::new)
        };
        let domains = self.trust_domains.iter();
        let domains = domains.map(|(domain, file)| Ok((domain.clone(), open(file, None)?)));
        let by_trust_domain = domains.collect::<Result<_, String>>()?;
        let others = self.authorities.as_ref();
        let others = others.map(|file| open(file, lists.as_deref()));
        Ok(ClientVerifier {
            by_trust_domain,
            others: others.transpose()?,
            is_mandatory: self.is_mandatory,
            provider,
        })
    }
}

/// Reads the authorities in a PEM file.
fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let authorities = certificates(pem)?;
    roots(&authorities)?;
    Ok(authorities)
}

/// Warns of authorities that are not valid now. The certificates that they have signed are accepted nevertheless, because the check of a
/// certificate does not look at the times of its authority.
fn warn_of_validity(file: &WatchedFile<Vec<CertificateDer<'static>>>) {
    let (now, authorities) = (UnixTime::now(), file.current());
    let validities = authorities.iter().map(Validity::of).enumerate();
    for (index, validity) in validities {
        if let Some(reason) = validity.ok().and_then(|validity| validity.problem(now)) {
            let (setting, path, number) = (file.setting(), file.path().display(), index + 1);
            tracing::warn!(
                target: "lease_broker::audit",
                setting, file = %path, number, reason,
                "an authority is not valid, and its certificates are accepted: remove it"
            );
        }
    }
}
