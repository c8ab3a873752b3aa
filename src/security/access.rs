//! Access control: finds the identity of a caller by its credentials.
//!
//! | credentials | identity |
//! |---|---|
//! | a bearer token | the first entry of the configuration that fits the token. A certificate does not count then |
//! | a certificate | the first entry that fits its names |
//! | none | that of callers without credentials, if the configuration gives them a role |
//!
//! A caller gets the same answer for every credential that is not valid. The cause is in the log only.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;
use sha2::{Digest as _, Sha256};

use super::certificate_names::CertificateNames;
use super::failed_logins::FailedLogins;
use super::identity::Identity;
use super::issuer::{Issuer, KEY_IS_FETCHED, KeyCounts};
use super::jwt::Claims;
use super::login::{CertificateIdentity, Login};
use super::patterns::{fits, fits_dns_name, fits_spiffe_id};
use super::tokens::{PREFIX, Tokens};
use super::watched_file::WatchedFile;
use crate::config;

/// The longest token, in bytes. A longer one is not looked at.
const MAX_TOKEN_BYTES: usize = 8 << 10;
/// The longest time for which a verified token is not verified again.
const MAX_REMEMBERED: Duration = Duration::from_secs(60);
/// The number of JSON Web Tokens that are remembered for all connections.
const REMEMBERED_JWTS: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();
/// The failed logins after which a connection is closed.
const MAX_FAILURES: u32 = 5;
/// The delay for a client whose credentials were not checked, because too many were wrong.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The identities of a broker.
pub struct Access {
    entries: Vec<Entry>,
    /// The identity of callers without credentials. `None`: they are refused.
    anonymous: Option<Arc<Identity>>,
    tokens: Option<WatchedFile<Tokens>>,
    issuer: Option<Issuer>,
    verified_jwts: Mutex<LruCache<[u8; 32], VerifiedJwt>>,
    failed: FailedLogins,
    /// Increases when a file has changed. What was verified before is verified again.
    generation: AtomicU64,
}

/// An identity with the settings that say which callers have it.
struct Entry {
    settings: config::Identity,
    identity: Arc<Identity>,
}

#[derive(Clone)]
struct VerifiedJwt {
    identity: Arc<Identity>,
    until: Instant,
    generation: u64,
}

/// The credentials in the headers of a call.
#[derive(Clone, Copy)]
pub enum Presented<'a> {
    /// No credentials.
    None,
    /// A bearer token.
    Bearer(&'a [u8]),
    /// Something else, with the reason why it cannot be used.
    Unusable(&'static str),
}

/// A call without valid credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The answer for the caller.
    pub kind: RefusalKind,
    /// The cause, for the log.
    pub cause: &'static str,
    /// The delay after which the call can be sent again. `None`: that cannot help.
    pub retry_after: Option<Duration>,
    /// True: the connection must be closed.
    pub closes_connection: bool,
}

/// The answer to a call without valid credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The call has no credentials, and callers without credentials have no role.
    Missing,
    /// The call has credentials that are not valid.
    Invalid,
    /// Too many credentials from there were not valid, so that these were not checked.
    TooMany,
}

impl Access {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// A text with the setting, the file, and the reason why it cannot be used.
    pub fn open(settings: &config::Auth) -> Result<Self, String> {
        let scope = settings.lease_scope;
        let entry = |settings: &config::Identity| Entry {
            settings: settings.clone(),
            identity: Arc::new(Identity::new(settings, scope)),
        };
        let tokens = settings.tokens_file.clone();
        let tokens = tokens.map(|path| WatchedFile::open("auth.tokens_file", path, Tokens::parse));
        let issuer = settings.jwt.as_ref().map(Issuer::open);
        let anonymous = Identity::anonymous(&settings.anonymous, scope);
        Ok(Self {
            entries: settings.identities.iter().map(entry).collect(),
            anonymous: (!anonymous.rights.is_empty()).then(|| Arc::new(anonymous)),
            tokens: tokens.transpose()?,
            issuer: issuer.transpose()?,
            verified_jwts: Mutex::new(LruCache::new(REMEMBERED_JWTS)),
            failed: FailedLogins::new(Instant::now()),
            generation: AtomicU64::new(0),
        })
    }

    /// Reads the files again. If one has changed, every token is verified again.
    pub fn read_files(&self) {
        let tokens_changed = self.tokens.as_ref().is_some_and(WatchedFile::read);
        let keys_changed = self.issuer.as_ref().is_some_and(Issuer::read_file);
        if tokens_changed || keys_changed {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns the identity of a call on a connection. `address`: that of the client, `None` if many clients share it.
    ///
    /// # Errors
    /// [`Refusal`] if the call has no valid credentials.
    pub fn identify(
        &self,
        login: &Login,
        address: Option<IpAddr>,
        presented: Presented<'_>,
    ) -> Result<Arc<Identity>, Refusal> {
        let cause = match presented {
            Presented::None => {
                match login.certificate_identity(|names| self.of_certificate(names)) {
                    None => return self.anonymous.clone().ok_or(MISSING),
                    Some(Ok(identity)) => return Ok(identity),
                    Some(Err(cause)) => cause,
                }
            }
            Presented::Bearer(token) => {
                let generation = self.generation.load(Ordering::Acquire);
                if let Some(identity) = login.remembered(token, generation) {
                    return Ok(identity);
                }
                if self.failed.are_too_many(address, Instant::now()) {
                    return Err(TOO_MANY);
                }
                match self.of_bearer(token, generation) {
                    Ok((identity, until)) => {
                        login.remember(token, &identity, until, generation);
                        return Ok(identity);
                    }
                    Err(KEY_IS_FETCHED) => return Err(FETCHING),
                    Err(cause) => cause,
                }
            }
            Presented::Unusable(cause) => cause,
        };
        self.failed.count(address, Instant::now());
        // Many clients share a connection without an address. It must outlive one client's failures.
        let failures = address.map_or(0, |_| login.count_failure());
        Err(Refusal {
            kind: RefusalKind::Invalid,
            cause,
            retry_after: None,
            closes_connection: failures >= MAX_FAILURES,
        })
    }

    /// Fetches the keys of the issuer of JSON Web Tokens again and again. After each change, every token is verified again.
    pub(crate) async fn keep_keys(&self) {
        let on_change = || {
            self.generation.fetch_add(1, Ordering::AcqRel);
        };
        match &self.issuer {
            Some(issuer) => issuer.keep_keys(on_change).await,
            None => std::future::pending().await,
        }
    }

    /// Fetches the keys of the issuer of JSON Web Tokens once, if they come from an address.
    ///
    /// # Errors
    /// The reason why there are none.
    pub(crate) async fn fetch_keys(&self) -> Result<(), String> {
        match &self.issuer {
            Some(issuer) => issuer.fetch_keys().await,
            None => Ok(()),
        }
    }

    /// Returns the number of keys that the issuer of JSON Web Tokens publishes. `None`: there is no issuer.
    pub(crate) fn key_counts(&self) -> Option<KeyCounts> {
        self.issuer.as_ref().map(Issuer::key_counts)
    }

    /// Returns the identity of callers without credentials. `None`: they are refused.
    pub(crate) fn anonymous(&self) -> Option<Arc<Identity>> {
        self.anonymous.clone()
    }

    /// Returns the identity of a certificate with these names.
    pub(crate) fn of_certificate(&self, names: &CertificateNames) -> CertificateIdentity {
        let fits_names = |entry: &&Entry| {
            let config::Identity { spiffe, dns, .. } = &entry.settings;
            let spiffe_id = names.spiffe_id.as_deref();
            let by_spiffe = spiffe.as_ref().zip(spiffe_id);
            by_spiffe.is_some_and(|(pattern, id)| fits_spiffe_id(pattern, id))
                || dns.as_ref().is_some_and(|pattern| {
                    let mut names = names.dns_names.iter();
                    names.any(|name| fits_dns_name(pattern, name))
                })
        };
        self.find(fits_names)
            .ok_or("no identity fits the certificate")
    }

    /// Returns the identity of the token with this name in the file of tokens.
    pub(crate) fn of_token_name(&self, name: &str) -> CertificateIdentity {
        self.find(|entry| entry.settings.token.as_deref() == Some(name))
            .ok_or("no identity has the token's name")
    }

    /// Returns the identity of a bearer token, and the time until which it need not be verified again.
    pub(crate) fn of_bearer(
        &self,
        token: &[u8],
        generation: u64,
    ) -> Result<(Arc<Identity>, Instant), &'static str> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err("the token has more than 8 KiB");
        }
        let now = SystemTime::now();
        if token.starts_with(PREFIX.as_bytes()) {
            let tokens = self.tokens.as_ref().ok_or("tokens are not configured")?;
            let tokens = tokens.current();
            let token = tokens.find(token).ok_or("unknown token")?;
            let until = remembered_until(token.not_after, now).ok_or("expired token")?;
            return Ok((self.of_token_name(&token.name)?, until));
        }
        self.of_jwt(token, generation, now)
    }

    fn of_jwt(
        &self,
        token: &[u8],
        generation: u64,
        now: SystemTime,
    ) -> Result<(Arc<Identity>, Instant), &'static str> {
        let issuer = self.issuer.as_ref().ok_or("unknown token")?;
        let hash: [u8; 32] = Sha256::digest(token).into();
        let remembered = self.lock_jwts().get(&hash).cloned();
        if let Some(verified) = remembered
            && verified.generation == generation
            && Instant::now() < verified.until
        {
            return Ok((verified.identity, verified.until));
        }
        let claims = issuer.verify(token, now)?;
        let until = remembered_until(Some(claims.expiry), now);
        // A token within the tolerated difference of the clocks is verified again for each call.
        let until = until.unwrap_or_else(Instant::now);
        let identity = self
            .find(|entry| fits_claims(&entry.settings, &claims))
            .ok_or("no identity fits the token's claims")?;
        let verified = VerifiedJwt {
            identity: identity.clone(),
            until,
            generation,
        };
        self.lock_jwts().put(hash, verified);
        Ok((identity, until))
    }

    fn lock_jwts(&self) -> std::sync::MutexGuard<'_, LruCache<[u8; 32], VerifiedJwt>> {
        let jwts = self.verified_jwts.lock();
        jwts.unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, fits: impl FnMut(&&Entry) -> bool) -> Option<Arc<Identity>> {
        let entry = self.entries.iter().find(fits);
        entry.map(|entry| entry.identity.clone())
    }
}

const MISSING: Refusal = Refusal {
    kind: RefusalKind::Missing,
    cause: "no credentials",
    retry_after: None,
    closes_connection: false,
};
/// The caller cannot know which keys the broker has, so this is no failed login.
const FETCHING: Refusal = Refusal {
    kind: RefusalKind::Invalid,
    cause: KEY_IS_FETCHED,
    retry_after: Some(RETRY_DELAY),
    closes_connection: false,
};
const TOO_MANY: Refusal = Refusal {
    kind: RefusalKind::TooMany,
    cause: "not checked: too many failed logins",
    retry_after: Some(RETRY_DELAY),
    closes_connection: false,
};

fn fits_claims(settings: &config::Identity, claims: &Claims) -> bool {
    let pattern = settings.jwt_subject.as_ref();
    pattern.is_some_and(|pattern| fits(pattern, &claims.subject))
        && settings
            .jwt_claims
            .iter()
            .all(|(claim, value)| claims.has(claim, value))
}

/// Returns the time until which a token that ends at `expiry` need not be verified again. `None`: it has ended.
fn remembered_until(expiry: Option<SystemTime>, now: SystemTime) -> Option<Instant> {
    let left = match expiry {
        None => MAX_REMEMBERED,
        Some(expiry) => expiry
            .duration_since(now)
            .ok()
            .filter(|left| !left.is_zero())?,
    };
    Some(Instant::now() + left.min(MAX_REMEMBERED))
}
