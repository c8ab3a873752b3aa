//! The logins of a pool: the meaning of a failed one, and the time at which credentials that the server has refused are tried again.
//!
//! Before the first login that succeeds, a login that somebody has to correct is a misconfiguration, and the program ends. After it, the
//! same settings have worked, so it is an outage of the store: a token is late, a certificate has expired, an identity service is down.
//! Callers wait, and the broker tries again.

use std::time::Duration;

use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{Applied, Outage, OutageCause, StoreError};

/// Delay before refused credentials are tried again. Each further refusal doubles it, up to the maximum. A server locks an account after
/// a few failed logins, and then refuses the right password too.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Maximum number of refused credentials that are remembered. Usually there are two: those in use and those in a changed file.
const MAX_REFUSED: usize = 4;

/// The errors about user or password: wrong, of an untrusted domain, locked, expired, to be changed.
const WRONG_CREDENTIALS: [u32; 5] = [18_456, 18_452, 18_486, 18_487, 18_488];

/// The digest of a connection string and an access token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Credentials([u8; 32]);

impl Credentials {
    pub(super) fn new(connection_string: &SecretString, token: Option<&SecretString>) -> Self {
        let mut digest = Sha256::new_with_prefix(connection_string.expose_secret());
        if let Some(token) = token {
            digest.update([0]);
            digest.update(token.expose_secret());
        }
        Self(digest.finalize().into())
    }
}

/// Credentials that the server has refused.
struct Refused {
    credentials: Credentials,
    outage: Outage,
    /// When the server refused them last.
    at: Instant,
    delay: Duration,
    /// They are not tried before.
    until: Instant,
}

#[derive(Default)]
struct State {
    /// True: a login has succeeded since the pool was created.
    has_succeeded: bool,
    /// True: no login has succeeded since a connection could not be opened for a reason that somebody has to correct.
    is_refused: bool,
    refused: Vec<Refused>,
}

/// The logins of a pool.
#[derive(Default)]
pub(super) struct Logins(Mutex<State>);

impl Logins {
    /// Begins a login, and returns the time for [`Self::end`].
    ///
    /// # Errors
    /// The last refusal of the same credentials, if they may not be tried yet.
    pub(super) fn begin(&self, credentials: Credentials) -> Result<Instant, StoreError> {
        let now = Instant::now();
        let mut state = self.0.lock();
        let mut refused = state.refused.iter_mut();
        if let Some(refused) = refused.find(|refused| refused.credentials == credentials) {
            if now < refused.until {
                let seconds = (refused.until - now).as_secs() + 1;
                let reason = &refused.outage.reason;
                return Err(StoreError::Unavailable(Outage {
                    reason: format!("{reason}; the same credentials are tried again in {seconds}s"),
                    ..refused.outage.clone()
                }));
            }
            // This login tries them for all. Others wait for its outcome.
            refused.until = now + refused.delay;
        }
        Ok(now)
    }

    /// Notes the outcome of a login that began at `start`.
    pub(super) fn end(&self, credentials: Credentials, start: Instant, error: Option<&StoreError>) {
        let mut state = self.0.lock();
        let outage = match error {
            None => {
                *state = State {
                    has_succeeded: true,
                    ..State::default()
                };
                return;
            }
            Some(StoreError::Unavailable(outage))
                if outage
                    .number
                    .is_some_and(|number| WRONG_CREDENTIALS.contains(&number)) =>
            {
                outage
            }
            Some(_) => return,
        };
        let mut refused = state.refused.iter();
        let before = refused.position(|refused| refused.credentials == credentials);
        let before = before.map(|index| state.refused.remove(index));
        let delay = before.map_or(FIRST_DELAY, |before| {
            // Logins that ran at the same time are one try.
            if before.at > start {
                before.delay
            } else {
                MAX_DELAY.min(before.delay * 2)
            }
        });
        if state.refused.len() == MAX_REFUSED {
            state.refused.remove(0);
        }
        let now = Instant::now();
        state.refused.push(Refused {
            credentials,
            outage: outage.clone(),
            at: now,
            delay,
            until: now + delay,
        });
    }

    /// Returns whether the last connection could not be opened for a reason that somebody has to correct. Connections that are still
    /// open then prove nothing about new ones.
    pub(super) fn is_refused(&self) -> bool {
        self.0.lock().is_refused
    }

    /// Notes that a connection could not be opened, and returns the error with its meaning at this time.
    pub(super) fn failure(&self, error: StoreError) -> StoreError {
        let outage = match error {
            StoreError::Unavailable(outage) if outage.cause == OutageCause::Login => outage,
            // For example, the changed connection string cannot be parsed.
            StoreError::Misconfigured(reason) => Outage {
                reason,
                cause: OutageCause::Login,
                applied: Applied::No,
                ..Outage::default()
            },
            other => return other,
        };
        let mut state = self.0.lock();
        state.is_refused = true;
        if state.has_succeeded {
            StoreError::Unavailable(outage)
        } else {
            StoreError::Misconfigured(outage.reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn credentials(password: &str, token: Option<&str>) -> Credentials {
        let token = token.map(SecretString::from);
        Credentials::new(&password.into(), token.as_ref())
    }

    fn refusal(number: u32) -> StoreError {
        StoreError::Unavailable(Outage {
            number: Some(number),
            cause: OutageCause::Login,
            ..Outage::from("no")
        })
    }

    /// Returns the seconds after which each of the next tries is let through, if the server refuses all of them.
    async fn waits(logins: &Logins, credentials: Credentials, number: u32) -> Vec<u64> {
        let mut waits = Vec::new();
        for _ in 0..8 {
            let first = Instant::now();
            let start = loop {
                match logins.begin(credentials) {
                    Ok(start) => break start,
                    Err(error) => assert!(error.to_string().contains("no; the same"), "{error}"),
                }
                advance(Duration::from_millis(500)).await;
            };
            waits.push(first.elapsed().as_secs());
            logins.end(credentials, start, Some(&refusal(number)));
        }
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn refused_credentials_wait_up_to_a_minute() {
        for number in WRONG_CREDENTIALS {
            let waits = waits(&Logins::default(), credentials("old", None), number).await;
            assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 60], "{number}");
        }
        let of_firewall = waits(&Logins::default(), credentials("old", None), 40_615).await;
        assert_eq!(of_firewall, [0; 8]);
    }

    #[tokio::test(start_paused = true)]
    async fn other_credentials_are_tried_immediately() {
        let logins = Logins::default();
        let old = credentials("old", None);
        let others = [
            credentials("new", None),
            credentials("old", Some("token")),
            credentials("old", Some("next token")),
        ];
        waits(&logins, old, 18_456).await;
        for other in others {
            let start = logins.begin(other).expect("other credentials");
            logins.end(other, start, Some(&refusal(18_486)));
        }
        for refused in [old, others[0], others[1], others[2]] {
            assert!(logins.begin(refused).is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_login_tries_refused_credentials_for_all() {
        let logins = Logins::default();
        let old = credentials("old", None);
        let starts = [(); 4].map(|()| logins.begin(old).expect("not refused yet"));
        advance(Duration::from_millis(10)).await;
        for start in starts {
            logins.end(old, start, Some(&refusal(18_456)));
        }
        advance(FIRST_DELAY).await;
        let start = logins.begin(old).expect("their delay is that of one");
        assert!(logins.begin(old).is_err());
        // The network failed, which says nothing about the credentials.
        let cut = StoreError::unavailable("cut");
        logins.end(old, start, Some(&cut));
        advance(FIRST_DELAY).await;
        let start = logins.begin(old).expect("the next try");
        logins.end(old, start, None);
        logins.begin(old).expect("accepted");
        logins.begin(old).expect("accepted");
    }

    #[test]
    fn refused_login_is_a_misconfiguration_until_one_succeeds() {
        let logins = Logins::default();
        let old = credentials("old", None);
        let start = logins.begin(old).expect("not refused");
        let misconfigured = || StoreError::Misconfigured("no".to_owned());
        assert_eq!(logins.failure(refusal(40_615)), misconfigured());
        assert_eq!(logins.failure(misconfigured()), misconfigured());
        logins.end(old, start, None);
        assert_eq!(logins.failure(refusal(40_615)), refusal(40_615));
        let outage = StoreError::not_begun(OutageCause::Login, "no");
        assert_eq!(logins.failure(misconfigured()), outage);
    }

    #[test]
    fn login_is_refused_until_one_succeeds() {
        let logins = Logins::default();
        let old = credentials("old", None);
        logins.failure(StoreError::unavailable("cut"));
        assert!(!logins.is_refused());
        logins.failure(refusal(40_615));
        assert!(logins.is_refused());
        let start = logins.begin(old).expect("not refused");
        logins.end(old, start, None);
        assert!(!logins.is_refused());
    }
}
