//! Security: which clients may connect, who a caller is, and what it may do.
//!
//! This module knows no gRPC. `grpc` asks it, and turns a refusal into a status. `docs/security.md` explains it to
//! operators.
//!
//! | file | content |
//! |---|---|
//! | `tls.rs` | the broker's certificate, and the files of TLS |
//! | `client_verifier.rs`, `authorities.rs` | the check of clients' certificates |
//! | `revocation_lists.rs`, `list_age.rs` | the lists of certificates that were revoked |
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
mod list_age;
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

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::access::Lost;
pub use self::access::{Access, Presented, Refusal, RefusalKind};
pub use self::certificate_names::CertificateNames;
pub use self::identity::{Identity, OverLimit};
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
    /// Sends when the files must be read now.
    read_now: watch::Sender<()>,
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
            read_now: watch::Sender::default(),
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
            read_now: watch::Sender::default(),
        })
    }

    /// Returns a sender that makes the server read the files again.
    pub fn read_now(&self) -> watch::Sender<()> {
        self.read_now.clone()
    }

    /// Reads the files again at intervals, and keeps the keys of the issuer, until `stop` is cancelled.
    pub(crate) async fn watch_files(self, stop: CancellationToken) {
        let keep_keys = async {
            if let Some(access) = &self.access {
                access.keep_keys().await;
            }
        };
        let work = async {
            tokio::join!(
                keep_keys,
                self.read_again(self.access.as_ref(), Access::read_files),
                self.read_again(self.tls.as_ref(), ServerTls::read_files),
            );
        };
        stop.run_until_cancelled(work).await;
    }

    /// Reads some of the files again at intervals. If one hangs, the others are still read.
    async fn read_again<T: Send + Sync + 'static>(&self, files: Option<&Arc<T>>, read: fn(&T)) {
        let Some(files) = files else { return };
        let mut read_now = self.read_now.subscribe();
        // A file can have changed since it was opened.
        read_now.mark_changed();
        loop {
            // An interval that has passed is no error. The sender lives as long as `self`.
            let _ = tokio::time::timeout(READ_INTERVAL, read_now.changed()).await;
            let files = files.clone();
            let _ = tokio::task::spawn_blocking(move || read(&files)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rcgen::generate_simple_self_signed;
    use rustix::fs::{FileType, Mode};

    use super::*;
    use crate::config::Sources;

    #[tokio::test(flavor = "multi_thread")]
    async fn tokens_file_that_hangs_does_not_keep_certificates_from_being_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [tokens, certificate, key] =
            ["tokens", "tls.crt", "tls.key"].map(|name| folder.path().join(name));
        let write_certificate = || {
            let signed = generate_simple_self_signed(["localhost".to_owned()]).expect("signed");
            fs::write(&certificate, signed.cert.pem()).expect("written");
            fs::write(&key, signed.signing_key.serialize_pem()).expect("written");
        };
        write_certificate();
        fs::write(&tokens, "").expect("written");
        let [tokens_text, certificate_text, key_text] =
            [&tokens, &certificate, &key].map(|path| path.display());
        let config = Sources::default().load_text(&format!(
            "auth = {{ tokens_file = '{tokens_text}', anonymous = ['worker'] }}
            server.tls = {{ certificate = '{certificate_text}', key = '{key_text}' }}
            queues.work.managed_columns = {{ payload = 'text' }}"
        ));
        let security = Security::open(&config.expect("valid")).expect("usable files");
        // A reader of a pipe waits for a writer.
        fs::remove_file(&tokens).expect("removed");
        rustix::fs::mknodat(rustix::fs::CWD, &tokens, FileType::Fifo, Mode::RWXU, 0).expect("made");
        write_certificate();
        let mut changes = security.tls.as_ref().expect("TLS").changes();
        let stop = CancellationToken::new();
        let watching = tokio::spawn(security.watch_files(stop.clone()));
        let read = tokio::time::timeout(2 * READ_INTERVAL, changes.changed()).await;
        // The blocked reader must end, because the runtime waits for it.
        drop(File::options().write(true).open(&tokens).expect("opened"));
        stop.cancel();
        watching.await.expect("stopped");
        read.expect("in time").expect("the state has changed");
    }
}
