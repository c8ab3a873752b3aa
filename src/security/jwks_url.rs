//! The keys of an issuer, fetched from the address at which it publishes them.
//!
//! They are fetched again every few minutes, and at once when a token names a key that the set does not have: the issuer may have
//! replaced its keys. Anybody can send such tokens, so these fetches are rationed. A set that cannot be fetched or used leaves the
//! last one in use.

use std::error::Error as _;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use lease_broker_model::text::visible;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client};
use tokio::sync::Notify;

use super::jwks::Keys;
use crate::config;

/// The setting that has the address.
const SETTING: &str = "auth.jwt.jwks_url";
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
    client: Client,
    url: String,
    /// The last good set and its text. Without keys until the first set.
    current: RwLock<Arc<Published>>,
    /// Notified when the set must be fetched now.
    wanted: Notify,
    ration: DefaultDirectRateLimiter,
    /// True while a set is fetched, or is about to be.
    is_coming: AtomicBool,
    fetched: AtomicU64,
    failed: AtomicU64,
}

#[derive(Default)]
struct Published {
    text: Vec<u8>,
    keys: Arc<Keys>,
}

impl PublishedKeys {
    /// Prepares the fetches. Nothing is fetched here.
    ///
    /// # Errors
    /// A text with the setting that cannot be used.
    pub(super) fn new(url: &str, settings: &config::Jwt) -> Result<Self, String> {
        let mut client = Client::builder()
            .user_agent(concat!("lease-broker/", env!("CARGO_PKG_VERSION")))
            .timeout(FETCH_TIMEOUT)
            // Another address would not be the one that the configuration trusts.
            .redirect(Policy::none());
        if settings.is_local() {
            // The address is on this host.
            client = client.no_proxy();
        } else {
            client = client.https_only(true);
        }
        if let Some(path) = &settings.jwks_ca_file {
            let problem = |error: &dyn std::fmt::Display| {
                format!("auth.jwt.jwks_ca_file: {}: {error}", path.display())
            };
            let pem = std::fs::read(path).map_err(|error| problem(&error))?;
            let certificates = Certificate::from_pem_bundle(&pem);
            client = client.tls_certs_only(certificates.map_err(|error| problem(&error))?);
        }
        let client = client.build();
        let quota = Quota::with_period(RATION_INTERVAL).unwrap_or(Quota::per_hour(RATION));
        Ok(Self {
            client: client.map_err(|error| format!("auth.jwt.jwks_url: {}", causes(&error)))?,
            url: url.to_owned(),
            current: RwLock::default(),
            wanted: Notify::new(),
            ration: RateLimiter::direct(quota.allow_burst(RATION)),
            is_coming: AtomicBool::new(true),
            fetched: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// Returns the keys of the last good set.
    pub(super) fn current(&self) -> Arc<Keys> {
        self.lock_current().keys.clone()
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
        self.is_coming.store(true, Ordering::Release);
        self.wanted.notify_one();
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
                            setting = SETTING, url = %self.url, "keys are fetched again"
                        );
                    }
                    is_failing = false;
                    REFRESH
                }
                Err(reason) => {
                    // The log leaves repetitions out.
                    tracing::error!(
                        target: "lease_broker::audit",
                        setting = SETTING, url = %self.url, reason = %visible(&reason),
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
        let fetched = self.download().await.and_then(|text| self.replace(text));
        let count = if fetched.is_ok() {
            &self.fetched
        } else {
            &self.failed
        };
        count.fetch_add(1, Ordering::Relaxed);
        fetched
    }

    async fn download(&self) -> Result<Vec<u8>, String> {
        let failed = |error: reqwest::Error| causes(&error.without_url());
        let mut response = self.client.get(&self.url).send().await.map_err(failed)?;
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

    /// Uses a set from now on. Returns true if it verifies other tokens than the one before.
    fn replace(&self, text: Vec<u8>) -> Result<bool, String> {
        if self.lock_current().text == text {
            return Ok(false);
        }
        let parsed = str::from_utf8(&text).map_err(|error| error.to_string());
        let keys = Arc::new(parsed.and_then(Keys::parse)?);
        let is_new = self.current() != keys;
        if is_new {
            let (used, skipped) = (keys.len(), keys.skipped());
            tracing::info!(
                target: "lease_broker::audit",
                setting = SETTING, url = %self.url, used, skipped, "keys fetched"
            );
            keys.log_skipped(SETTING);
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(Published { text, keys });
        Ok(is_new)
    }

    fn lock_current(&self) -> Arc<Published> {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }
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
