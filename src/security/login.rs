//! The login of a connection: the identity of its certificate, and the bearer token that was verified last.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use subtle::ConstantTimeEq as _;

use super::certificate_names::CertificateNames;
use super::identity::Identity;

/// The identity of a certificate, or the reason why it has none.
pub(super) type CertificateIdentity = Result<Arc<Identity>, &'static str>;

/// The state of a connection that decides who its calls come from.
#[derive(Default)]
pub struct Login {
    /// The names in the client's certificate, or the reason why they cannot be used. `None`: it has no certificate.
    certificate: Option<Result<CertificateNames, &'static str>>,
    /// The identity of the certificate, once a call has needed it.
    certificate_identity: OnceLock<CertificateIdentity>,
    last_bearer: Mutex<Option<Remembered>>,
    failures: AtomicU32,
}

/// A bearer token that was verified.
struct Remembered {
    token: Vec<u8>,
    identity: Arc<Identity>,
    until: Instant,
    /// The generation of the files with which it was verified.
    generation: u64,
}

impl Login {
    /// Creates the login of a connection on which the client has shown this certificate.
    pub(crate) fn with_certificate(names: Result<CertificateNames, &'static str>) -> Self {
        Self {
            certificate: Some(names),
            ..Self::default()
        }
    }

    /// Returns the identity of the certificate. `find` looks it up, once per connection. `None`: there is no certificate.
    pub(super) fn certificate_identity(
        &self,
        find: impl FnOnce(&CertificateNames) -> CertificateIdentity,
    ) -> Option<CertificateIdentity> {
        let certificate = self.certificate.as_ref()?;
        let identity = self.certificate_identity.get_or_init(|| match certificate {
            Ok(names) => find(names),
            Err(reason) => Err(reason),
        });
        Some(identity.clone())
    }

    /// Returns the identity of a token that was verified on this connection, if it is the last one and still valid.
    pub(super) fn remembered(&self, token: &[u8], generation: u64) -> Option<Arc<Identity>> {
        let last = self.last_bearer.lock();
        let last = last.unwrap_or_else(PoisonError::into_inner);
        let last = last.as_ref()?;
        let is_same = bool::from(last.token.ct_eq(token));
        let is_valid = last.generation == generation && Instant::now() < last.until;
        (is_same && is_valid).then(|| last.identity.clone())
    }

    /// Remembers a token that was verified.
    pub(super) fn remember(
        &self,
        token: &[u8],
        identity: &Arc<Identity>,
        until: Instant,
        generation: u64,
    ) {
        let last = self.last_bearer.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = Some(Remembered {
            token: token.to_vec(),
            identity: identity.clone(),
            until,
            generation,
        });
    }

    /// Counts a failed login. Returns the number of failures on this connection.
    pub(super) fn count_failure(&self) -> u32 {
        self.failures
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }
}
