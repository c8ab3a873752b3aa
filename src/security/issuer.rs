//! The issuer of JSON Web Tokens: where its keys come from, and the check of its tokens.

use std::sync::Arc;
use std::time::SystemTime;

use super::jwks::Keys;
use super::jwks_url::PublishedKeys;
use super::jwt::{self, Claims, UNKNOWN_KEY};
use super::watched_file::WatchedFile;
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
    File(WatchedFile<Keys>),
    Address(Box<PublishedKeys>),
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
    /// same address.
    ///
    /// # Errors
    /// A text with the setting, the file, and the reason why it cannot be used.
    pub(super) fn open(settings: &config::Jwt, former: Option<&Self>) -> Result<Self, String> {
        let former = former.and_then(|former| match &former.keys {
            KeySource::File(_) => None,
            KeySource::Address(address) => Some(&**address),
        });
        let keys = match (&settings.jwks_file, &settings.jwks_url) {
            (Some(file), None) => KeySource::File(WatchedFile::open(FILE, file.clone(), parse)?),
            (None, Some(url)) => {
                let published = PublishedKeys::new(url, settings, former)?;
                KeySource::Address(Box::new(published))
            }
            _ => return Err(format!("{FILE}: set exactly one of jwks_file and jwks_url")),
        };
        Ok(Self {
            settings: settings.clone(),
            keys,
        })
    }

    /// Returns whether this issuer has the settings of another one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.settings == other.settings
    }

    /// Returns whether the keys come from the same address, or from none.
    pub(super) fn has_address_of(&self, other: &Self) -> bool {
        self.settings.jwks_url == other.settings.jwks_url
    }

    /// Reads the files again. Returns true if the keys have changed.
    pub(super) fn read_files(&self) -> bool {
        match &self.keys {
            KeySource::File(file) => file.read(),
            KeySource::Address(address) => {
                address.read_authorities();
                false
            }
        }
    }

    /// Fetches the keys from the issuer's address again and again. Calls `on_change` after each change.
    pub(super) async fn keep_keys(&self, on_change: impl Fn()) {
        match &self.keys {
            KeySource::File(_) => std::future::pending().await,
            KeySource::Address(address) => address.keep(on_change).await,
        }
    }

    /// Fetches the keys once, if they come from an address.
    ///
    /// # Errors
    /// A text with the address, and the reason why there are none.
    pub(super) async fn fetch_keys(&self) -> Result<(), String> {
        match &self.keys {
            KeySource::File(_) => Ok(()),
            KeySource::Address(address) => address.fetch_or_name().await,
        }
    }

    /// Checks a token. Returns its claims.
    ///
    /// # Errors
    /// The cause, for the log of the broker.
    pub(super) fn verify(&self, token: &[u8], now: SystemTime) -> Result<Claims, &'static str> {
        let verified = jwt::verify(token, &self.current(), &self.settings, now);
        match (&verified, &self.keys) {
            (Err(UNKNOWN_KEY), KeySource::Address(address)) if address.want() => {
                Err(KEY_IS_FETCHED)
            }
            _ => verified,
        }
    }

    /// Returns the number of keys of the last set, and of fetches.
    pub(super) fn key_counts(&self) -> KeyCounts {
        let keys = self.current();
        let [fetched, failed] = match &self.keys {
            KeySource::File(_) => [0, 0],
            KeySource::Address(address) => address.counts(),
        };
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

fn parse(text: &str) -> Result<Keys, String> {
    let keys = Keys::parse(text)?;
    keys.log_skipped(FILE);
    Ok(keys)
}
