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
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::certificate_names::CertificateNames;
use super::identity::Identity;
use super::issuer::{Issuer, KEY_IS_FETCHED, KeyCounts};
use super::login::{Clients, Login, Verified};
use super::rules::{Found, Rules};
use super::tokens::PREFIX;
use super::verification_rate::VerificationRate;
use super::watched_file::Watched;
use crate::config;

/// The longest token, in bytes. A longer one is not looked at.
const MAX_TOKEN_BYTES: usize = 8 << 10;
/// The longest time for which a verified token is not verified again.
const MAX_REMEMBERED: Duration = Duration::from_secs(60);
/// The number of JSON Web Tokens that are remembered for all connections.
const REMEMBERED_JWTS: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// The identities of a broker.
pub struct Access {
    rules: watch::Sender<Arc<Rules>>,
    /// Increases when the rules or a file have changed. What was verified before is verified again.
    generation: watch::Sender<u64>,
    verified_jwts: Mutex<LruCache<[u8; 32], Verified>>,
    rate: VerificationRate,
}

/// The reason why a call has no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The call has no credentials, and callers without credentials have no role.
    Missing,
    /// The call has credentials that are not valid.
    Invalid {
        /// The cause, for the log.
        cause: &'static str,
    },
    /// The token names a key that the broker is about to fetch. The caller cannot know which keys the broker has, so this is no
    /// failed login.
    Fetching,
    /// The signature of the token was not verified, because too many others were.
    TooMany,
}

impl Refusal {
    /// The delay after which a call can be sent again whose token was not verified.
    pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(1);

    /// Returns the cause, for the log.
    pub(crate) fn cause(&self) -> &'static str {
        match self {
            Self::Missing => "no credentials",
            Self::Invalid { cause } => cause,
            Self::Fetching => KEY_IS_FETCHED,
            Self::TooMany => "too many unknown tokens",
        }
    }
}

/// The reason why a connection must end after the rules have changed.
pub(crate) enum Lost {
    /// This identity has lost a right.
    Right(Arc<Identity>),
    /// Calls can be running whose tokens are not remembered, so they cannot be checked.
    Track,
}

/// Where a token comes from, as far as it decides whether its signature is verified.
#[derive(Clone, Copy)]
enum Sender {
    /// An address from which unknown tokens have a rate. `None`: many clients share it.
    At(Option<IpAddr>),
    /// A caller that has logged in before.
    Known,
}

impl Access {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// A text with the setting, the file, and the reason why it cannot be used.
    pub fn open(settings: &config::Auth) -> Result<Self, String> {
        Ok(Self {
            rules: watch::Sender::new(Arc::new(Rules::open(settings, None)?)),
            generation: watch::Sender::new(0),
            verified_jwts: Mutex::new(LruCache::new(REMEMBERED_JWTS)),
            rate: VerificationRate::new(),
        })
    }

    /// Returns the parts that are read from files.
    pub(super) fn files(&self) -> Vec<Arc<dyn Watched>> {
        self.rules().files()
    }

    /// Returns the file of the authorities that the address of the issuer's keys is checked by. It changes no right.
    pub(super) fn keys_authorities(&self) -> Option<Arc<dyn Watched>> {
        self.rules().key_address()?.authorities()
    }

    /// Verifies all credentials again, after a file has changed.
    pub(super) fn use_files(&self) {
        self.start_generation();
    }

    /// Fetches the keys of the issuer soon, if they come from an address.
    pub(super) fn fetch_keys_soon(&self) {
        if let Some(address) = self.rules().key_address() {
            address.fetch_soon();
        }
    }

    /// Prepares the rules of a new configuration: reads the files, which can block, and fetches keys from an address that is new. The
    /// rules have no effect yet.
    ///
    /// # Errors
    /// As [`Self::open`], and the keys cannot be fetched.
    pub async fn prepare(&self, settings: &config::Auth) -> Result<Rules, String> {
        let former = self.rules();
        let rules = Rules::open(settings, Some(&former))?;
        rules.fetch_new_keys(&former).await?;
        Ok(rules)
    }

    /// Replaces the rules. All credentials are verified again.
    pub fn replace(&self, rules: Rules) {
        self.rules.send_replace(Arc::new(rules));
        self.start_generation();
    }

    /// Returns a receiver that sees each change of the rules.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Returns the identity of a call on a connection. `address`: that of the client, `None` if many clients share it. `token`: a bearer
    /// token, `None` if the call has none.
    ///
    /// # Errors
    /// [`Refusal`] if the call has no valid credentials.
    pub fn identify(
        &self,
        login: &Login,
        address: Option<IpAddr>,
        token: Option<&[u8]>,
    ) -> Result<Arc<Identity>, Refusal> {
        loop {
            let generation = self.generation();
            let known = login.known(token);
            if let Some(verified) = &known
                && verified.is_current(generation)
            {
                return Ok(verified.identity.clone());
            }
            let has_logged_in = address.is_some() && login.has_succeeded();
            let sender = if known.is_some() || has_logged_in {
                Sender::Known
            } else {
                Sender::At(address)
            };
            let now = SystemTime::now();
            let verified = self.verify(login, sender, token, generation, now)?;
            let identity = verified.identity.clone();
            let clients = address.map_or(Clients::Many, |_| Clients::One);
            login.remember(token, verified, clients);
            // Otherwise the rules have changed meanwhile, and the connection may have been checked before this call.
            if self.generation() == generation {
                return Ok(identity);
            }
        }
    }

    /// Checks again the credentials that calls on a connection have used. Returns the reason why the connection must end.
    ///
    /// A call goes on if its token expires. So a token that has expired lately is checked as it was at its last moment.
    pub(crate) fn check_again(&self, login: &Login) -> Option<Lost> {
        let generation = self.generation();
        let now = SystemTime::now();
        for used in login.used_before(generation) {
            let token = used.token.as_deref();
            if used.verified.is_long_over(now) {
                login.forget(token);
                continue;
            }
            let expiry = used.verified.expiry.filter(|expiry| *expiry <= now);
            let moment = expiry.map_or(now, |expiry| expiry - Duration::from_nanos(1));
            let former = used.verified.identity;
            match self.verify(login, Sender::Known, token, generation, moment) {
                Ok(verified) if verified.identity.has_rights_of(&former) => {
                    login.renew(token, verified);
                }
                _ => return Some(Lost::Right(former)),
            }
        }
        let has_forgotten = login.has_forgotten_calls(Instant::now());
        has_forgotten.then_some(Lost::Track)
    }

    /// Fetches the keys of the issuer of JSON Web Tokens again and again. After each change, all credentials are verified again.
    pub(crate) async fn keep_keys(&self) {
        let mut rules = self.rules.subscribe();
        loop {
            let address = rules.borrow_and_update().key_address().cloned();
            let kept = async {
                match address {
                    Some(address) => address.keep(|| self.start_generation()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = kept => {}
                _ = rules.changed() => {}
            }
        }
    }

    /// Fetches the keys of the issuer of JSON Web Tokens once, if they come from an address.
    ///
    /// # Errors
    /// The reason why there are none.
    pub(crate) async fn fetch_keys(&self) -> Result<(), String> {
        match self.rules().key_address() {
            Some(address) => address.fetch_or_name().await,
            None => Ok(()),
        }
    }

    /// Returns the number of keys that the issuer of JSON Web Tokens publishes. `None`: there is no issuer.
    pub(crate) fn key_counts(&self) -> Option<KeyCounts> {
        self.rules().issuer.as_ref().map(Issuer::key_counts)
    }

    /// Returns the identity of callers without credentials. `None`: they are refused.
    pub(crate) fn anonymous(&self) -> Option<Arc<Identity>> {
        self.rules().anonymous.clone()
    }

    /// Returns the identity of a certificate with these names.
    pub(crate) fn of_certificate(&self, names: &CertificateNames) -> Found {
        self.rules().of_certificate(names)
    }

    /// Returns the identity of the token with this name in the file of tokens.
    pub(crate) fn of_token_name(&self, name: &str) -> Found {
        self.rules().of_token_name(name)
    }

    /// Returns the identity of a bearer token that belongs to no connection. `address`: as for [`Self::identify`].
    ///
    /// # Errors
    /// The reason why the token is refused.
    pub(crate) fn of_bearer(
        &self,
        token: &[u8],
        address: Option<IpAddr>,
    ) -> Result<Arc<Identity>, Refusal> {
        self.identify(&Login::default(), address, Some(token))
    }

    /// Verifies credentials at a moment: a token, or without one the certificate of the connection, or no credentials.
    fn verify(
        &self,
        login: &Login,
        sender: Sender,
        token: Option<&[u8]>,
        generation: u64,
        now: SystemTime,
    ) -> Result<Verified, Refusal> {
        let rules = self.rules();
        let invalid = |cause| Refusal::Invalid { cause };
        let verified = |identity, expiry| verified(identity, expiry, now, generation);
        let Some(token) = token else {
            let identity = match login.certificate() {
                None => rules.anonymous.clone().ok_or(Refusal::Missing)?,
                Some(names) => names
                    .and_then(|names| rules.of_certificate(names))
                    .map_err(invalid)?,
            };
            return verified(identity, None).map_err(invalid);
        };
        if token.len() > MAX_TOKEN_BYTES {
            return Err(invalid("the token has more than 8 KiB"));
        }
        if token.starts_with(PREFIX.as_bytes()) {
            let token = rules.static_token(token).map_err(invalid)?;
            let identity = rules.of_token_name(&token.name).map_err(invalid)?;
            return verified(identity, token.not_after).map_err(invalid);
        }
        let Some(issuer) = &rules.issuer else {
            return Err(invalid("unknown token"));
        };
        let hash: [u8; 32] = Sha256::digest(token).into();
        let earlier = self.verified_jwts.lock().get(&hash).cloned();
        if let Some(verified) = &earlier
            && verified.is_current(generation)
        {
            return Ok(verified.clone());
        }
        if let (None, Sender::At(address)) = (earlier, sender)
            && !self.rate.admit(address)
        {
            return Err(Refusal::TooMany);
        }
        let claims = issuer.verify(token, now);
        let checked = claims.and_then(|claims| {
            // A token within the tolerated difference of the clocks is verified again for each call.
            let expiry = claims.expiry.max(now + Duration::from_nanos(1));
            verified(rules.of_claims(&claims)?, Some(expiry))
        });
        match checked {
            Ok(verified) => {
                self.verified_jwts.lock().put(hash, verified.clone());
                if let Sender::At(address) = sender {
                    self.rate.has_logged_in(address);
                }
                Ok(verified)
            }
            Err(KEY_IS_FETCHED) => Err(Refusal::Fetching),
            Err(cause) => {
                self.verified_jwts.lock().pop(&hash);
                Err(invalid(cause))
            }
        }
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.borrow().clone()
    }

    fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    fn start_generation(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }
}

fn verified(
    identity: Arc<Identity>,
    expiry: Option<SystemTime>,
    now: SystemTime,
    generation: u64,
) -> Result<Verified, &'static str> {
    let left = match expiry {
        None => MAX_REMEMBERED,
        Some(expiry) => expiry.duration_since(now).unwrap_or_default(),
    };
    if left.is_zero() {
        return Err("expired token");
    }
    Ok(Verified {
        identity,
        expiry,
        until: Instant::now() + left.min(MAX_REMEMBERED),
        generation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Auth;
    use crate::security::{hash_of_token, new_token};

    #[tokio::test]
    async fn call_whose_token_has_expired_ends_if_its_identity_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens");
        let token = new_token();
        // In whole seconds, as in the file.
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = seconds.expect("after 1970").as_secs() - 1;
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let moment = humantime::format_rfc3339_seconds(end);
        let line = format!("fleet:{}:{moment}\n", hash_of_token(&token));
        std::fs::write(&path, line).expect("written");
        let rules = |name: &str| {
            let identities = format!(
                "[[identities]]\nname = '{name}'\ntoken = '{name}'\nroles = {{ worker = ['work'] }}"
            );
            let mut auth: Auth = toml::from_str(&identities).expect("settings");
            auth.tokens_file = Some(path.clone());
            auth
        };
        let access = Access::open(&rules("fleet")).expect("rules");
        let login = Login::default();
        let verified = Verified {
            identity: access.of_token_name("fleet").expect("an identity"),
            expiry: Some(end),
            until: Instant::now(),
            generation: access.generation(),
        };
        login.remember(Some(token.as_bytes()), verified, Clients::One);
        access.start_generation();
        assert!(access.check_again(&login).is_none(), "it has only ended");
        let others = access.prepare(&rules("others")).await.expect("rules");
        access.replace(others);
        let Some(Lost::Right(lost)) = access.check_again(&login) else {
            panic!("a lost right");
        };
        assert_eq!(lost.name, "fleet");
    }
}
