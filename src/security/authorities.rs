//! Authorities whose certificates are accepted, if none of their revocation lists names them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientCertVerifierBuilder, WebPkiClientVerifier};
use rustls::{CertificateError, Error, RootCertStore};

use super::revocation_lists::RevocationLists;

/// Authorities, and their lists of revoked certificates.
#[derive(Debug)]
pub(super) struct Authorities {
    /// One for each selection of the lists. Without lists there is one.
    verifiers: Vec<Arc<dyn ClientCertVerifier>>,
    /// The same, but lists past their time count too. Empty: there are no lists.
    with_old_lists: Vec<Arc<dyn ClientCertVerifier>>,
    has_warned: AtomicBool,
}

impl Authorities {
    /// `lists`: the certificates that they have revoked.
    ///
    /// # Errors
    /// The reason why an authority cannot be used.
    pub(super) fn new(
        authorities: &[CertificateDer<'static>],
        lists: Option<&RevocationLists>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let roots = roots(authorities)?;
        let builder =
            || WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let build =
            |builder: ClientCertVerifierBuilder| builder.build().map_err(|error| error.to_string());
        let (mut verifiers, mut with_old_lists) = (Vec::new(), Vec::new());
        for lists in lists.map(RevocationLists::selections).unwrap_or_default() {
            let builder = || builder().with_crls(lists.iter().cloned());
            verifiers.push(build(builder().enforce_revocation_expiration())?);
            with_old_lists.push(build(builder())?);
        }
        if verifiers.is_empty() {
            verifiers.push(build(builder())?);
        }
        Ok(Self {
            verifiers,
            with_old_lists,
            has_warned: AtomicBool::new(false),
        })
    }

    /// Checks the certificate of a client. `others`: those that the client has sent with it.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub(super) fn verify(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = verify_with(&self.verifiers, own, others, now);
        match verdict(&verified) {
            // A list past its time can name it too.
            Verdict::Accepted if self.with_old_lists.len() > 1 => {}
            Verdict::OldList => self.warn(),
            _ => return verified,
        }
        verify_with(&self.with_old_lists, own, others, now)
    }

    /// Reports once that a list is past its time.
    fn warn(&self) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::error!(
                target: "lease_broker::audit",
                setting = "server.tls.client_revocation_lists",
                "a revocation list is past its time; it stays in use, but lacks what was revoked since"
            );
        }
    }
}

/// The result of a check with one selection of the lists, the best one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Accepted,
    /// A list is past its time.
    OldList,
    /// A list is missing, or another key has signed it. Of two authorities with one name, webpki reports either the list or the
    /// certificate that the key has not signed.
    OtherList,
    /// No selection can change it. The certificate was revoked, or it is refused for a reason besides the lists.
    Refused,
}

fn verdict(checked: &Result<ClientCertVerified, Error>) -> Verdict {
    match checked {
        Ok(_) => Verdict::Accepted,
        Err(Error::InvalidCertificate(
            CertificateError::ExpiredRevocationList
            | CertificateError::ExpiredRevocationListContext { .. },
        )) => Verdict::OldList,
        Err(
            Error::InvalidCertRevocationList(_)
            | Error::InvalidCertificate(
                CertificateError::UnknownRevocationStatus | CertificateError::BadSignature,
            ),
        ) => Verdict::OtherList,
        Err(_) => Verdict::Refused,
    }
}

/// Checks a certificate with each selection of the lists. It is accepted if one accepts it and no other says that it was revoked.
fn verify_with(
    verifiers: &[Arc<dyn ClientCertVerifier>],
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<ClientCertVerified, Error> {
    let mut best = Err(Error::InvalidCertificate(
        CertificateError::UnknownRevocationStatus,
    ));
    for verifier in verifiers {
        let checked = verifier.verify_client_cert(own, others, now);
        match verdict(&checked) {
            Verdict::Refused => return checked,
            found if found <= verdict(&best) => best = checked,
            _ => {}
        }
    }
    best
}

/// Returns the store of authorities.
///
/// # Errors
/// The reason why one cannot be used.
pub(super) fn roots(authorities: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.map_err(|error| error.to_string())?;
    }
    Ok(Arc::new(roots))
}
