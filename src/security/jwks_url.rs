//! The keys of an issuer, fetched from the address at which it publishes them.
//!
//! They are fetched again every few minutes, and at once when a token names a key that the set does not have: the issuer may have
//! replaced its keys. Anybody can send such tokens, so these fetches are rationed. A set that cannot be fetched or used leaves the
//! last one in use.

use std::error::Error as _;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use lease_broker_model::text::visible;
use parking_lot::RwLock;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client};
use tokio::sync::Notify;

use super::jwks::Keys;
use super::pem::certificates;
use super::watched_file::{Watched, WatchedFile, text};
use crate::config;

/// The setting that has the address, and the one that names the authorities of its certificate.
const SETTING: &str = "auth.jwt.jwks_url";
const AUTHORITIES: &str = "auth.jwt.jwks_ca_file";
/// The time after which a good set, and a failure, are fetched again.
const REFRESH: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_secs(10);
/// The fetches because of unknown keys: this number at once, and then one for each interval.
const RATION: NonZeroU32 = NonZeroU32::new(3).unwrap();
const RATION_INTERVAL: Duration = Duration::from_secs(10);
/// The limits of one fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_SET_BYTES: usize = 1 << 20;

/// The keys that an issuer publishes.
pub(super) struct PublishedKeys {
    /// The authorities that the fetches trust, as PEM. `None`: those of the system.
    authorities: Option<Arc<WatchedFile<String>>>,
    pub(super) url: String,
    is_local: bool,
    /// The last good set. Without keys until the first one.
    current: RwLock<Arc<Keys>>,
    /// Notified when the set must be fetched now.
    wanted: Notify,
    ration: DefaultDirectRateLimiter,
    /// True while a set is fetched, or is about to be.
    is_coming: AtomicBool,
    fetched: AtomicU64,
    failed: AtomicU64,
}

impl PublishedKeys {
    /// Prepares the fetches. Nothing is fetched here. `former`: keys that were used before. Those of the same address stay in use, and
    /// their fetches go on if they trust the same file of authorities.
    ///
    /// # Errors
    /// A text with the setting that cannot be used.
    pub(super) fn open(
        url: &str,
        settings: &config::Jwt,
        former: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, String> {
        let authorities = settings.jwks_ca_file.clone().map(|path| {
            let former = former.and_then(|former| former.authorities.as_ref());
            WatchedFile::open(AUTHORITIES, path, parse_authorities, former)
        });
        let authorities = authorities.transpose()?;
        let former = former.filter(|former| former.url == url);
        let path = |file: &Arc<WatchedFile<String>>| file.path().to_owned();
        if let Some(former) = former
            && former.authorities.as_ref().map(path) == authorities.as_ref().map(path)
        {
            return Ok(former.clone());
        }
        let current = former.map(|former| former.current()).unwrap_or_default();
        let quota = Quota::with_period(RATION_INTERVAL).unwrap_or(Quota::per_hour(RATION));
        let keys = Self {
            authorities,
            url: url.to_owned(),
            is_local: settings.is_local(),
            current: RwLock::new(current),
            wanted: Notify::new(),
            ration: RateLimiter::direct(quota.allow_burst(RATION)),
            is_coming: AtomicBool::new(true),
            fetched: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        keys.new_client()().map_err(|reason| format!("{SETTING}: {reason}"))?;
        Ok(Arc::new(keys))
    }

    /// Returns the address without its query, which can have a secret.
    fn shown_url(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }

    /// Returns the file of authorities.
    pub(super) fn authorities(&self) -> Option<Arc<dyn Watched>> {
        self.authorities
            .clone()
            .map(|file| file as Arc<dyn Watched>)
    }

    /// Fetches the set soon.
    pub(super) fn fetch_soon(&self) {
        self.is_coming.store(true, Ordering::Release);
        self.wanted.notify_one();
    }

    /// Returns the keys of the last good set.
    pub(super) fn current(&self) -> Arc<Keys> {
        self.current.read().clone()
    }

    /// Returns the numbers of fetches that brought a good set, and of all others.
    pub(super) fn counts(&self) -> [u64; 2] {
        [&self.fetched, &self.failed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Fetches the set soon, because a token names a key that it does not have. Returns false if that was done too often.
    pub(super) fn want(&self) -> bool {
        if self.is_coming.load(Ordering::Acquire) {
            return true;
        }
        if self.ration.check().is_err() {
            return false;
        }
        self.fetch_soon();
        true
    }

    /// Fetches the set again and again. Calls `on_change` after each change of the keys.
    pub(super) async fn keep(&self, on_change: impl Fn()) {
        let mut is_failing = false;
        loop {
            let pause = match self.fetch().await {
                Ok(is_new) => {
                    if is_new {
                        on_change();
                    }
                    if is_failing {
                        tracing::warn!(
                            target: "lease_broker::audit",
                            setting = SETTING, url = %self.shown_url(), "keys are fetched again"
                        );
                    }
                    is_failing = false;
                    REFRESH
                }
                Err(reason) => {
                    // The log leaves repetitions out.
                    tracing::error!(
                        target: "lease_broker::audit",
                        setting = SETTING, url = %self.shown_url(), reason = %visible(&reason),
                        "keys cannot be fetched; the last good set stays in use"
                    );
                    is_failing = true;
                    RETRY
                }
            };
            self.is_coming.store(false, Ordering::Release);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    /// Fetches the set once. Returns true if its keys are new.
    ///
    /// # Errors
    /// The reason why there is no set that can be used.
    pub(super) async fn fetch(&self) -> Result<bool, String> {
        let fetched = self.download().await.and_then(|text| self.replace(&text));
        let count = if fetched.is_ok() {
            &self.fetched
        } else {
            &self.failed
        };
        count.fetch_add(1, Ordering::Relaxed);
        fetched
    }

    /// Does the same. The error names the address too.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub(super) async fn fetch_or_name(&self) -> Result<(), String> {
        let fetched = self.fetch().await;
        fetched
            .map(drop)
            .map_err(|reason| format!("{SETTING}: {}: {}", self.shown_url(), visible(&reason)))
    }

    async fn download(&self) -> Result<Vec<u8>, String> {
        let failed = |error: reqwest::Error| causes(&error.without_url());
        let client = tokio::task::spawn_blocking(self.new_client()).await;
        let client = client.map_err(|error| error.to_string())??;
        let mut response = client.get(&self.url).send().await.map_err(failed)?;
        if response.status() != http::StatusCode::OK {
            return Err(format!("the answer has the status {}", response.status()));
        }
        let mut text = Vec::new();
        while let Some(part) = response.chunk().await.map_err(failed)? {
            if text.len() + part.len() > MAX_SET_BYTES {
                return Err(format!("the answer has more than {MAX_SET_BYTES} bytes"));
            }
            text.extend_from_slice(&part);
        }
        Ok(text)
    }

    /// Returns a function that makes a client with the last usable authorities. Without them it reads those of the system from the disk.
    fn new_client(&self) -> impl FnOnce() -> Result<Client, String> + Send + use<> {
        let authorities = self.authorities.as_ref().map(|file| file.current());
        let is_local = self.is_local;
        move || client(is_local, authorities.as_deref().map(String::as_str))
    }

    /// Uses a set from now on. Returns true if it verifies other tokens than the one before.
    fn replace(&self, set: &[u8]) -> Result<bool, String> {
        let keys = Arc::new(Keys::parse(text(set)?)?);
        let is_new = self.current() != keys;
        if is_new {
            let (used, skipped) = (keys.len(), keys.skipped());
            tracing::info!(
                target: "lease_broker::audit",
                setting = SETTING, url = %self.shown_url(), used, skipped, "keys fetched"
            );
            keys.log_skipped(SETTING);
        }
        *self.current.write() = keys;
        Ok(is_new)
    }
}

/// Returns a client that trusts these authorities. `None`: those of the system. `is_local`: the address is on this host.
fn client(is_local: bool, authorities: Option<&str>) -> Result<Client, String> {
    let mut client = Client::builder()
        .user_agent(concat!("lease-broker/", env!("CARGO_PKG_VERSION")))
        .timeout(FETCH_TIMEOUT)
        // Another address would not be the one that the configuration trusts.
        .redirect(Policy::none());
    if is_local {
        client = client.no_proxy();
    } else {
        client = client.https_only(true);
    }
    if let Some(pem) = authorities {
        let certificates = Certificate::from_pem_bundle(pem.as_bytes());
        client = client.tls_certs_only(certificates.map_err(|error| causes(&error))?);
    }
    client.build().map_err(|error| causes(&error))
}

fn parse_authorities(pem: &[u8]) -> Result<String, String> {
    certificates(pem)?;
    let pem = text(pem)?;
    // Those that the client refuses leave the last ones in use.
    client(false, Some(pem))?;
    Ok(pem.to_owned())
}

/// Returns an error and its causes. The client's own text does not say what went wrong.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_same_address_stay_in_use() {
        let open = |url: &str, audience: &str, former: Option<&Arc<PublishedKeys>>| {
            let settings = config::Jwt {
                jwks_url: Some(url.to_owned()),
                audience: audience.to_owned(),
                ..config::Jwt::default()
            };
            PublishedKeys::open(url, &settings, former).expect("settings")
        };
        let former = open("http://localhost/keys", "first", None);
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"1","x":"{x}"}}]}}"#);
        assert_eq!(former.replace(set.as_bytes()), Ok(true));
        assert_eq!(former.replace(format!("{set} ").as_bytes()), Ok(false));
        let same = open("http://localhost/keys", "second", Some(&former));
        assert_eq!(same.current().len(), 1);
        let other = open("http://localhost/others?secret", "first", Some(&former));
        assert_eq!(other.current().len(), 0);
        assert_eq!(other.shown_url(), "http://localhost/others");
    }
}
