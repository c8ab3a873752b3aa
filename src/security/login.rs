//! The login of a connection: the client's certificate, and the credentials that calls on the connection have used.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use subtle::ConstantTimeEq as _;

use super::certificate_names::CertificateNames;
use super::identity::Identity;

/// The credentials of a connection that are remembered, and the bytes of their tokens.
const MAX_CREDENTIALS: usize = 16;
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// The longest time for which a call can go on after its token has expired. A claim waits for at most a minute.
const LONGEST_CALL: Duration = Duration::from_secs(120);

/// The state of a connection that decides who its calls come from.
#[derive(Default)]
pub struct Login {
    /// The names in the client's certificate, or the reason why they cannot be used. `None`: it has no certificate.
    certificate: Option<Result<CertificateNames, &'static str>>,
    used: Mutex<Used>,
    failures: AtomicU32,
    is_watched: AtomicBool,
}

/// The valid credentials that calls have used.
#[derive(Default)]
struct Used {
    /// The last ones first.
    credentials: Vec<Credential>,
    /// There were more than are remembered.
    has_more: bool,
}

/// Credentials that were verified.
#[derive(Clone)]
pub(super) struct Credential {
    /// The bearer token. `None`: the certificate of the connection, or no credentials.
    pub(super) token: Option<Vec<u8>>,
    pub(super) verified: Verified,
}

/// The identity of credentials that were verified.
#[derive(Clone)]
pub(super) struct Verified {
    pub(super) identity: Arc<Identity>,
    /// The time at which the credentials end. `None`: never.
    pub(super) expiry: Option<SystemTime>,
    /// The time after which they are verified again.
    pub(super) until: Instant,
    /// The generation of the rules by which they were verified.
    pub(super) generation: u64,
}

impl Verified {
    /// Returns whether the credentials ended more than [`LONGEST_CALL`] ago. Their calls have ended too.
    pub(super) fn is_long_over(&self, now: SystemTime) -> bool {
        self.expiry
            .is_some_and(|expiry| expiry + LONGEST_CALL < now)
    }

    /// Returns whether the credentials need not be verified again.
    pub(super) fn is_current(&self, generation: u64) -> bool {
        self.generation == generation && Instant::now() < self.until
    }
}

impl Login {
    /// Creates the login of a connection on which the client has shown this certificate.
    pub(crate) fn with_certificate(names: Result<CertificateNames, &'static str>) -> Self {
        Self {
            certificate: Some(names),
            ..Self::default()
        }
    }

    /// Returns the names in the client's certificate. `None`: it has no certificate.
    pub(super) fn certificate(&self) -> Option<Result<&CertificateNames, &'static str>> {
        let names = self.certificate.as_ref()?;
        Some(names.as_ref().map_err(|reason| *reason))
    }

    /// Returns whether the connection is checked when rights are lost. Each further answer is true.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Acquire) || self.is_watched.swap(true, Ordering::AcqRel)
    }

    /// Returns whether a call on this connection had valid credentials.
    pub fn has_succeeded(&self) -> bool {
        !self.lock().credentials.is_empty()
    }

    /// Returns what is known of credentials that a call on this connection has used, valid still or not.
    pub(super) fn known(&self, token: Option<&[u8]>) -> Option<Verified> {
        let mut used = self.lock();
        let place = used.place(token)?;
        used.credentials[..=place].rotate_right(1);
        Some(used.credentials[0].verified.clone())
    }

    /// Remembers credentials that were verified.
    pub(super) fn remember(&self, token: Option<&[u8]>, verified: Verified) {
        let mut used = self.lock();
        if let Some(place) = used.place(token) {
            used.credentials.remove(place);
        }
        let token = token.map(<[u8]>::to_vec);
        used.credentials.insert(0, Credential { token, verified });
        if used.is_full() {
            let now = SystemTime::now();
            used.credentials
                .retain(|used| !used.verified.is_long_over(now));
        }
        while used.is_full() {
            used.credentials.pop();
            used.has_more = true;
        }
    }

    /// Forgets credentials that are not valid any more.
    pub(super) fn forget(&self, token: Option<&[u8]>) {
        let mut used = self.lock();
        if let Some(place) = used.place(token) {
            used.credentials.remove(place);
        }
    }

    /// Returns the credentials that were verified before this generation of the rules, and whether more of them were used.
    pub(super) fn used_before(&self, generation: u64) -> (Vec<Credential>, bool) {
        let used = self.lock();
        let is_older = |used: &&Credential| used.verified.generation < generation;
        let older = used.credentials.iter().filter(is_older);
        (older.cloned().collect(), used.has_more)
    }

    /// Counts a failed login. Returns the number of failures on this connection.
    pub(super) fn count_failure(&self) -> u32 {
        self.failures
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn place(&self, token: Option<&[u8]>) -> Option<usize> {
        let mut credentials = self.credentials.iter();
        credentials.position(|used| match (&used.token, token) {
            (None, None) => true,
            (Some(used), Some(token)) => used.as_slice().ct_eq(token).into(),
            _ => false,
        })
    }

    /// Returns whether there are more than are remembered.
    fn is_full(&self) -> bool {
        let tokens = self.credentials.iter().flat_map(|used| &used.token);
        let bytes: usize = tokens.map(Vec::len).sum();
        self.credentials.len() > MAX_CREDENTIALS || bytes > MAX_TOKEN_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LeaseScope;

    fn verified(generation: u64) -> Verified {
        Verified {
            identity: Arc::new(Identity::anonymous(&[], LeaseScope::Queue)),
            expiry: None,
            until: Instant::now(),
            generation,
        }
    }

    #[test]
    fn connection_remembers_a_bounded_number_of_tokens() {
        let login = Login::default();
        login.remember(None, verified(0));
        login.remember(Some(&[7; 8_192]), verified(1));
        let (older, has_more) = login.used_before(1);
        assert_eq!((older.len(), has_more), (1, false));
        login.remember(Some(&[8; 8_192]), verified(1));
        assert!(login.known(None).is_some());
        login.remember(Some(b"short"), verified(1));
        assert!(login.known(Some(&[7; 8_192])).is_none(), "the oldest");
        assert!(login.known(Some(&[8; 8_192])).is_some());
        for number in 0..MAX_CREDENTIALS {
            login.remember(Some(&number.to_be_bytes()), verified(1));
        }
        let (all, has_more) = login.used_before(2);
        assert_eq!((all.len(), has_more), (MAX_CREDENTIALS, true));
    }

    #[test]
    fn tokens_that_ended_long_ago_take_no_place() {
        let login = Login::default();
        let expiry = SystemTime::now().checked_sub(2 * LONGEST_CALL);
        for number in 0..2 * MAX_CREDENTIALS {
            let verified = Verified {
                expiry,
                ..verified(1)
            };
            login.remember(Some(&number.to_be_bytes()), verified);
        }
        assert!(!login.used_before(2).1);
    }
}
