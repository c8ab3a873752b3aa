//! Security: which clients may connect, who a caller is, and what it may do.
//!
//! This module knows no gRPC. `grpc` asks it, and turns a refusal into a status. `docs/security.md` explains it to
//! operators.
//!
//! | file | content |
//! |---|---|
//! | `tls.rs` | the broker's certificate, and the files of TLS |
//! | `client_verifier.rs`, `authorities.rs` | the check of clients' certificates |
//! | `revocation_lists.rs` | the lists of certificates that were revoked |
//! | `pem.rs`, `validity.rs` | certificates and keys in files, and the times of a certificate |
//! | `certificate_names.rs`, `spiffe.rs` | the names in a client's certificate |
//! | `shown_certificate.rs` | the certificate of a client of the admin port |
//! | `tokens.rs`, `jwt.rs` | the two kinds of bearer tokens |
//! | `issuer.rs`, `jwks.rs`, `jwks_url.rs` | the issuer of JSON Web Tokens, and its keys |
//! | `access.rs`, `rules.rs`, `login.rs`, `verification_rate.rs` | from credentials to an identity |
//! | `identity.rs`, `rights.rs`, `patterns.rs` | an identity, its roles and its limits |
//! | `watched_file.rs` | a file that is read again when its content changes |

mod access;
mod authorities;
mod certificate_names;
mod client_verifier;
pub(crate) mod fuzzing;
mod identity;
mod issuer;
mod jwks;
mod jwks_url;
mod jwt;
mod login;
mod patterns;
pub(crate) mod pem;
mod revocation_lists;
mod rights;
mod rules;
mod shown_certificate;
mod spiffe;
mod tls;
mod tokens;
pub(crate) mod validity;
mod verification_rate;
mod watched_file;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) use self::access::Lost;
pub use self::access::{Access, Presented, Refusal, RefusalKind};
pub use self::certificate_names::CertificateNames;
pub use self::identity::{Identity, OverLimit, WaitingPlace};
pub use self::issuer::KeyCounts;
pub use self::login::Login;
pub use self::rights::{Rights, Rpc, RpcService};
pub use self::rules::Rules;
pub(crate) use self::shown_certificate::ShownCertificate;
pub use self::tls::ServerTls;
pub use self::tokens::{Token, Tokens, hash_of_token, new_token};
use crate::config::Config;

/// The interval at which files are read again.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// TLS and access control of one server. Both are `None` by default: plain text, and every caller may do everything.
#[derive(Default)]
pub struct Security {
    /// TLS on the gRPC port.
    pub tls: Option<Arc<ServerTls>>,
    /// Identities and roles.
    pub access: Option<Arc<Access>>,
    /// Notified when the files must be read now.
    read_now: Arc<Notify>,
}

impl Security {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// A text with the setting, the file, and the reason why the file cannot be used.
    pub fn open(config: &Config) -> Result<Self, String> {
        let tls = config.server.tls.as_ref().map(ServerTls::open);
        let access = config.auth.as_ref().map(Access::open);
        Ok(Self {
            tls: tls.transpose()?.map(Arc::new),
            access: access.transpose()?.map(Arc::new),
            read_now: Arc::default(),
        })
    }

    /// Does the same for a configuration that replaces a running one. `tls` and `access`: those of the running server. The settings of
    /// TLS must be the same.
    ///
    /// # Errors
    /// As [`Self::open`] and [`Access::open_next`].
    pub async fn open_next(
        config: &Config,
        tls: Option<Arc<ServerTls>>,
        access: Option<&Access>,
    ) -> Result<Self, String> {
        let access = match (&config.auth, access) {
            (None, _) => None,
            (Some(auth), None) => Some(Access::open(auth)?),
            (Some(auth), Some(former)) => Some(former.open_next(auth).await?),
        };
        Ok(Self {
            tls,
            access: access.map(Arc::new),
            read_now: Arc::default(),
        })
    }

    /// Returns a handle that makes the server read the files again when it is notified.
    pub fn read_now(&self) -> Arc<Notify> {
        self.read_now.clone()
    }

    /// Reads the files again at intervals until `stop` is cancelled.
    pub(crate) async fn watch_files(self, stop: CancellationToken) {
        if self.tls.is_none() && self.access.is_none() {
            return;
        }
        let access = self.access.clone();
        let mut fetching = std::pin::pin!(async {
            match access {
                Some(access) => access.keep_keys().await,
                None => std::future::pending().await,
            }
        });
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = &mut fetching => {}
                () = tokio::time::sleep(READ_INTERVAL) => {}
                () = self.read_now.notified() => {}
            }
            let (tls, access) = (self.tls.clone(), self.access.clone());
            let read = tokio::task::spawn_blocking(move || {
                if let Some(access) = access {
                    access.read_files();
                }
                if let Some(tls) = tls {
                    tls.read_files();
                }
            });
            let _ = read.await;
        }
    }
}
