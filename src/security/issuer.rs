//! The issuer of JSON Web Tokens: where its keys come from, and the check of its tokens.

use std::time::SystemTime;

use super::jwks::Keys;
use super::jwt::{self, Claims};
use super::watched_file::WatchedFile;
use crate::config;

/// The setting that names the file of keys.
const FILE: &str = "auth.jwt.jwks_file";

/// An issuer whose tokens are accepted.
pub(super) struct Issuer {
    settings: config::Jwt,
    keys: WatchedFile<Keys>,
}

/// The number of keys that an issuer publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// The keys that can verify tokens.
    pub used: usize,
    /// The others.
    pub skipped: usize,
}

impl Issuer {
    /// Reads the file of keys.
    ///
    /// # Errors
    /// A text with the setting, the file, and the reason why it cannot be used.
    pub(super) fn open(settings: &config::Jwt) -> Result<Self, String> {
        let keys = WatchedFile::open(FILE, settings.jwks_file.clone(), parse)?;
        Ok(Self {
            settings: settings.clone(),
            keys,
        })
    }

    /// Reads the file again. Returns true if the keys have changed.
    pub(super) fn read_file(&self) -> bool {
        self.keys.read()
    }

    /// Checks a token. Returns its claims.
    ///
    /// # Errors
    /// The cause, for the log of the broker.
    pub(super) fn verify(&self, token: &[u8], now: SystemTime) -> Result<Claims, &'static str> {
        jwt::verify(token, &self.keys.current(), &self.settings, now)
    }

    /// Returns the number of keys of the last set.
    pub(super) fn key_counts(&self) -> KeyCounts {
        let keys = self.keys.current();
        KeyCounts {
            used: keys.len(),
            skipped: keys.skipped(),
        }
    }
}

fn parse(text: &str) -> Result<Keys, String> {
    let keys = Keys::parse(text)?;
    keys.log_skipped(FILE);
    Ok(keys)
}
