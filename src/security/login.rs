//! The login of a connection: the client's certificate, and the credentials that calls on the connection have used.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;
use parking_lot::Mutex;

use super::certificate_names::CertificateNames;
use super::identity::Identity;

/// The clients of a connection. They decide how many tokens are remembered on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clients {
    One,
    /// Those of a listed proxy.
    Many,
}

impl Clients {
    /// Returns the largest number of remembered tokens, and of their bytes.
    fn capacity(self) -> (usize, usize) {
        match self {
            Self::One => (16, 32 << 10),
            Self::Many => (4_096, 8 << 20),
        }
    }
}

/// The longest time for which a call can go on after its token has expired. A claim waits for at most a minute.
const LONGEST_CALL: Duration = Duration::from_secs(120);

/// The state of a connection that decides who its calls come from.
#[derive(Default)]
pub struct Login {
    /// The names in the client's certificate, or the reason why they cannot be used. `None`: it has no certificate.
    certificate: Option<Result<CertificateNames, &'static str>>,
    used: Mutex<Used>,
}

/// The valid credentials that calls have used.
struct Used {
    /// Those of calls without a token: the certificate of the connection, or none.
    own: Option<Verified>,
    /// Those of calls with a token. They are found by a hash with a random key, so the time of a search tells nothing about them.
    tokens: LruCache<Vec<u8>, Verified, RandomState>,
    token_bytes: usize,
    /// The time at which a token was forgotten last that can have calls.
    forgotten: Option<Instant>,
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

    /// Returns whether a call on this connection had valid credentials. Calls without any, which are allowed, do not count.
    pub fn has_succeeded(&self) -> bool {
        let used = self.used.lock();
        (used.own.is_some() && self.certificate.is_some()) || !used.tokens.is_empty()
    }

    /// Returns the remembered result for credentials that a call on this connection has used, valid still or not.
    pub(super) fn known(&self, token: Option<&[u8]>) -> Option<Verified> {
        let mut used = self.used.lock();
        match token {
            None => used.own.clone(),
            Some(token) => used.tokens.get(token).cloned(),
        }
    }

    /// Remembers credentials that were verified.
    pub(super) fn remember(&self, token: Option<&[u8]>, verified: Verified, clients: Clients) {
        let mut used = self.used.lock();
        match token {
            None => used.own = Some(verified),
            Some(token) => {
                used.insert(token, verified);
                used.shrink(clients);
            }
        }
    }

    /// Replaces the remembered result for credentials.
    pub(super) fn renew(&self, token: Option<&[u8]>, verified: Verified) {
        let mut used = self.used.lock();
        let known = match token {
            None => used.own.as_mut(),
            Some(token) => used.tokens.peek_mut(token),
        };
        if let Some(known) = known {
            *known = verified;
        }
    }

    /// Forgets credentials that are not valid any more.
    pub(super) fn forget(&self, token: Option<&[u8]>) {
        let mut used = self.used.lock();
        match token {
            None => used.own = None,
            Some(token) => used.remove(token),
        }
    }

    /// Returns the credentials that were verified before this generation of the rules.
    pub(super) fn used_before(&self, generation: u64) -> Vec<Credential> {
        let used = self.used.lock();
        let own = used.own.iter().map(|verified| (None, verified));
        let tokens = used.tokens.iter();
        let tokens = tokens.map(|(token, verified)| (Some(token), verified));
        let older = own
            .chain(tokens)
            .filter(|(_, verified)| verified.generation < generation);
        let credential = |(token, verified): (Option<&Vec<u8>>, &Verified)| Credential {
            token: token.cloned(),
            verified: verified.clone(),
        };
        older.map(credential).collect()
    }

    /// Returns whether calls can be running whose credentials are not remembered.
    pub(super) fn has_forgotten_calls(&self, now: Instant) -> bool {
        let forgotten = self.used.lock().forgotten;
        forgotten.is_some_and(|time| now < time + LONGEST_CALL)
    }
}

impl Default for Used {
    fn default() -> Self {
        Self {
            own: None,
            tokens: LruCache::unbounded_with_hasher(RandomState::new()),
            token_bytes: 0,
            forgotten: None,
        }
    }
}

impl Used {
    fn insert(&mut self, token: &[u8], verified: Verified) {
        if self.tokens.put(token.to_vec(), verified).is_none() {
            self.token_bytes += token.len();
        }
    }

    fn remove(&mut self, token: &[u8]) {
        if self.tokens.pop(token).is_some() {
            self.token_bytes -= token.len();
        }
    }

    /// Forgets the tokens that were used longest ago, until the others fit. Those that have ended go first.
    fn shrink(&mut self, clients: Clients) {
        let (most, most_bytes) = clients.capacity();
        let is_full = |used: &Self| used.tokens.len() > most || used.token_bytes > most_bytes;
        if is_full(self) {
            let now = SystemTime::now();
            let is_over = |(_, verified): &(&Vec<u8>, &Verified)| verified.is_long_over(now);
            let over: Vec<Vec<u8>> = self
                .tokens
                .iter()
                .filter(is_over)
                .map(|(token, _)| token.clone())
                .collect();
            for token in over {
                self.remove(&token);
            }
        }
        while is_full(self)
            && let Some((token, _)) = self.tokens.pop_lru()
        {
            self.token_bytes -= token.len();
            self.forgotten = Some(Instant::now());
        }
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
    fn call_without_credentials_is_no_login() {
        let login = Login::default();
        login.remember(None, verified(1), Clients::One);
        assert!(!login.has_succeeded());
        login.remember(Some(b"token"), verified(1), Clients::One);
        assert!(login.has_succeeded());
    }

    #[test]
    fn connection_of_one_client_remembers_few_tokens() {
        let login = Login::default();
        let remember = |token: &[u8]| login.remember(Some(token), verified(1), Clients::One);
        login.remember(None, verified(0), Clients::One);
        remember(&[7; 16_384]);
        assert_eq!(login.used_before(1).len(), 1);
        remember(&[8; 16_384]);
        assert!(!login.has_forgotten_calls(Instant::now()));
        remember(b"short");
        assert!(login.known(Some(&[7; 16_384])).is_none(), "the oldest");
        assert!(login.known(Some(&[8; 16_384])).is_some());
        for number in 0..16_usize {
            remember(&number.to_be_bytes());
        }
        assert_eq!(login.used_before(2).len(), 1 + 16);
        assert!(login.known(None).is_some());
        let now = Instant::now();
        assert!(login.has_forgotten_calls(now));
        assert!(!login.has_forgotten_calls(now + LONGEST_CALL));
    }

    #[test]
    fn connection_of_a_proxy_remembers_thousands_of_tokens() {
        let login = Login::default();
        for number in 0..4_096_usize {
            login.remember(Some(&number.to_be_bytes()), verified(1), Clients::Many);
        }
        assert_eq!(login.used_before(2).len(), 4_096);
        assert!(!login.has_forgotten_calls(Instant::now()));
        login.remember(Some(b"one more"), verified(1), Clients::Many);
        assert!(login.has_forgotten_calls(Instant::now()));
    }

    #[test]
    fn tokens_that_ended_long_ago_take_no_place() {
        let login = Login::default();
        let expiry = SystemTime::now().checked_sub(2 * LONGEST_CALL);
        for number in 0..40_usize {
            let verified = Verified {
                expiry,
                ..verified(1)
            };
            login.remember(Some(&number.to_be_bytes()), verified, Clients::One);
        }
        assert!(!login.has_forgotten_calls(Instant::now()));
    }
}
