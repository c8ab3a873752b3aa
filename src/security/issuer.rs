//! The issuer of JSON Web Tokens: where its keys come from, and the check of its tokens.

use std::sync::Arc;
use std::time::SystemTime;

use super::jwks::{EMPTY_SET, Keys, UNKNOWN_KEY};
use super::jwks_url::PublishedKeys;
use super::jwt::{self, Claims};
use super::watched_file::{Watched, WatchedFile, text};
use crate::config;

/// The setting that names the file of keys.
const FILE: &str = "auth.jwt.jwks_file";

/// The cause of a refusal that ends by itself: the token names a key that the broker is about to fetch.
pub(super) const KEY_IS_FETCHED: &str = "unknown key; the keys are being fetched";

/// An issuer whose tokens are accepted.
pub(super) struct Issuer {
    settings: config::Jwt,
    keys: KeySource,
}

enum KeySource {
    File(Arc<WatchedFile<Keys>>),
    Address(Arc<PublishedKeys>),
}

/// The keys of an issuer, and how often they were fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// The keys that can verify tokens.
    pub used: usize,
    /// The other keys of the set.
    pub skipped: usize,
    /// The fetches that brought a set that can be used.
    pub fetched: u64,
    /// The fetches that did not.
    pub failed: u64,
}

impl Issuer {
    /// Reads the file of keys, or prepares to fetch them. `former`: the issuer until now. Its keys stay in use if they come from the
    /// same file or address.
    ///
    /// # Errors
    /// A text with the setting, the file, and the reason why it cannot be used.
    pub(super) fn open(settings: &config::Jwt, former: Option<&Self>) -> Result<Self, String> {
        let (former_file, former) = match former.map(|former| &former.keys) {
            Some(KeySource::File(file)) => (Some(file), None),
            Some(KeySource::Address(address)) => (None, Some(address)),
            None => (None, None),
        };
        let keys = match (&settings.jwks_file, &settings.jwks_url) {
            (Some(file), None) => {
                KeySource::File(WatchedFile::open(FILE, file.clone(), parse, former_file)?)
            }
            (None, Some(url)) => KeySource::Address(PublishedKeys::open(url, settings, former)?),
            _ => return Err(format!("{FILE}: set exactly one of jwks_file and jwks_url")),
        };
        Ok(Self {
            settings: settings.clone(),
            keys,
        })
    }

    /// Returns the address that publishes the keys. `None`: they come from a file.
    pub(super) fn address(&self) -> Option<&Arc<PublishedKeys>> {
        match &self.keys {
            KeySource::File(_) => None,
            KeySource::Address(address) => Some(address),
        }
    }

    /// Returns the file of the keys. `None`: they come from an address.
    pub(super) fn file(&self) -> Option<Arc<dyn Watched>> {
        match &self.keys {
            KeySource::File(file) => Some(file.clone()),
            KeySource::Address(_) => None,
        }
    }

    /// Checks a token. Returns its claims.
    ///
    /// # Errors
    /// The cause, for the log of the broker.
    pub(super) fn verify(&self, token: &[u8], now: SystemTime) -> Result<Claims, &'static str> {
        let verified = jwt::verify(token, &self.current(), &self.settings, now);
        match (&verified, self.address()) {
            (Err(UNKNOWN_KEY), Some(address)) if address.want() => Err(KEY_IS_FETCHED),
            _ => verified,
        }
    }

    /// Returns the number of keys of the last set, and of fetches.
    pub(super) fn key_counts(&self) -> KeyCounts {
        let keys = self.current();
        let [fetched, failed] = self.address().map_or([0, 0], |address| address.counts());
        KeyCounts {
            used: keys.len(),
            skipped: keys.skipped(),
            fetched,
            failed,
        }
    }

    fn current(&self) -> Arc<Keys> {
        match &self.keys {
            KeySource::File(file) => file.current(),
            KeySource::Address(address) => address.current(),
        }
    }
}

/// Parses the file of keys. A set without a key takes the last key away. At an address it would be a failure of the issuer.
fn parse(content: &[u8]) -> Result<Keys, String> {
    let keys = match Keys::parse(text(content)?) {
        Err(reason) if reason == EMPTY_SET => Keys::default(),
        parsed => parsed?,
    };
    keys.log_skipped(FILE);
    Ok(keys)
}
